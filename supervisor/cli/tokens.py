"""`supervisor token`: make a token for a person, list whose tokens count, and revoke one.

A token is revoked for a store, in a file beside it (channels/web/revocations.py): a daemon that serves it lets nobody
in with that token from then on, nor with a login that began with it; the next daemon neither.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say
from supervisor.cli.configuring import ConfigOption
from supervisor.cli.exits import Exit
from supervisor.cli.options import HERE, JsonOption, Place
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.visible import visible

if TYPE_CHECKING:
    from supervisor.channels.web.revocations import Revocations
    from supervisor.config import Configuration


def token(
    action: Annotated[
        Literal["make", "list", "revoke"],
        Parameter(help="make: a token and its hash. list: whose tokens there are. revoke: end one, and its logins."),
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
        raise InvalidInput("say which token: supervisor token revoke TOKEN, or its hash; make and list take none")
    if which is None:
        return _make(as_json=json) if action == "make" else _list(config, place, as_json=json)
    return _revoke(sys.stdin.readline() if which == "-" else which, config, place, as_json=json)


def _make(*, as_json: bool) -> int:
    from supervisor.core.people import hash_token, new_token

    made = new_token()
    if as_json:
        answers.print_json({"token": made, "hash": hash_token(made)})
    else:
        print(f"token  {made}\nhash   {hash_token(made)}")
        say("Give the token to the person, and write the hash into tokens of [people.NAME]; the token is not kept.")
    return Exit.DONE


def _list(config: Path | None, place: Place, *, as_json: bool) -> int:
    configuration, place = configured(config, place)
    revocations, now = _revocations(place), datetime.now(UTC)
    found: list[dict[str, Any]] = []
    for person in configuration.persons():
        for known in person.tokens:
            status = "revoked" if known.hash in revocations else "counts" if known.is_valid(now) else "expired"
            found.append({"person": person.name, "hash": known.hash, "expires_at": known.expires_at, "status": status})
    if as_json:
        answers.print_json(found)
    for each in found if not as_json else ():
        until = f" until {each['expires_at']:%Y-%m-%d %H:%M %Z}" if each["expires_at"] else ""
        print(f"{each['hash']}  {visible(each['person'])}: {each['status']}{until}")
    if not found and not as_json:
        say("Nobody has a token in the configuration; name it with --config." if config is None else "Nobody has one.")
    return Exit.DONE


def _revoke(shown: str, config: Path | None, place: Place, *, as_json: bool) -> int:
    from supervisor.channels.terminal import login_name
    from supervisor.channels.web.revocations import Revocation
    from supervisor.config import is_token_hash
    from supervisor.core.people import PREFIX, hash_token
    from supervisor.system.inside import refuse_inside_call

    refuse_inside_call("revoking a token")
    shown = shown.strip()
    if not shown or (shown.startswith(PREFIX) and not is_token_hash(shown)):
        raise InvalidInput(f"give the token, or its hash: {PREFIX} and 64 hexadecimal digits")
    hashed = shown if is_token_hash(shown) else hash_token(shown)
    configuration, place = configured(config, place)
    if not place.exists:
        raise NotFound(f"there is no store at {place.path}; name the one that is served with --config or --store")
    whose = [each.name for each in configuration.persons() if any(hashed == known.hash for known in each.tokens)]
    _revocations(place).add(Revocation(token=hashed, at=datetime.now(UTC), by=login_name()))
    if as_json:
        answers.print_json({"hash": hashed, "person": whose[0] if whose else None, "store": str(place.path)})
    else:
        print(f"revoked {hashed}: {visible(whose[0]) if whose else 'nobody in the configuration'}")
        say(f"Whoever shows it, or logged in with it, is let in no more at {place.path}.")
    return Exit.DONE


def configured(config: Path | None, place: Place) -> "tuple[Configuration, Place]":
    """Return the configuration that a command names, and the place that the command or else the configuration names."""
    from supervisor.config import Configuration, read_configuration

    configuration = Configuration() if config is None else read_configuration(config)
    if place.store is None and (file := configuration.store_file) is not None:
        return configuration, Place(os.fspath(file))
    return configuration, place


def _revocations(place: Place) -> "Revocations":
    from supervisor.channels.web.revocations import Revocations, revocations_of

    return Revocations(revocations_of(place.path))
