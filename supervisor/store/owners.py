"""Which owners are alive: an owner holds a lock file while its store is open, and the kernel releases it at its death.

Rules
- A lock file is named by its owner's random id, and never used twice.
- A lock file holds the processes below which nothing may decide, as JSON (Owner.started_by): its owner is the last.
- An owner is alive if its lock cannot be taken, whatever the process table says: pids are used again, locks are not.
- A lock file is removed only under its own lock, and only if the path still names the file that was locked. A process
  that has just made one checks whether it was removed before it was locked.
- The descriptor is not inherited by programs that we run, nor by forked processes: a process that outlives us must not
  look like us.
- An owner whose lock cannot be tested counts as alive: a tree that no process owns can wait, but a tree that
  two processes own runs twice.
- A folder that others can write, or that belongs to another user than the store, is refused.
- Files that root makes next to another user's store are given to that user, as SQLite does with its log: that user must
  be able to test the lock.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from supervisor.core.errors import StoreUnreadable
from supervisor.core.rows import Owner, Process
from supervisor.system.access import OTHERS_WRITE, why_not_ours
from supervisor.system.inside import OURS, STARTED_BY, itself
from supervisor.system.settling import note_ours

_held: Final[set[int]] = set()
"""The descriptors of the locks that this process holds."""


def _let_go() -> None:
    """Give up all locks in a process that was just forked: it owns nothing."""
    for lock in _held:
        os.close(lock)
    _held.clear()
    OURS.clear()


os.register_at_fork(after_in_child=_let_go)


class LockFolder:
    """The lock files next to a store, and the one that this process may hold."""

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(f"{store.name}.owners")
        self._store = store
        note_ours(store, is_store=True)
        self.mine: Owner | None = None
        self._held: int | None = None
        self._path = self.folder

    def hold(self) -> Owner:
        """Return this process as an owner; the first time, take a lock and remove the files of dead owners."""
        if self.mine is None:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._give(self.folder)
            why = why_not_ours(self.folder, OTHERS_WRITE, [self._store.stat().st_uid])
            if why is not None:
                raise StoreUnreadable(
                    f"{why}. A user who can write there decides which process runs a session; nothing was changed"
                )
            for path in self.folder.iterdir():
                self.bury(path.name)
            while self.mine is None:
                self.mine = self._take(secrets.token_hex(16))
        return self.mine

    @property
    def is_lost(self) -> bool:
        """Whether the lock of this process is no longer at its name, so that others take this process for dead."""
        if self._held is None or self._held not in _held:
            return False
        try:
            return not _is_same(self._held, self._path)
        except OSError:
            return False  # others cannot test it either, and take no tree

    def is_alive(self, owner: str) -> bool:
        """Return whether a process holds the lock of this name. It tries a shared lock: two tests do not conflict."""
        if self.mine is not None and owner == self.mine.id:
            return True
        try:
            lock = os.open(self.folder / owner, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def started_by(self, owner: str) -> tuple[Process, ...]:
        """Return the processes below which nothing may decide while this owner is alive."""
        try:
            held = (self.folder / owner).read_bytes()
            return msgspec.json.decode(held, type=tuple[Process, ...]) if held else ()
        except OSError:  # the owner has ended, or is another user's, whom no program of this user has started
            return ()
        except msgspec.MsgspecError as error:
            raise StoreUnreadable(f"the lock file {self.folder / owner} cannot be read: {error}") from None

    def bury(self, owner: str) -> None:
        """Remove the lock file of a dead owner; leave one that is held, or cannot be removed, alone."""
        path = self.folder / owner
        with suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same(lock, path):
                    path.unlink()
            finally:
                os.close(lock)

    def release(self) -> None:
        """Stop being an owner. Idempotent; in a process that was forked from the owner it changes nothing for it."""
        if self.mine is not None and self._held in _held:
            with suppress(OSError):  # the next owner removes it
                (self.folder / self.mine.id).unlink()
            _held.discard(self._held)
            OURS.discard(self.mine.id)
            os.close(self._held)
        self._held = self.mine = None

    def _take(self, owner: str) -> Owner | None:
        path = self.folder / owner
        lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            self._give(lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = _is_same(lock, path)
        except BlockingIOError:  # a process that removes dead locks was faster, and will remove this one
            is_there = False
        except BaseException:
            os.close(lock)
            raise
        if not is_there:
            os.close(lock)
            return None
        self._held, self._path = lock, path
        _held.add(lock)
        me = itself()
        below = (*STARTED_BY, *(() if me is None else (me,)))
        if below:
            os.write(lock, msgspec.json.encode(below))
        OURS.add(owner)
        # The time of the file system: this floor has no other clock.
        since = datetime.fromtimestamp(int(os.fstat(lock).st_mtime), UTC)
        return Owner(owner, os.uname().nodename, os.getpid(), since, below)

    def _give(self, made: Path | int) -> None:
        if os.geteuid() == 0:
            theirs = self._store.stat()
            os.chown(made, theirs.st_uid, theirs.st_gid)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
