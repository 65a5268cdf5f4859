"""What a process leaves that dies around a commit: a store that kills it there, and a copy of one in memory.

A process passes a *point* before and after each commit, and at what else a test marks. It writes down what each is: a
list of words such as `before ToolCallFinished`, and for a card also `before CardPosted slack:C1`. `points` reads them
after a life without a death. It chooses the first point of each word, so that there is a death around each kind of
event; a soak takes every point.
"""

import json
import os
import signal
from pathlib import Path

from supervisor import MemoryStore, SqliteStore
from supervisor.core.events.asking import CardEvent, target_of


class Death:
    """Kills this process when it first passes a point: the n-th (counted from 1), or the first with a word."""

    def __init__(self, folder: Path, at: int | str | None) -> None:
        self._notes, self._at, self._passed = folder / "points", at, 0

    def point(self, *words: str) -> None:
        self._passed += 1
        with self._notes.open("a") as notes:
            notes.write(json.dumps(words) + "\n")
        if self._at in (self._passed, *words):
            os.kill(os.getpid(), signal.SIGKILL)


class DyingStore(SqliteStore):
    """A store in a folder, which has a death around a commit."""

    def __init__(self, folder: Path, at: int | str | None) -> None:
        super().__init__(folder / "state.db")
        self.death = Death(folder, at)
        self._kinds: set[str] = set()

    def begin(self) -> bool:
        self._kinds.clear()
        return super().begin()

    def write(self, rows) -> None:
        super().write(rows)
        self._kinds |= {type(row.event).__name__ for row in rows}
        cards = [row.event for row in rows if isinstance(row.event, CardEvent)]
        self._kinds |= {f"{type(event).__name__} {target_of(event)}" for event in cards}

    def commit(self) -> None:
        self.death.point(*(f"before {kind}" for kind in sorted(self._kinds)))
        super().commit()
        self.death.point(*(f"after {kind}" for kind in sorted(self._kinds)))


def points(folder: Path, side: str | None) -> list[int | str]:
    """Return points of the life lived in a folder: one for each word that begins with `side`, or every point."""
    passed = [json.loads(line) for line in (folder / "points").read_text().splitlines()]
    if side is None:
        return list(range(1, len(passed) + 1))
    seen: set[str] = set()
    chosen: list[int | str] = []
    for words in passed:
        chosen += [word for word in words if word.startswith(side) and word not in seen][:1]
        seen.update(words)
    return chosen


def fork(store: MemoryStore) -> MemoryStore:
    """Return the store that another process would find now."""
    return store.copy()
