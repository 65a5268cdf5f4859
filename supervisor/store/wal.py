"""Whether the log was cut short by damage: SQLite reads it up to the first frame that does not add up, and would write
over whatever follows.

After a crash that is right: the tail was never synced, so nobody was told that it counts. But a commit is written only
when the one before it was synced. So where two commits follow each other behind the place at which SQLite stops, the
first of them had counted, and the place is damaged (R1: a torn tail is tolerated, a damaged middle is refused).

A log of 32 bytes of header and then frames, each 24 bytes of header and a page. A frame's checksum goes on from that of
the frame before it; salts tell the frames of this round from those of an earlier one, which may lie behind them.
"""

import struct
from pathlib import Path
from typing import Final

from supervisor.core.errors import StoreUnreadable

CHECKPOINT_PAGES: Final = 500
"""How much is written between two checkpoints: about 4 MiB, as SQLite itself would have it."""
LARGE_LOG: Final = 32 * 2**20
"""Bytes from which on the log is cut back, which holds up writers for as long as it takes."""
_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_WORDS: Final = {0x377F0682: "<", 0x377F0683: ">"}
"""By the log's first word: how the machine that wrote it orders the bytes that checksums add up."""
_INDEX_HEADER: Final = 48


def check_log(path: Path) -> None:
    """Raise StoreUnreadable if commits lie behind a damaged place of the log. Changes nothing.

    To be called when this process has no connection to the file, after one that has read from it: the index file then
    says where SQLite stops. (To open and close that file beside a connection would drop the connection's locks.)
    """
    log = Path(f"{path}-wal")
    try:
        # Read, not mapped: a process that cuts the log back meanwhile would kill us.
        frames = _Frames(log.read_bytes())
        # The end is asked afterwards: somebody who commits meanwhile only moves it on.
        end = _end(Path(f"{path}-shm"))
    except FileNotFoundError:
        return
    if end is not None and frames.has_commits_behind(end):
        raise StoreUnreadable(
            f"{log} is damaged behind its frame {end}, and commits that counted follow; it was left untouched. Restore "
            f"{path} and {log.name} from a copy, or remove {log.name} to give up what is in it"
        )


def _end(index: Path) -> int | None:
    """Return the number of the last frame that counts, None if somebody is changing it right now."""
    with index.open("rb") as file:
        head = file.read(2 * _INDEX_HEADER)
    first, second = head[:_INDEX_HEADER], head[_INDEX_HEADER:]
    if first != second or len(second) < _INDEX_HEADER:
        return None
    (end,) = struct.unpack_from("=I", first, 16)
    return int(end)


class _Frames:
    """The frames of this round, as they are in the file."""

    def __init__(self, content: bytes) -> None:
        magic, _, page, _ = struct.unpack_from(">4I", content.ljust(_HEADER, b"\0"))
        self._content = content
        self._order = _WORDS.get(magic)
        self._size = _FRAME_HEADER + page
        self._words = page // 4
        self._count = (len(content) - _HEADER) // self._size
        self._salts = content[16:24]

    def has_commits_behind(self, end: int) -> bool:
        """Whether two commits follow each other behind a frame."""
        if self._order is None:
            return False
        mine = [n for n in range(end, self._count) if self._header(n)[8:16] == self._salts]
        if sum(self._is_commit(n) for n in mine) < 2:
            return False
        commits, last = 0, -1
        for n in mine:
            commits = (commits if n == last + 1 and self._follows(n) else 0) + self._is_commit(n)
            if commits == 2:
                return True
            last = n
        return False

    def _header(self, n: int) -> bytes:
        start = _HEADER + n * self._size
        return self._content[start : start + _FRAME_HEADER]

    def _is_commit(self, n: int) -> bool:
        return self._header(n)[4:8] != b"\0\0\0\0"

    def _follows(self, n: int) -> bool:
        """Whether a frame's checksum goes on from that of the frame before it."""
        first, second = struct.unpack_from(">2I", self._header(n - 1), 16)
        start = _HEADER + n * self._size
        words = struct.unpack_from(f"{self._order}2I", self._content, start)
        words += struct.unpack_from(f"{self._order}{self._words}I", self._content, start + _FRAME_HEADER)
        for even, odd in zip(words[::2], words[1::2], strict=True):
            first = (first + even + second) & 0xFFFFFFFF
            second = (second + odd + first) & 0xFFFFFFFF
        return (first, second) == struct.unpack_from(">2I", self._header(n), 16)
