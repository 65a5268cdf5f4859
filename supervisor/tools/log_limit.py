"""The bound on a background job's log: once it takes too much of the disk, its middle goes.

Theory: a job writes into its log itself, so that its output depends on nobody's life, and nobody stands between who
could hold it back. What can be bounded is the disk: a hole is punched into the middle of the file. Whoever writes
appends behind it and notices nothing, every byte keeps its offset, so that a reader's cursor stays true, and where
the hole is the file itself says. Nothing else is written down about it.

Rules
- The warden looks twice a second while its job is at work, and once more at its end. In between a job can write as
  fast as the disk takes it; a job whose warden was killed has no bound.
- What stays: the first `HEAD` bytes, less the line at their end that says what happened, and at least the last `TAIL`.
- Linux, and file systems that know holes (ext4, xfs, btrfs, tmpfs, overlays of them). Elsewhere there is no bound.
- Only the standard library, and little of it: the launcher imports this module without the package around it.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

from supervisor.tools.descendants import PROC

LOOK_EVERY = 0.5  # seconds between two looks at a log
LIMIT = 64 * 2**20  # bytes on disk from which on a log is cut
HEAD = 2**20
TAIL = 32 * 2**20
NOTE = b"\n[supervisor: what came between the first MiB of this log and its end, 32 MiB at least, is gone]\n"
_BLOCK = 2**16  # of whole blocks of any file system: only those become a hole, what is left of one is zeros
_KEEP_SIZE_AND_PUNCH_HOLE = 3

Punch = Callable[[int, int, int, int], int]


def find_punch(libc: Any) -> Punch | None:
    """Return fallocate of the C library; None where there is none."""
    import ctypes  # has been imported by whoever has a C library

    punch = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if punch is not None:
        punch.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    found: Punch | None = punch
    return found


def reopen(output: int) -> int | None:
    """Return a descriptor of one's own of the file behind one that only appends; None if there can be none."""
    try:
        return os.open(f"/proc/self/fd/{output}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return None


def trim(log: int, punch: Punch) -> None:
    """Cut the middle out of a log that takes more than `LIMIT` bytes of the disk."""
    found = os.fstat(log)
    end = (found.st_size - TAIL) // _BLOCK * _BLOCK
    if found.st_blocks * 512 > LIMIT and end > HEAD and punch(log, _KEEP_SIZE_AND_PUNCH_HOLE, HEAD, end - HEAD) == 0:
        os.pwrite(log, NOTE, HEAD - len(NOTE))


def read_kept(log: int, start: int, limit: int) -> tuple[bytes, int]:
    """Return up to `limit` bytes of a log from `start` on, or from where it goes on behind a hole, and where that is.

    What is read ends before the next hole.
    """
    while True:
        first, end = _kept(log, start)
        raw = os.pread(log, min(limit, end - first), first)
        now, end_now = _kept(log, start)
        if now == first and end_now >= first + len(raw):  # else the hole grew under our eyes
            return raw, first


def _kept(log: int, start: int) -> tuple[int, int]:
    try:
        if PROC:
            first = os.lseek(log, start, os.SEEK_DATA)
            return first, os.lseek(log, first, os.SEEK_HOLE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing behind `start`
            return start, start
    return start, max(start, os.fstat(log).st_size)  # where nobody knows of holes there are none
