"""Where a store is: one file, under one name.

Theory: beside a store's file lie its log, the log's index and the lock files of its owners, all named after it. So a
file with two names is two stores to those who use them: neither sees what the other wrote last, and both run its trees.
The same holds for a file that was moved away or replaced while it is open.

Rules
- A file that others can write, or that belongs to another user, is refused (root may open it).
- A file that has a second name is refused. One that a killed process left behind when it made the store is removed.
- Whoever has a store open looks several times a second whether its name still leads to it (Store.has_changed).
- A log whose store is gone is left alone: it would be read into whatever took the store's place.
"""

import glob
import os
import stat
from contextlib import suppress
from pathlib import Path

from supervisor.core.errors import StoreDied, StoreUnreadable
from supervisor.store.access import OTHERS_WRITE, why_not_ours

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


def is_at(path: Path, identity: Identity | None) -> bool:
    """Whether a name still leads to this file."""
    try:
        found = path.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == identity


def lost(path: Path) -> StoreDied:
    """Return what is to be said when a name does not lead any more to the file that is open."""
    return StoreDied(
        f"{path} was moved away, removed or replaced while it was open; nothing is written to it any more. Put the "
        f"file back, with its log {path.name}-wal, then start the program again"
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
