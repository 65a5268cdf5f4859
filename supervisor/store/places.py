"""The places of limits that all processes of a store share: a lock file for each, next to the store.

Rules
- A place is the lock of the file LIMIT.NUMBER; the kernel releases it when its process dies. Nothing else is in the
  file, and it stays: who removed it could not tell whether another process has just opened it.
- One process never takes a place twice: each open file has a lock of its own.
- A folder that others can write is refused, as that of the owners is (owners.py): who can write there takes all places.
- The descriptor is not inherited by programs that we run, nor by forked processes.
"""

import fcntl
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

from supervisor.core.errors import StoreUnreadable
from supervisor.system.access import OTHERS_WRITE, why_not_ours

_open: Final[set[int]] = set()
"""The descriptors of the places that this process holds."""


def _let_go() -> None:
    """Give up all places in a process that was just forked: it holds none."""
    for lock in _open:
        os.close(lock)
    _open.clear()


os.register_at_fork(after_in_child=_let_go)


class Places:
    """The places next to a store that this process may hold."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._folder = store.with_name(f"{store.name}.limits")
        self._held: dict[tuple[str, int], int] = {}
        self._is_checked = False

    def take(self, limit: str, at_once: int) -> int | None:
        """Take one of so many places, and return its number; None if all are taken. Raises StoreUnreadable, OSError."""
        self._check()
        for number in range(at_once):
            if (limit, number) not in self._held and self._take(limit, number):
                return number
        return None

    def give_back(self, limit: str, number: int) -> None:
        """Give a place back. Idempotent; in a process that was forked it changes nothing for the other one."""
        lock = self._held.pop((limit, number), None)
        if lock in _open:
            _open.discard(lock)
            os.close(lock)

    def release(self) -> None:
        """Give all places back. Idempotent."""
        for limit, number in [*self._held]:
            self.give_back(limit, number)

    def _check(self) -> None:
        if self._is_checked:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._give(self._folder)
        if (why := why_not_ours(self._folder, OTHERS_WRITE, [self._store.stat().st_uid])) is not None:
            raise StoreUnreadable(f"{why}. A user who can write there decides what may run; no place was given")
        self._is_checked = True

    def _take(self, limit: str, number: int) -> bool:
        path = self._folder / f"{quote(limit, safe='')}.{number}"
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._give(lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        except BaseException:
            os.close(lock)
            raise
        self._held[limit, number] = lock
        _open.add(lock)
        return True

    def _give(self, made: Path | int) -> None:
        """Give what root makes next to another user's store to that user."""
        if os.geteuid() == 0:
            theirs = self._store.stat()
            os.chown(made, theirs.st_uid, theirs.st_gid)
