"""Adding results to a file whose lines name their parents.

Theory: such a file is a tree in which one path, from the tip to the root, is the conversation. To add a line in the
middle of the path, the line after it must get another parent; every other branch stays unchanged.

Rules:
- At the tip: append. In the middle: insert after the frame, and give the one successor on the path a new parent.
- When a line is dropped, the nearest ancestor that is kept becomes the parent of its children, on every branch.
- In a line that gets a new parent only the bytes of the parent's id change.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from supervisor.core.sessions.transcript import Dangling
from supervisor.transcripts.formats import Addition, Lines, by_place
from supervisor.transcripts.index import Index
from supervisor.transcripts.lines import with_value


class Keys(NamedTuple):
    """A format's names for a line's id and for its parent's id."""

    own: str
    parent: str


class Result(NamedTuple):
    """A line that is added: the result of a dangling call. `own_id` is the line's id, `call_id` that of the call."""

    line: bytes
    own_id: str
    call_id: str
    tool: str


class Graft:
    """Collects the additions and the changed parents for one file."""

    def __init__(self, index: Index, lines: Lines, keys: Keys, drops: set[int]) -> None:
        self.additions: list[Addition] = []
        self._index = index
        self._lines = lines
        self._keys = keys
        self._drops = drops
        self._parents: dict[int, str | None] = {}  # the new parents of existing lines
        for drop in sorted(drops):
            own = index.ids[drop]
            for child, parent in enumerate(index.parents):
                if own and parent == own and child not in drops:
                    self._parents[child] = self._kept(drop)

    def add(self, dangling: list[Dangling], tip: int, write: Callable[[Dangling, str | None], Result]) -> None:
        """Add a result for each dangling call of the path that ends at `tip`; `write` gets call and parent."""
        path = self._path(tip)
        for (after, is_tail), calls in by_place(dangling):
            parent = self._kept(tip if is_tail else after)
            for call in calls:
                result = write(call, parent)
                parent = result.own_id
                place = None if is_tail else after
                self.additions.append(Addition(place, result.line, result.call_id, result.tool))
            if not is_tail:
                successor = self._successor(path, after)
                if successor is not None:
                    self._parents[successor] = parent

    def changes(self) -> dict[int, bytes]:
        """Return the lines with a new parent; nothing else in them changes."""
        changed = {}
        for at, parent in self._parents.items():
            changed[at] = with_value(self._lines.raw(at), self._keys.parent, parent)
        return changed

    def _kept(self, at: int) -> str | None:
        """Return the id of a line; for one that is dropped, that of its nearest ancestor that is kept."""
        while at in self._drops:
            parent = self._index.parents[at]
            at = self._index.find(parent, at) if parent else -1
        if at < 0:
            return None
        own = self._lines.entry(at).get(self._keys.own)
        return own if isinstance(own, str) else None

    def _path(self, tip: int) -> array[int]:
        """Return the lines from the root to `tip`: a child may be written before its parent."""
        on = self._index.path(tip)
        path = array("Q", islice(self._index.walk(tip), on.count(1)))
        path.reverse()
        return path

    def _successor(self, path: array[int], after: int) -> int | None:
        return next((at for at in path if at > after and at not in self._drops), None)
