"""The identity of a store: one file, under one name.

Theory: the log of a store, the log's index and the lock files of its owners are next to its file, and named after it.
So a file with two names is two stores to its users: neither sees what the other wrote last, and both run its trees.
The same holds for a file that was moved or replaced while it is open.

Rules
- A file that others can write, or that belongs to another user, is refused (root may open it).
- A file that has a second name is refused. A name that a killed process left when it made the store is removed.
- A process with an open store checks several times a second whether its name still leads to the file, and whether the
  file is as long as it was (Store.has_changed). Only VACUUM makes a file shorter and leaves all of it readable.
- An owner checks as often, and in each transaction, whether its lock file is there: without it others take its trees.
- A log without its store is left alone: it would be read into any file that took the store's place.
- The log and its index are watched as the store is, by device and inode, also in each transaction: SQLite makes both
  before the first read, and removes them only when the last connection of all processes closes. Without one of them,
  another process would make a second one, and each would overwrite what the other has written.
- A store without its log or its index is not opened while another process has it open. The locks of SQLite tell, also
  of a process that owns no tree.
"""

import glob
import os
import sqlite3
import stat
import time
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Final

from supervisor.core.errors import StoreDied, StoreUnreadable
from supervisor.store.sqlite import locks, schema
from supervisor.store.sqlite.faults import is_busy
from supervisor.system.access import OTHERS_WRITE, why_not_ours

Identity = tuple[int, int]
"""A file, whatever its name: device and inode."""

COMPANIONS: Final = ("-wal", "-shm")
"""What the names of the log and of its index add to the store's name."""
PATIENCE_SECONDS: Final = 2.0
"""Seconds to wait for a process that is making the log and its index, or removing them as it closes."""
_PAUSE_SECONDS: Final = 0.02


def find(path: Path) -> Identity | None:
    """Return which file is there; None if there is none. Raises OSError, and StoreUnreadable if it is not a store."""
    log = Path(f"{path}-wal")
    has_log = size_of(log) > 0  # first: a process that makes a store has no log before it
    try:
        found = path.stat()
    except FileNotFoundError:
        if has_log:
            raise StoreUnreadable(
                f"{path} is gone, but its log {log.name} is still there, with the last commits; it was left "
                f"untouched. Put {path.name} back next to it, or move the log away to begin a new store"
            ) from None
        return None
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnreadable(f"{path} is not a file, so it cannot be a store. Name another path")
    if found.st_nlink > 1 and _names_left(path, found) > 1:
        raise StoreUnreadable(
            f"{path} has another name, too (a hard link): its users would not see what is written here, and "
            "run the same sessions. It was left untouched; replace one of the two by a copy"
        )
    everybody_of_roots = (found.st_uid,) if os.geteuid() == 0 else ()
    if (why := why_not_ours(path, OTHERS_WRITE, everybody_of_roots)) is not None:
        raise StoreUnreadable(
            f"{why}. Every user who can write a store decides everything in it; it was left untouched"
        )
    return found.st_dev, found.st_ino


def check_companions(path: Path) -> None:
    """Raise StoreUnreadable if the log or its index is missing while another process has the store open.

    Call it when this process has no connection to the file: to ask for its locks would drop them.
    """
    for turn in count(1):
        missing = [name for name in COMPANIONS if not Path(f"{path}{name}").exists()]
        holder, is_alone = locks.holder(path) if missing and schema.has_log(path) else (None, False)
        if holder is None or is_alone:  # alone: it makes or upgrades the store, and opening waits for it
            return
        if turn * _PAUSE_SECONDS > PATIENCE_SECONDS:
            raise StoreUnreadable(
                f"{path.name}{missing[0]} was removed while {locks.name(holder)} has {path} open: a second one would "
                f"overwrite what that process has written. Nothing was changed. Stop {locks.name(holder)}, then open "
                "the store again; leave the files next to a store alone while it is in use"
            )
        time.sleep(_PAUSE_SECONDS)


class OpenFile:
    """A store's file with its log and the log's index, from the moment when they were opened."""

    def __init__(self, path: Path) -> None:
        self._path, self._name = path, str(path)
        self._identity = find(path)
        self._companions = {name: _identify(name) for name in (f"{path}{suffix}" for suffix in COMPANIONS)}
        self._size = 0

    def what_happened(self) -> StoreDied | None:
        """Return the error if a name leads elsewhere, or the file lost a part; None if all is well."""
        try:
            found = os.stat(self._name)  # noqa: PTH116 # each transaction asks, and a Path takes twice as long
        except OSError:
            return lost(self._path)
        if (found.st_dev, found.st_ino) != self._identity:
            return lost(self._path)
        for name, identity in self._companions.items():
            if identity is None or _identify(name) != identity:
                return without_companion(self._path, Path(name))
        if found.st_size < self._size and not (found.st_size and self._is_whole()):
            return cut_short(self._path)
        self._size = found.st_size
        return None

    def _is_whole(self) -> bool:
        """Return whether all of the file can be read. Quick: others compact only small files while it is open."""
        try:
            with closing(schema.connect(self._path, "ro", timeout=1.0)) as connection:
                return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except sqlite3.Error as error:
            return is_busy(error)


def lost(path: Path) -> StoreDied:
    """Return the error for a name that no longer leads to the open file."""
    return StoreDied(
        f"{path} was moved away, removed or replaced while it was open; nothing is written to it any more. Put the "
        f"file back, with its log {path.name}-wal, then start the program again"
    )


def without_companion(path: Path, missing: Path) -> StoreDied:
    """Return the error for a store whose log, or its index, is no longer the one that was opened."""
    return StoreDied(
        f"{missing.name} was removed or replaced while {path} was open; nothing is written to the store any more, and "
        f"what was committed is written back when the last process closes it. Leave {missing.name} alone while a "
        "store is in use, then start the program again"
    )


def cut_short(path: Path) -> StoreDied:
    """Return the error for a file that lost a part while it was open."""
    return StoreDied(
        f"{path} was cut short while it was open; nothing is written to it any more. Restore it from a copy, move its "
        f"log {path.name}-wal away, then start the program again"
    )


def without_lock(folder: Path) -> StoreDied:
    """Return the error for an owner whose lock file is gone."""
    return StoreDied(
        f"the lock file of this process in {folder} was removed, so that another process may run its sessions; nothing "
        "is written any more. Leave that folder alone while a store is in use, then start the program again"
    )


def _identify(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 # as above
    except OSError:
        return None
    return found.st_dev, found.st_ino


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _names_left(path: Path, found: os.stat_result) -> int:
    """Return how many names a file has, without the name under which it was made (schema.create)."""
    for draft in path.parent.glob(f"{glob.escape(path.name)}.*.new"):
        with suppress(FileNotFoundError):  # its maker has not finished
            if draft.stat().st_ino == found.st_ino:
                draft.unlink()
    return path.stat().st_nlink
