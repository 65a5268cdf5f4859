"""The bound on a background job's log: once the log takes too much disk, its middle is removed.

Theory: a job writes to its log itself, so that its output depends on no other process; for the same reason no process
can hold it back. But the warden can bound the disk: it punches a hole into the middle of the file. The job goes on
appending and notices nothing. Every byte keeps its offset, so that a reader's offset stays valid, and the file
itself says where the hole is. No other record of it exists.

Rules
- The warden looks twice a second while its job runs, and once more at its end. In between a job can write as fast as
  the disk accepts it. The log of a job whose warden was killed has no bound.
- What stays: the first `HEAD_BYTES`, less the line at their end that says what happened, and at least the last
  `TAIL_BYTES`.
- This works on Linux, in file systems with holes (ext4, xfs, btrfs, tmpfs, overlays of them). Elsewhere there is no
  bound.
- Only the standard library, and little of it: the launcher imports this module without the rest of the package.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

from supervisor.tools.descendants import PROC

LOOK_EVERY_SECONDS = 0.5  # seconds between two looks at a log
LIMIT_BYTES = 64 * 2**20  # bytes on disk above which a log is cut
HEAD_BYTES = 2**20
TAIL_BYTES = 32 * 2**20
NOTE = b"\n[supervisor: what came between the first MiB of this log and its end, 32 MiB at least, is gone]\n"
_BLOCK_BYTES = (
    2**16
)  # only whole blocks of a file system become a hole, the rest becomes zeros: a multiple of any block size
_KEEP_SIZE_AND_PUNCH_HOLE = 3

Punch = Callable[[int, int, int, int], int]


def find_punch(libc: Any) -> Punch | None:
    """Return fallocate of the C library; None if it has none."""
    import ctypes  # already imported, since the caller has a C library

    punch = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if punch is not None:
        punch.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    found: Punch | None = punch
    return found


def reopen(output: int) -> int | None:
    """Return a new descriptor, without O_APPEND, of the file of an append-only one; None if that is not possible."""
    try:
        return os.open(f"/proc/self/fd/{output}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return None


def trim(log: int, punch: Punch) -> None:
    """Cut the middle out of a log that takes more than `LIMIT_BYTES` bytes on disk."""
    found = os.fstat(log)
    end = (found.st_size - TAIL_BYTES) // _BLOCK_BYTES * _BLOCK_BYTES
    if (
        found.st_blocks * 512 > LIMIT_BYTES
        and end > HEAD_BYTES
        and punch(log, _KEEP_SIZE_AND_PUNCH_HOLE, HEAD_BYTES, end - HEAD_BYTES) == 0
    ):
        os.pwrite(log, NOTE, HEAD_BYTES - len(NOTE))


def read_kept(log: int, start: int, limit: int) -> tuple[bytes, int]:
    """Return up to `limit` bytes of a log, and their offset: `start`, or the end of the hole that `start` is in.

    The bytes end before the next hole.
    """
    while True:
        first, end = _kept(log, start)
        raw = os.pread(log, min(limit, end - first), first)
        now, end_now = _kept(log, start)
        if now == first and end_now >= first + len(raw):  # else the hole grew during the read
            return raw, first


def _kept(log: int, start: int) -> tuple[int, int]:
    try:
        if PROC:
            first = os.lseek(log, start, os.SEEK_DATA)
            return first, os.lseek(log, first, os.SEEK_HOLE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing after `start`
            return start, start
    return start, max(start, os.fstat(log).st_size)  # a platform without SEEK_DATA makes no holes
