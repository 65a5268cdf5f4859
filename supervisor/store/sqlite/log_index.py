"""The log's index (`-shm`), which SQLite maps into memory: all of it must be allocated before the disk is full.

Theory: touching a mapped block that the file system cannot allocate ends the process by SIGBUS, without an error.
SQLite therefore writes one byte of each 4 KiB. That is not enough where blocks are smaller: there the blocks between
are holes, and are allocated when they are touched, after the log has taken the last of the disk.

Rules
- Nothing is done where blocks have 4 KiB or more, as nearly everywhere.
- Where they are smaller, a store is opened only if there is room for the index, and the whole index is allocated then,
  including what it will need when the log grows.
- The file stays open as long as this process has a connection: closing it would drop the connection's locks.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Final

ENOUGH_BYTES: Final = 4096
"""Bytes; for blocks of this size and more SQLite's own allocation is enough."""
SIZE_BYTES: Final = 128 * 2**10
"""Bytes: the index of a log of 128 MiB, four times the largest log."""
_held: Final[dict[Path, int]] = {}
"""The files that this process keeps open, by the store's path."""


def check_room(path: Path) -> None:
    """Raise OSError (ENOSPC) if a store cannot be opened without the risk that its index finds no room."""
    disk = os.statvfs(path.parent)
    if disk.f_frsize < ENOUGH_BYTES and disk.f_bavail * disk.f_frsize < SIZE_BYTES and not _is_allocated(path):
        raise OSError(
            errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: the log's index needs {SIZE_BYTES // 1024} KiB", str(path)
        )


def allocate(path: Path) -> None:
    """Allocate all of the index of an open store. Raises OSError."""
    if path in _held or os.statvfs(path).f_frsize >= ENOUGH_BYTES:
        return
    _held[path] = file = os.open(f"{path}-shm", os.O_RDWR | os.O_CLOEXEC)
    import ctypes  # few disks need it

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "fallocate") or sys.maxsize < 2**32:  # with offsets of 64 bits
        return
    # Not os.posix_fallocate: where a file system cannot do it, that one writes into blocks which others are changing.
    offset, size = ctypes.c_longlong(0), ctypes.c_longlong(SIZE_BYTES)
    if library.fallocate(file, 0, offset, size) and ctypes.get_errno() in (errno.ENOSPC, errno.EDQUOT):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"{path}-shm")


def _is_allocated(path: Path) -> bool:
    """Return whether another process has the store open, and has allocated its index."""
    try:
        return Path(f"{path}-shm").stat().st_blocks * 512 >= SIZE_BYTES
    except FileNotFoundError:
        return False


def let_go(path: Path) -> None:
    """Close the file; call it when this process has no connection any more."""
    if (file := _held.pop(path, None)) is not None:
        os.close(file)
