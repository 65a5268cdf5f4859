"""`supervisor token`: make a token for a person, list tokens, and revoke one.

A token is revoked for a store, in a file next to it (channels/web/revocations.py). From then on, daemons that serve the
store refuse the token, and logins that began with it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.configuring import ConfigOption
from supervisor.cli.exits import Exit
from supervisor.cli.options import HERE, JsonOption, Place
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.text.visible import visible

if TYPE_CHECKING:
    from supervisor.channels.web.revocations import Revocations
    from supervisor.wiring.config import Configuration


def token(
    action: Annotated[
        Literal["make", "list", "revoke"],
        Parameter(
            help="make: a token and its hash. list: all tokens. revoke: one token, and logins that began with it."
        ),
    ] = "make",
    which: Annotated[
        str | None, Parameter(help="To revoke: the token, or its hash (sha256:...); - reads it from stdin.")
    ] = None,
    /,
    *,
    config: ConfigOption = None,
    place: Place = HERE,
    json: JsonOption = False,
) -> int:
    """Make a token for a person, and the hash of it for the configuration; list tokens; revoke one."""
    if (which is not None) != (action == "revoke"):
        raise InvalidInput(
            "revoke needs a token or its hash, as in: supervisor token revoke TOKEN; make and list take none"
        )
    if which is None:
        return _make(as_json=json) if action == "make" else _list(config, place, as_json=json)
    return _revoke(sys.stdin.readline() if which == "-" else which, config, place, as_json=json)


def _make(*, as_json: bool) -> int:
    from supervisor.core.approvals.people import hash_token, new_token

    made = new_token()
    if as_json:
        answers.print_json({"token": made, "hash": hash_token(made)})
    else:
        print(f"token  {made}\nhash   {hash_token(made)}")
        say_on_stderr(
            "Give the token to the person, and write the hash into tokens of [people.NAME]. The token is kept nowhere."
        )
    return Exit.DONE


def _list(config: Path | None, place: Place, *, as_json: bool) -> int:
    configuration, place = configured(config, place)
    now = datetime.now(UTC)
    found: list[dict[str, Any]] = []
    with _revocations(place) as revocations:
        for person in configuration.persons():
            for known in person.tokens:
                status = "revoked" if known.hash in revocations else "valid" if known.is_valid(now) else "expired"
                row = {"person": person.name, "hash": known.hash, "expires_at": known.expires_at, "status": status}
                found.append(row)
    if as_json:
        answers.print_json(found)
    for each in found if not as_json else ():
        until = f" until {each['expires_at']:%Y-%m-%d %H:%M %Z}" if each["expires_at"] else ""
        print(f"{each['hash']}  {visible(each['person'])}: {each['status']}{until}")
    if not found and not as_json:
        say_on_stderr(
            "There are no tokens: name a configuration with --config." if config is None else "There are no tokens."
        )
    return Exit.DONE


def _revoke(shown: str, config: Path | None, place: Place, *, as_json: bool) -> int:
    from supervisor.channels.web.revocations import Revocation
    from supervisor.core.approvals.people import PREFIX, hash_token
    from supervisor.system.identity import current_user
    from supervisor.wiring.config import is_token_hash

    shown = shown.strip()
    if not shown or (shown.startswith(PREFIX) and not is_token_hash(shown)):
        raise InvalidInput(f"give the token or its hash, which is {PREFIX} and 64 hexadecimal digits")
    hashed = shown if is_token_hash(shown) else hash_token(shown)
    configuration, place = configured(config, place)
    if not place.exists:
        raise NotFound(f"there is no store at {place.where}; name the store that is served, with --config or --store")
    whose = [each.name for each in configuration.persons() if any(hashed == known.hash for known in each.tokens)]
    with _revocations(place) as revocations:
        revocations.add(Revocation(token=hashed, at=datetime.now(UTC), by=current_user()))
    if as_json:
        answers.print_json({"hash": hashed, "person": whose[0] if whose else None, "store": place.where})
    else:
        print(f"revoked {hashed}: {visible(whose[0]) if whose else 'of no person in the configuration'}")
        say_on_stderr(f"Daemons that serve {place.where} refuse it from now on, and logins that began with it.")
    return Exit.DONE


def configured(config: Path | None, place: Place) -> "tuple[Configuration, Place]":
    """Return the configuration that a command names, and the place that the command or else the configuration names."""
    from supervisor.wiring.config import Configuration, read_configuration

    configuration = Configuration() if config is None else read_configuration(config)
    if place.store is None and (file := configuration.store_file) is not None:
        return configuration, Place(os.fspath(file))
    if place.store is None and (url := configuration.postgres or configuration.temporal) is not None:
        return configuration, Place(str(url))
    return configuration, place


@contextmanager
def _revocations(place: Place) -> "Iterator[Revocations]":
    from supervisor.channels.web.revocations import Revocations, revocations_of
    from supervisor.wiring.app import opened

    if place.postgres is None:
        yield Revocations(revocations_of(place.path if place.temporal is None else place.mirror))
        return
    with opened(place.postgres) as store:
        yield Revocations(store.book("revoked"))
