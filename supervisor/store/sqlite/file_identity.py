"""Where a store is: one file, under one name.

Theory: beside a store's file lie its log, the log's index and the lock files of its owners, all named after it. So a
file with two names is two stores to those who use them: neither sees what the other wrote last, and both run its trees.
The same holds for a file that was moved away or replaced while it is open.

Rules
- A file that others can write, or that belongs to another user, is refused (root may open it).
- A file that has a second name is refused. One that a killed process left behind when it made the store is removed.
- Whoever has a store open looks several times a second whether its name still leads to it, and whether the file is as
  long as it was (Store.has_changed). Only VACUUM makes one shorter and leaves all of it readable.
- An owner looks as often, and in each transaction, whether its lock file is there: without it others take its trees.
- A log whose store is gone is left alone: it would be read into whatever took the store's place.
"""

import glob
import os
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path

from supervisor.core.errors import StoreDied, StoreUnreadable
from supervisor.store.sqlite import schema
from supervisor.store.sqlite.faults import is_busy
from supervisor.system.access import OTHERS_WRITE, why_not_ours

Identity = tuple[int, int]
"""Which file it is, whatever its name: device and inode."""


def find(path: Path) -> Identity | None:
    """Return which file is there, None if there is none. Raises OSError, and StoreUnreadable for what is no store."""
    log = Path(f"{path}-wal")
    has_log = size_of(log) > 0  # first: who makes a store has no log before it
    try:
        found = path.stat()
    except FileNotFoundError:
        if has_log:
            raise StoreUnreadable(
                f"{path} is gone, but its log {log.name} is still there, with what was committed last; it was left "
                f"untouched. Put {path.name} back beside it, or move the log away to begin a new store"
            ) from None
        return None
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnreadable(f"{path} is no file, so no store can be in it. Name another one")
    if found.st_nlink > 1 and _names_left(path, found) > 1:
        raise StoreUnreadable(
            f"{path} has another name, too (a hard link): who uses that one would not see what is written here, and "
            "run the same sessions. It was left untouched; replace one of the two by a copy"
        )
    everybody_of_roots = (found.st_uid,) if os.geteuid() == 0 else ()
    if (why := why_not_ours(path, OTHERS_WRITE, everybody_of_roots)) is not None:
        raise StoreUnreadable(f"{why}. Whoever can write a store decides everything in it; it was left untouched")
    return found.st_dev, found.st_ino


class OpenFile:
    """A store's file, from the moment in which it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = find(path)
        self._size = 0

    def what_happened(self) -> StoreDied | None:
        """Return what is to be said if the name leads elsewhere, or the file lost a part; None if all is well."""
        try:
            found = self._path.stat()
        except OSError:
            return lost(self._path)
        if (found.st_dev, found.st_ino) != self._identity:
            return lost(self._path)
        if found.st_size < self._size and not (found.st_size and self._is_whole()):
            return cut_short(self._path)
        self._size = found.st_size
        return None

    def _is_whole(self) -> bool:
        """Whether all of the file can be read. A file that others made compact is not large: they would wait."""
        try:
            with closing(schema.connect(self._path, "ro", timeout=1.0)) as connection:
                return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except sqlite3.Error as error:
            return is_busy(error)


def lost(path: Path) -> StoreDied:
    """Return what is to be said when a name does not lead any more to the file that is open."""
    return StoreDied(
        f"{path} was moved away, removed or replaced while it was open; nothing is written to it any more. Put the "
        f"file back, with its log {path.name}-wal, then start the program again"
    )


def cut_short(path: Path) -> StoreDied:
    """Return what is to be said of a file that lost a part while it was open."""
    return StoreDied(
        f"{path} was cut short while it was open; nothing is written to it any more. Restore it from a copy, take its "
        f"log {path.name}-wal away, then start the program again"
    )


def without_lock(folder: Path) -> StoreDied:
    """Return what is to be said by an owner whose lock file is gone."""
    return StoreDied(
        f"the lock file of this process in {folder} was removed, so that another process may run its sessions; nothing "
        "is written any more. Leave that folder alone while a store is in use, then start the program again"
    )


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _names_left(path: Path, found: os.stat_result) -> int:
    """Return how many names a file has, without that under which it was made (schema.create)."""
    for draft in path.parent.glob(f"{glob.escape(path.name)}.*.new"):
        with suppress(FileNotFoundError):  # who made it is still at it
            if draft.stat().st_ino == found.st_ino:
                draft.unlink()
    return path.stat().st_nlink
