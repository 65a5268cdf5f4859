"""The border where SQLite's and the file system's errors become ours; they are translated nowhere else.

What decides is what is known about the disk:
- Nothing was written: StoreRefused. A WAL frame that could not be written is never part of a commit, so that no room, a
  file too large, or a write that failed belong here; so does a file that we may not write to, or could not even open.
- The file contradicts itself: StoreUnreadable, whatever was being done.
- A value that no store can hold (a dict where text belongs) is the caller's mistake, and the disk's never: a read
  raises InvalidInput, a write StoreRefused, and the store goes on.
- Anything else, above all a sync that failed: StoreDied. The kernel may have dropped what it could not write, and will
  say so only once (fsync's error is not repeated), so nothing that follows could be trusted.
"""

import errno
import sqlite3
from pathlib import Path
from typing import Final

from supervisor.core.errors import InvalidInput, StoreDied, StoreError, StoreRefused, StoreUnreadable

_UNREADABLE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}
_NO_ROOM_FOR_FILES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DISK: Final = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_READ}
"""What only a disk that fails says, also on the way to an open store."""
_NO_ROOM_TO_OPEN: Final = {*_NO_ROOM, sqlite3.SQLITE_IOERR_SHMSIZE}
"""The log's index could not be made. Later on it grows behind a sync: then it is not known what was written."""
_REFUSED: Final = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CANTOPEN,
}
MISUSED: Final = (sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError, UnicodeEncodeError)
"""What is raised for a value that SQLite cannot hold; a ProgrammingError comes of a closed connection, too."""
_PRIMARY: Final = 0xFF
"""Extended result codes carry the primary one in their low byte."""


def is_busy(error: sqlite3.Error) -> bool:
    return code(error) & _PRIMARY == sqlite3.SQLITE_BUSY


def code(error: sqlite3.Error) -> int:
    """Return SQLite's extended result code; 0 where Python itself raised."""
    return getattr(error, "sqlite_errorcode", 0)


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """Translate an error of an open store."""
    what = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
    extended = code(error)
    if extended & _PRIMARY in _UNREADABLE:
        return StoreUnreadable(f"{path} is damaged: {what}. It was left untouched; restore it from a copy")
    if {extended, extended & _PRIMARY} & _NO_ROOM:
        return _no_room(what, path)
    if extended & _PRIMARY in _REFUSED:
        return StoreRefused(f"{path} did not take a commit: {what}; nothing of it was written. Resume when it can")
    return StoreDied(
        f"the disk under {path} failed: {what}. What was written before is safe; whether the last commit was written "
        "is not known. Check the disk, then start the program again: it goes on from what is there"
    )


def closed(path: Path) -> StoreDied:
    """Return what is to be said to whoever uses a store that was closed."""
    return StoreDied(f"{path} is not open any more. Open it again to go on from what is there")


def explain_misuse(error: Exception, path: Path, *, writing: bool) -> StoreRefused | InvalidInput:
    """Translate what is raised for a value that no store can hold."""
    if writing:
        return StoreRefused(f"{path} cannot hold what it was given: {error}; nothing of it was written")
    return InvalidInput(f"{path} cannot be asked for this: {error}")


def explain_opening(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """Translate an error on the way to an open store: nothing was begun, and nothing is lost."""
    if code(error) in _DISK if isinstance(error, sqlite3.Error) else error.errno == errno.EIO:
        return StoreDied(
            f"the disk under {path} failed while the store was opened: {error}; nothing was begun. Check the disk, "
            "then start the program again"
        )
    if isinstance(error, OSError):
        if error.errno in _NO_ROOM_FOR_FILES:
            return _no_room(str(error), path)
        return StoreUnreadable(f"{path} cannot be opened: {error}")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if {code(error), code(error) & _PRIMARY} & _NO_ROOM_TO_OPEN:
        return _no_room(f"{error} ({name})", path)
    if code(error) & _PRIMARY in _UNREADABLE:
        return explain(error, path)
    if is_busy(error):
        return StoreUnreadable(
            f"{path} is in use by a process that lets no other in, most likely to bring it to a newer format; it was "
            "left untouched. Wait for that process, then open it again"
        )
    return StoreUnreadable(f"{path} cannot be opened: {error} ({name}); it was left untouched")


def explain_owning(error: OSError, folder: Path) -> StoreError:
    """Translate an error of a lock file: the transaction that claims a tree is rolled back."""
    if error.errno in _NO_ROOM_FOR_FILES:
        return _no_room(str(error), folder)
    return StoreRefused(f"the lock files in {folder} cannot be used: {error}; nothing was begun. Make it writable")


def _no_room(what: str, path: Path) -> StoreRefused:
    return StoreRefused(
        f"the disk that holds {path} took no more: {what}. The commit was rolled back and nothing is lost: make room "
        f"on the disk of {path.parent}, or raise the limit on file sizes, then resume"
    )
