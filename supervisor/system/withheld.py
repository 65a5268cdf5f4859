"""Which variables of this process no command gets (T4): those that hold secrets of ours, and no others.

Rules
- A variable is withheld if a registered kind of channel declares it, if the configuration names it for a channel, or if
  this package reads it. So these names come from where they are declared, and no list must follow them.
- A variable is withheld, too, if its value is a secret that we hold, whatever its name: also one word of it, as in
  "Bearer TOKEN", and a part of it if it is a URL. Only hashes of held secrets are kept here.
- A kind of another distribution is asked once, when the first command begins. If it cannot be imported, all variables
  that begin with its name are withheld.
- SUPERVISOR_STORE is withheld if it names a database: who has the URL can write the store, if the server lets them.
- What a caller adds to a command's environment is the caller's: it is not withheld.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final
from urllib.parse import unquote

from supervisor.core.approvals.channel_kinds import ENTRY_POINTS, KINDS
from supervisor.core.approvals.people import hash_token
from supervisor.core.store_urls import is_postgres

OURS: Final = ("SUPERVISOR_TOKEN", "SUPERVISOR_SERVER", "SUPERVISOR_TEMPORAL_", "TEMPORAL_")
"""Beginnings of the names of variables that this package reads itself: where a server is, and who we are there."""

_named: Final[set[str]] = set()
_beginnings: Final[set[str]] = set()
_held: Final[set[str]] = set()


def withhold(variable: str) -> None:
    """Withhold a variable that the configuration names."""
    _named.add(variable)


def withhold_all(beginning: str) -> None:
    """Withhold each variable whose name begins so."""
    _beginnings.add(beginning)


def withhold_secret(secret: str) -> None:
    """Withhold each variable that has this secret."""
    if secret.strip():
        _held.add(hash_token(secret.strip()))


def hold_hashes(hashes: Iterable[str]) -> None:
    """Withhold each variable that has a secret of which we know the hash only (core/approvals/people.py)."""
    _held.update(hashes)


def is_withheld(name: str, value: str) -> bool:
    """Return whether no command gets a variable of this process."""
    names, beginnings = _registered()
    if name in names or name in _named or name.startswith((*beginnings, *_beginnings)):
        return True
    if name == "SUPERVISOR_STORE" and is_postgres(value):
        return True
    return bool(_held) and not _held.isdisjoint(_hashes_of(value))


@lru_cache(maxsize=4096)  # each command has the same variables
def _hashes_of(value: str) -> tuple[str, ...]:
    parts = map(unquote, re.split("[/:@?&=]", value)) if "://" in value else ()
    return tuple(map(hash_token, {value.strip(), *value.split(), *parts}))


@cache
def _registered() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names that registered kinds declare, and beginnings of names."""
    names = {secret.variable(kind) for kind, found in KINDS.items() for secret in found.secrets}
    beginnings = [*OURS]
    for point in entry_points(group=ENTRY_POINTS):
        try:
            names |= set(_declared(point))
        except (Exception, SystemExit):  # noqa: BLE001 # another author's module may raise anything
            beginnings.append(f"{point.name}_".upper().replace("-", "_"))
    return frozenset(names), tuple(beginnings)


def _declared(point: EntryPoint) -> Iterator[str]:
    settings: Any = point.load()
    for secret in settings.secrets:
        yield secret.variable(point.name)
