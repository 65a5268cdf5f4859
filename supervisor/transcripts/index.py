"""What we keep of a transcript while we judge it: a few numbers for each line.

Theory: whether calls dangle depends on ids and on order, never on content. So we keep of a line its offset, the hash of
its id and of its parent's id, and one mark for each call and result in it. A line whose content matters is read again,
and few lines are. Hashes of 64 bits do not collide by accident, and their key is a secret of this process.

Rules:
- Everything is in flat arrays: 25 bytes for each line, 17 bytes for each mark. No object lives longer than its line.
- A hash of 0 means none.
- Marks are in the order of the file, and of the blocks within a line.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, Final

from supervisor.core.sessions.transcript import Findings, Pairing

FRAME: Final = 1  # a message of the assistant; its key names it if the message is written as several lines
SKIPPED: Final = 2  # a message of the assistant that ended in an error
CALL: Final = 3
UNANSWERABLE: Final = 4  # a call that was cut off
RESULT: Final = 5
SAID: Final = 6  # any other content that is sent to a model
FORGET: Final = 7  # a compaction: everything before it is gone

ENTRY: Final = 1  # kinds of a line: it was read,
POINTER: Final = 2  # it names another line by position,
MESSAGE: Final = 4  # it is a message,
SIDECHAIN: Final = 8  # it is a sub-agent's


class Index:
    """The numbers of one file, filled by its format line by line."""

    def __init__(self) -> None:
        self.starts = array("Q")
        self.kinds = array("B")
        self.ids = array("q")
        self.parents = array("q")
        self.mark_lines = array("Q")
        self.marks = array("B")
        self.keys = array("q")
        self.notes: dict[str, Any] = {}
        """What a format keeps about the file as a whole: few things."""

    def __len__(self) -> int:
        return len(self.kinds)

    def line(self, kind: int, own: str | None = None, parent: str | None = None) -> int:
        """Add a line and return its number."""
        self.kinds.append(kind)
        self.ids.append(hash(own) if own else 0)
        self.parents.append(hash(parent) if parent else 0)
        return len(self.kinds) - 1

    def mark(self, at: int, mark: int, key: str | None = None) -> None:
        """Add a mark for a call, a result or other content of a line."""
        self.mark_lines.append(at)
        self.marks.append(mark)
        self.keys.append(hash(key) if key else 0)

    def calls(self, at: int) -> list[tuple[int, int]] | None:
        """Return the marks and keys of the calls at a line; None if the line is not a message of the assistant."""
        begin, end = bisect_left(self.mark_lines, at), bisect_right(self.mark_lines, at)
        if begin == end or self.marks[begin] not in (FRAME, SKIPPED):
            return None
        return list(zip(self.marks[begin + 1 : end], self.keys[begin + 1 : end], strict=True))

    def path(self, tip: int) -> bytearray:
        """Return a 1 for each line on the path from `tip` to the root, a 0 for every other line."""
        on = bytearray(len(self.kinds))
        for at in self.walk(tip):
            if on[at]:
                break
            on[at] = 1
        return on

    def walk(self, tip: int) -> Iterator[int]:
        """Yield the lines from `tip` to the root; without an end if a line is its own ancestor."""
        at = tip
        while at >= 0:
            yield at
            want = self.parents[at]
            if not want:
                return
            at = self.find(want, at)

    def find(self, own: int, before: int) -> int:
        """Return the last line with this id before a line; if the parent was written later, any line with it; or -1."""
        ids = self.ids
        for at in range(before - 1, -1, -1):
            if ids[at] == own:
                return at
        try:
            return ids.index(own, before)
        except ValueError:
            return -1

    def pair(  # noqa: C901 - a table of marks; a dict of methods would cost a tenth of the speed
        self,
        labels: Sequence[int] | None,
        *,
        framed: bool,
        unique: bool = False,
        held: Collection[str] = (),
        is_synthesised: Callable[[int], bool],
    ) -> dict[int, Findings]:
        """Pair calls and results, each chain separately; `labels` has the chain of each line, 0 for none.

        `unique`: no two calls of the file have one key. `held` are the keys, as marked, of calls that will be answered.
        """
        owned = {hash(key) for key in held}
        pairings: dict[int, Pairing] = {}
        label = 1
        for at, mark, key in zip(self.mark_lines, self.marks, self.keys, strict=True):
            if labels is not None:
                label = labels[at]
                if not label:
                    continue
            pairing = pairings.get(label)
            if pairing is None:
                pairing = Pairing(framed=framed, held=owned, is_synthesised=is_synthesised)
                pairings[label] = pairing
            if mark == RESULT:
                pairing.result(at, key)
            elif mark == CALL:
                pairing.call(at, key)
            elif mark == FRAME:
                pairing.frame(at, key or None)
            elif mark == SAID:
                pairing.said(at)
            elif mark == SKIPPED:
                pairing.frame(at, skipped=True)
            elif mark == UNANSWERABLE:
                pairing.call(at, key, answerable=False)
            else:
                pairing.forget()
        found = {}
        for label in sorted(pairings):
            pairing = pairings[label]
            keys = pairing.astray()
            if keys and not unique:  # where order does not matter, a key that one call has is as good
                calls = Counter() if framed else self._count(labels, label)
                keys = {key for key in keys if calls[key] == 1}
            found[label] = pairing.findings(keys)
        return self._with_needed(found, is_synthesised)

    def _count(self, labels: Sequence[int] | None, label: int) -> Counter[Hashable]:
        """Count the calls of a chain by key."""
        marks = zip(self.mark_lines, self.marks, self.keys, strict=True)
        return Counter(key for at, mark, key in marks if mark == CALL and (labels is None or labels[at] == label))

    def _with_needed(self, found: dict[int, Findings], is_synthesised: Callable[[int], bool]) -> dict[int, Findings]:
        """Note of each orphaned result whether a call, on whatever branch, has no other real result."""
        orphaned = {(orphaned.at, orphaned.key) for findings in found.values() for orphaned in findings.orphaned}
        if not orphaned:
            return found
        keys = {key for _, key in orphaned}
        lacking: Counter[Hashable] = Counter()
        failed = -1
        for at, mark, key in zip(self.mark_lines, self.marks, self.keys, strict=True):
            if mark == SKIPPED:
                failed = at
            elif key not in keys:
                continue
            elif mark in (CALL, UNANSWERABLE):
                lacking[key] += at != failed
            elif mark == RESULT and (at, key) not in orphaned:
                lacking[key] -= not is_synthesised(at)
        return {
            label: findings._replace(
                orphaned=[
                    orphan._replace(is_needed=lacking[orphan.key] > 0 and not is_synthesised(orphan.at))
                    for orphan in findings.orphaned
                ]
            )
            for label, findings in found.items()
        }
