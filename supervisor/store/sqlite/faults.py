"""The place where errors of SQLite and the file system become ours; no other module translates them.

The translation depends on what is known about the disk:
- Nothing was written: StoreRefused. A WAL frame that could not be written is never part of a commit. So a full disk, a
  file that is too large, and a write that failed belong here; also a file that we may not write, or could not open.
- The file contradicts itself: StoreUnreadable, whatever the operation was.
- A value that no store can keep (a dict in place of text) is the caller's mistake, and never the disk's: a read
  raises InvalidInput, a write StoreRefused, and the store goes on.
- Anything else, above all a sync that failed: StoreDied. The kernel may have dropped data that it could not write, and
  reports that only once (fsync does not repeat its error), so no later answer could be trusted.
"""

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from supervisor.core.errors import InvalidInput, StoreDied, StoreError, StoreRefused, StoreUnreadable
from supervisor.store.sqlite import locks

_UNREADABLE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}
_NO_ROOM_FOR_FILES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_NO_FILES: Final = (errno.EMFILE, errno.ENFILE)
_FILES: Final = 10
"""How many files an open store needs: three connections with their logs, one index, and lock files."""
_DISK: Final = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_READ}
"""Errors that only a failing disk gives, also while a store is opened."""
_NO_ROOM_TO_OPEN: Final = {*_NO_ROOM, sqlite3.SQLITE_IOERR_SHMSIZE}
"""The log's index could not be made. Later it grows after a sync: then it is not known what was written."""
_REFUSED: Final = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CANTOPEN,
}
MISUSED: Final = (sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError, UnicodeEncodeError)
"""Raised for a value that SQLite cannot keep; a closed connection raises ProgrammingError, too."""
_PRIMARY: Final = 0xFF
"""Extended result codes carry the primary one in their low byte."""


def is_busy(error: sqlite3.Error) -> bool:
    return code(error) & _PRIMARY == sqlite3.SQLITE_BUSY


def code(error: sqlite3.Error) -> int:
    """Return SQLite's extended result code; 0 if Python itself raised."""
    return getattr(error, "sqlite_errorcode", 0)


def contradicts_itself(path: Path) -> StoreUnreadable:
    """Return the error for a row that cannot be converted, such as one of the index that leads to no entry."""
    return StoreUnreadable(
        f"{path} is damaged: a row of its index leads to no entry, or holds what no program writes. It was left "
        "untouched; restore it from a copy"
    )


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """Translate an error of an open store."""
    what = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
    extended = code(error)
    if extended & _PRIMARY in _UNREADABLE:
        return StoreUnreadable(f"{path} is damaged: {what}. It was left untouched; restore it from a copy")
    if {extended, extended & _PRIMARY} & _NO_ROOM:
        return _no_room(what, path)
    if extended & _PRIMARY == sqlite3.SQLITE_CANTOPEN and (known := _without_files(path)) is not None:
        return known
    if extended & _PRIMARY in _REFUSED:
        return StoreRefused(
            f"{path} refused a commit: {what}; nothing of it was written. Resume when the cause is gone"
        )
    return StoreDied(
        f"the disk under {path} failed: {what}. Earlier commits are safe; whether the last commit was written "
        "is not known. Check the disk, then start the program again: it goes on from what is on disk"
    )


def closed(path: Path) -> StoreDied:
    """Return the error for a caller that uses a closed store."""
    return StoreDied(f"{path} is closed. Open it again to go on from what is on disk")


def explain_misuse(error: Exception, path: Path, *, writing: bool) -> StoreRefused | InvalidInput:
    """Translate an error about a value that no store can keep."""
    if writing:
        return StoreRefused(f"{path} cannot store this value: {error}; nothing of it was written")
    return InvalidInput(f"{path} cannot look for this value: {error}")


def explain_opening(error: sqlite3.Error | OSError, path: Path, *, may_ask: bool = False) -> StoreError:
    """Translate an error while a store is opened: nothing was begun, and nothing is lost. `may_ask`: whether this
    process has no connection to the file, so that it may ask for its locks (locks.py)."""
    if code(error) in _DISK if isinstance(error, sqlite3.Error) else error.errno == errno.EIO:
        return StoreDied(
            f"the disk under {path} failed while the store was opened: {error}; nothing was begun. Check the disk, "
            "then start the program again"
        )
    if isinstance(error, OSError):
        if error.errno in _NO_ROOM_FOR_FILES:
            return _no_room(str(error), path)
        if (known := _limited(error, path)) is not None:
            return known
        return StoreUnreadable(f"{path} cannot be opened: {error}")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if {code(error), code(error) & _PRIMARY} & _NO_ROOM_TO_OPEN:
        return _no_room(f"{error} ({name})", path)
    if code(error) & _PRIMARY in _UNREADABLE:
        return explain(error, path)
    if is_busy(error):
        return _locked(path, may_ask=may_ask)
    if code(error) & _PRIMARY == sqlite3.SQLITE_CANTOPEN and (known := _without_files(path)) is not None:
        return known
    return StoreUnreadable(f"{path} cannot be opened: {error} ({name}); it was left untouched")


def explain_owning(error: OSError, folder: Path) -> StoreError:
    """Translate an error of a lock file: the transaction that claims a tree is rolled back."""
    if error.errno in _NO_ROOM_FOR_FILES:
        return _no_room(str(error), folder)
    if (known := _limited(error, folder)) is not None:
        return known
    return StoreRefused(f"the lock files in {folder} cannot be used: {error}; nothing was begun. Make it writable")


def _locked(path: Path, *, may_ask: bool) -> StoreError:
    """Return the error for a file whose lock SQLite did not get. SQLite says the same where a disk has no locks."""
    holder = None
    if may_ask:
        try:
            holder = locks.holder(path)[0] if path.exists() else None
            if holder is None:
                locks.try_one_in(path.parent)
        except OSError as error:
            if (known := _limited(error, path)) is not None:
                return known
    return StoreUnreadable(
        f"{path} is locked by {locks.name(holder)}, most likely while that process upgrades its format; it was "
        "left untouched. Wait for that process, then open it again"
    )


def _without_files(path: Path) -> StoreRefused | None:
    """Return the error for a process that cannot open the files that a store needs: SQLite says only that one of them
    was not opened."""
    opened: list[int] = []
    try:
        for _ in range(_FILES):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))  # noqa: PERF401 # closed if a later one fails
    except OSError as error:
        return _limited(error, path)
    finally:
        for each in opened:
            os.close(each)
    return None


def _limited(error: OSError, path: Path) -> StoreRefused | None:
    """Return the error for a disk without locks, or a process or system without room for another open file."""
    if error.errno in _NO_LOCKS:
        return StoreRefused(
            f"the disk of {path} has no working locks: {error}; nothing was begun. A store needs them, so that two "
            "processes never run one session: move it to a local disk, or turn on the locks of the network disk"
        )
    if error.errno in _NO_FILES:
        return StoreRefused(
            f"{path} needs up to {_FILES} open files more than there may be: {error}; nothing of it was written. Raise "
            "the limit (`ulimit -n`), or find what keeps so many files open, then resume"
        )
    return None


def _no_room(what: str, path: Path) -> StoreRefused:
    return StoreRefused(
        f"there is no room to write {path}: {what}. The commit was rolled back and nothing is lost: make room "
        f"on the disk of {path.parent}, or raise the limit on file sizes, then resume"
    )
