"""Changes over a map or a list, which stays unchanged until they are merged: a draft of a session consists of them.

The cost of an overlay and of its merge depends on the number of changes, not on the size of the base. A small base is
copied instead: that is faster, and makes fewer objects for the garbage collector.

Rules
- The base of an overlay changes by `merge` only; of two overlays over one base, one is merged and the other dropped.
- Each overlay reads and iterates as a changed copy would, in the same order.
- Most maps of most sessions are empty. They are one shared map, EMPTY, which `map_with` replaces.
"""

from collections.abc import Iterator, MutableMapping
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, cast

SMALL: Final = 50
"""The number of entries up to which a copy is cheaper than an overlay."""
K = TypeVar("K")
V = TypeVar("V")
EMPTY: Final = cast("MutableMapping[Any, Any]", MappingProxyType({}))
"""An empty map that refuses every change."""


class MapOverlay(MutableMapping[K, V]):
    """A dict with changes."""

    __slots__ = ("_base", "_changed", "_removed")

    def __init__(self, base: MutableMapping[K, V]) -> None:
        self._base = base
        self._changed: dict[K, V] = {}
        self._removed: set[K] = set()
        """Keys that have lost their place in the base. A key that was set again is at the end, as in a dict."""

    def __getitem__(self, key: K) -> V:
        if key in self._changed:
            return self._changed[key]
        if key in self._removed:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._changed or (key in self._base and key not in self._removed)

    def __setitem__(self, key: K, value: V) -> None:
        self._changed[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._changed.pop(key, None)
        if key in self._base:
            self._removed.add(key)

    def __iter__(self) -> Iterator[K]:
        return chain((key for key in self._base if key not in self._removed), self._added())

    def __len__(self) -> int:
        return len(self._base) - len(self._removed) + sum(1 for _ in self._added())

    def _added(self) -> Iterator[K]:
        return (key for key in self._changed if key not in self._base or key in self._removed)

    def merge(self) -> MutableMapping[K, V]:
        """Apply the changes to the base, and return it."""
        for key in self._removed:
            del self._base[key]
        self._base.update(self._changed)
        return self._base


class ListOverlay(Generic[V]):
    """A list with additional entries at its end."""

    __slots__ = ("_added", "_base")

    def __init__(self, base: "Entries[V]") -> None:
        self._base = base
        self._added: list[V] = []

    def __getitem__(self, place: int) -> V:
        if not 0 <= place < len(self):
            raise IndexError(place)
        beyond = place - len(self._base)
        return self._base[place] if beyond < 0 else self._added[beyond]

    def __iter__(self) -> Iterator[V]:
        return chain(self._base, self._added)

    def __len__(self) -> int:
        return len(self._base) + len(self._added)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | ListOverlay) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # it changes

    def append(self, value: V) -> None:
        self._added.append(value)

    def merge(self) -> "Entries[V]":
        """Append the additional entries to the base, and return it."""
        for value in self._added:
            self._base.append(value)
        return self._base


Entries = list[V] | ListOverlay[V]


def map_over(base: MutableMapping[K, V]) -> MutableMapping[K, V]:
    """Return a map for changes in place of `base`."""
    if not base:
        return EMPTY
    return base.copy() if type(base) is dict and len(base) <= SMALL else MapOverlay(base)


def list_over(base: Entries[V]) -> Entries[V]:
    """Return a list for additions in place of `base`."""
    return base.copy() if type(base) is list and len(base) <= SMALL else ListOverlay(base)


def map_with(base: MutableMapping[K, V], key: K, value: V) -> MutableMapping[K, V]:
    """Set an entry, and return the map that has it: another one in place of EMPTY."""
    if base is EMPTY:
        return {key: value}
    base[key] = value
    return base
