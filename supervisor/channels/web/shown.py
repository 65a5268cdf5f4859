"""Records which approvals each person was shown over HTTP, and so may decide without naming them (A12).

Theory: a person looks, the process is killed, and the person answers "yes" to the next one. So the record is a file
next to the store (STORE.shown), with one JSON line for each person and approval. It is written before the answer that
shows the approval is sent, and without a sync: it survives the death of the process, and after a loss of power the
person looks again. Each line that is missing errs on that side. A store that machines share has a book for these lines:
a person may look at one machine and answer at another.

Rules
- A page, a document or an event with an approval shows it.
- A line is removed when its approval no longer waits: at the start, and when the file has grown by GROWTH lines.
- Bounded: the record has the latest MOST approvals of each person.
- A line that cannot be read is left out. A file that others can write is refused: they could say that a person was
  shown what no person saw.
"""

import os
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from supervisor.core.errors import StoreError, StoreUnreadable
from supervisor.core.values import Approval
from supervisor.seam.store import Book
from supervisor.seam.supervisor import Supervisor
from supervisor.system.access import OTHERS_WRITE, why_not_ours
from supervisor.system.logs import FactLog

log = FactLog(__name__)

MOST: Final = 10_000
"""The most approvals that are remembered for each person."""
GROWTH: Final = 10_000
"""Lines after which those of approvals that no longer wait are removed."""


class Look(msgspec.Struct, frozen=True):
    """A line of the file."""

    person: str
    approval: str


class Shown:
    """`lines`: the file or the book; None keeps the record in memory. Raises StoreUnreadable."""

    def __init__(self, lines: Path | Book | None = None) -> None:
        self._file = lines if isinstance(lines, Path) else None
        self._book = None if isinstance(lines, Path) else lines
        self._of: dict[str, OrderedDict[str, None]] = {}
        self._added = self._last = 0
        self._learn(self._lines())

    @property
    def has_grown(self) -> bool:
        return self._added > GROWTH

    def note(self, person: str, approvals: Iterable[Approval]) -> None:
        """Note that a person is shown these, in an answer that is being made."""
        looks = [Look(person, approval.id) for approval in approvals]
        new = [look for look in looks if look.approval not in self._of.get(person, ())]
        for look in looks:
            self._remember(look)
        if new:
            self._append(new)

    def to(self, person: str) -> Collection[str]:
        """Return the ids of what a person was shown."""
        if self._book is not None:
            self._learn(self._lines())
        return self._of.get(person, {}).keys()

    async def prune(self, supervisor: Supervisor) -> None:
        """Forget what no longer waits."""
        before = set(self._pairs())
        if not before:
            return
        waiting = {approval.id for approval in await supervisor.find_approvals(limit=None)}
        over = {pair for pair in before if pair[1] not in waiting}
        for person, approval in over:
            self._of[person].pop(approval, None)
        if self._book is not None:
            self._added = 0
            self._book.remove([msgspec.json.encode(Look(*pair)) for pair in over])
        else:
            self._rewrite()

    def _remember(self, look: Look) -> None:
        known = self._of.setdefault(look.person, OrderedDict())
        known[look.approval] = None
        known.move_to_end(look.approval)
        while len(known) > MOST:
            known.popitem(last=False)

    def _lines(self) -> list[bytes]:
        if self._book is not None:
            found = self._book.read(self._last)
            self._last = found[-1][0] if found else self._last
            return [line for _, line in found]
        if self._file is None:
            return []
        try:
            why, raw = why_not_ours(self._file, OTHERS_WRITE), self._file.read_bytes()
        except FileNotFoundError:
            return []
        if why is not None:
            raise StoreUnreadable(f"{why}. It says which approvals each person was shown")
        return raw.split(b"\n")

    def _learn(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                self._remember(msgspec.json.decode(line, type=Look))

    def _append(self, looks: Iterable[Look]) -> None:
        lines = [msgspec.json.encode(look) for look in looks]
        self._added += len(lines)
        try:
            if self._book is not None:
                self._book.note(lines)
            elif self._file is not None:
                self._write(os.O_APPEND, lines)
        except StoreError as refused:
            log.warning("shown.not_written", reason=str(refused))
        except OSError as error:
            log.warning("shown.not_written", file=str(self._file), reason=error.strerror)

    def _rewrite(self) -> None:
        self._added = 0
        if self._file is None:
            return
        made = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            self._write(os.O_TRUNC, [msgspec.json.encode(Look(*pair)) for pair in self._pairs()], made)
            made.replace(self._file)
        except OSError as error:
            log.warning("shown.not_written", file=str(self._file), reason=error.strerror)
            with suppress(OSError):
                made.unlink()

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for person, known in self._of.items():
            for approval in known:
                yield person, approval

    def _write(self, how: int, lines: Iterable[bytes], file: Path | None = None) -> None:
        """Write lines. The first one ends a line that a killed process has left torn."""
        descriptor = os.open(file or self._file or "", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(b"\n" + b"\n".join(lines) + b"\n")


def shown_of(store: Path) -> Path:
    """Return the file that says what the people of a store were shown."""
    return store.with_name(f"{store.name}.shown")
