"""The two stores of a mirror: in memory for a command, and a file for a server, which survives its process.

The runtime's reads and watches run over such a store. Entries come from the trees of a namespace by a Feed: to the
runtime, the feed is another process that writes into the store.

Rules
- The position up to which a tree was read is written together with its entries. So SIGKILL loses nothing and repeats
  nothing.
- The trees of a mirror are owned by workers, so this process runs none of them.
- A file is the mirror of one namespace, and one process at a time serves it. Other programs only read it: what they
  wrote would never come to a tree.
"""

import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import anyio
import msgspec
from msgspec.structs import replace

from supervisor.core.errors import InvalidInput
from supervisor.core.events import AnyEvent, decode_event
from supervisor.core.rows import JournalEntry, Owner
from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite.store import MIRRORED, SqliteStore

BUSY_SECONDS: Final = 0.005
"""Seconds until another try, while another connection writes."""

Row = tuple[str, str]
"""A session, and its event as JSON text."""


class Reached(NamedTuple):
    """How far a tree was read: the run of its workflow, the position there, whether it was read after its end, and
    whether the mirror says that no worker can go on with it (stuck.py)."""

    run: str = ""
    position: int = 0
    is_closed: bool = False
    is_blocked: bool = False


class Feed(Protocol):
    """Writes what is read of trees into a mirror."""

    def reached(self, root: str, /) -> Reached:
        """Return how far a tree was read."""
        ...

    async def add(self, root: str, rows: Sequence[Row], reached: Reached, /) -> None:
        """Add entries of a tree, in order, and how far it was read, at one instant. Raises StoreError."""
        ...


class _OwnedByWorkers:
    """The owners of a mirror's trees: the workers that live, and never this process."""

    workers: list[Owner]

    def get_owner(self, root: str) -> Owner | None:
        return next(iter(self.workers), None)

    def get_owners(self, roots: Sequence[str]) -> dict[str, Owner]:
        owner = self.get_owner("")
        return {} if owner is None else dict.fromkeys(roots, owner)

    def owners(self) -> list[Owner]:
        return self.workers

    def owns(self, root: str) -> bool:
        return False


class MirrorStore(_OwnedByWorkers, MemoryStore):
    """The mirror of a command, which is its own feed."""

    is_durable = True

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.workers: list[Owner] = []
        self._reached: dict[str, Reached] = {}
        self._has_news = False

    def reached(self, root: str) -> Reached:
        return self._reached.get(root, Reached())

    async def add(self, root: str, rows: Sequence[Row], reached: Reached) -> None:
        last = self.last_position()
        self.begin()
        try:
            self.write(_entries(rows, last))
        except BaseException:
            self.rollback()
            raise
        self.commit()
        self._reached[root] = reached
        self._has_news = True

    def has_changed(self) -> bool:
        had, self._has_news = self._has_news, False
        return had


class MirrorFile(_OwnedByWorkers, SqliteStore):
    """The mirror of a server, as the runtime reads it. It is open from `open` to `close`, for one process."""

    mirrors: str

    def __init__(self, path: Path, namespace: str) -> None:
        super().__init__(path)
        self.workers: list[Owner] = []
        self.mirrors = namespace
        self._lock = -1

    def open(self) -> None:
        super().open()
        try:
            self._take_lock()
            self._begin_mirror()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        super().close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _begin_mirror(self) -> None:
        found = self.find_facts(MIRRORED).get(MIRRORED)
        if found not in (None, self.mirrors) or (found is None and self.last_position()):
            what = "a store of its own" if found is None else f"the mirror of {found}"
            raise InvalidInput(f"{self.path} is {what}: name another file for the mirror of {self.mirrors}")
        if found is None and self.begin():
            self.put_fact(MIRRORED, self.mirrors)
            self.commit()

    def _take_lock(self) -> None:
        self._lock = os.open(f"{self.path}.serving", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(
                f"another process serves {self.mirrors} with the mirror {self.path}: give this one a mirror of its own "
                "by --mirror FILE"
            ) from None


class FileFeed:
    """The feed of a MirrorFile: a second connection to the file. Open it after the file."""

    def __init__(self, mirror: MirrorFile) -> None:
        self._store = SqliteStore(mirror.path)
        self._store.mirrors = mirror.mirrors
        self._lock = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)
        self._known: dict[str, Reached] = {}

    def open(self) -> None:
        """Raises InvalidInput if the file is a store of its own, or the mirror of another namespace."""
        self._store.open()
        self._known = {
            name.removeprefix(_READ): msgspec.json.decode(value, type=Reached)
            for name, value in self._store.find_facts(_READ).items()
        }

    def close(self) -> None:
        self._store.close()

    def reached(self, root: str) -> Reached:
        return self._known.get(root, Reached())

    async def add(self, root: str, rows: Sequence[Row], reached: Reached) -> None:
        await self._write(_entries(rows, 0), root, reached)

    async def note(self, notes: Sequence[tuple[str, AnyEvent]]) -> None:
        """Add entries of this server itself, each a session and its event."""
        await self._write([JournalEntry(number, *each) for number, each in enumerate(notes, 1)])

    async def _write(self, entries: Sequence[JournalEntry], root: str = "", reached: Reached | None = None) -> None:
        """Write entries, whose positions are counted from 0, and how far a tree was read."""
        async with self._lock:
            while not self._store.begin():  # noqa: ASYNC110 # SQLite does not say when a lock is free
                await anyio.sleep(BUSY_SECONDS)
            with anyio.CancelScope(shield=True):  # an append is never given up half-way; the disk bounds it
                try:
                    last = self._store.last_position()
                    self._store.write([replace(each, position=last + each.position) for each in entries])
                    if reached is not None:
                        self._store.put_fact(_READ + root, msgspec.json.encode(reached).decode())
                except BaseException:
                    self._store.rollback()
                    raise
                await anyio.to_thread.run_sync(self._store.commit, limiter=self._thread)
            if reached is not None:
                self._known[root] = reached


_READ: Final = "read "
"""The beginning of the names of facts that say how far a tree was read."""


def _entries(rows: Iterable[Row], last: int) -> list[JournalEntry]:
    return [
        JournalEntry(last + number, session, decode_event(body.encode()))
        for number, (session, body) in enumerate(rows, 1)
    ]
