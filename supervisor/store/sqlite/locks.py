"""Which process has a store open, by the locks of SQLite on its file.

Theory: every connection of SQLite holds a shared lock on the store's file from its first read until it is closed, or an
exclusive one. The kernel tells which process holds a lock, and releases it when the process dies.

Call no function here while this process has a connection to the file: to open and close it drops the locks of the whole
process.
"""

import fcntl
import os
import struct
import sys
import tempfile
from pathlib import Path
from typing import Final

_SHARED_BYTES: Final = (0x40000002, 510)
"""The bytes of a file that SQLite locks (os_unix.c): each process that has it open shares them, or one holds them
exclusively."""
_IS_LINUX: Final = sys.platform == "linux"
_FLOCK: Final = struct.Struct("hhqqi" if _IS_LINUX else "qqihh")
"""struct flock: type, whence, start, length, pid; on other systems type and whence come last."""


def holder(path: Path) -> tuple[int | None, bool]:
    """Return the pid of another process that has a file open, and whether it has it alone. The pid is 0 if it cannot be
    seen, and None if there is no such process."""
    start, length = _SHARED_BYTES
    asked = (fcntl.F_WRLCK, os.SEEK_SET, start, length, 0) if _IS_LINUX else (start, length, 0, fcntl.F_WRLCK, 0)
    with path.open("rb") as file:
        answer = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, _FLOCK.pack(*asked)))
    kind, pid = (answer[0], answer[4]) if _IS_LINUX else (answer[3], answer[2])
    return (None, False) if kind == fcntl.F_UNLCK else (max(0, pid), kind == fcntl.F_WRLCK)


def try_one_in(folder: Path) -> None:
    """Take and give back the lock of a file that is made for it. Raises OSError where locks do not work."""
    with tempfile.TemporaryFile(dir=folder) as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def name(pid: int | None) -> str:
    return f"process {pid}" if pid else "another process (of an unknown pid)"
