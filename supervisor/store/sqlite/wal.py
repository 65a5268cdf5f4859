"""Whether damage cut the log short: SQLite reads it up to the first frame with a wrong checksum, and would overwrite
everything after it.

After a crash that is right: the tail was never synced, so no caller was told that it counts. But a commit is written
only after the one before it was synced. So if two commits follow each other after the place where SQLite stops, the
first of them had counted, and the place is damaged (R1: a torn tail is tolerated, a damaged middle is refused).

A log has a header of 32 bytes and then frames, each with 24 bytes of header and a page. A checksum continues the one
before it, the first one that in the header. Salts distinguish the frames of this round from those of an earlier one,
which may come after them. A round begins when all of the one before it was written to the database: nothing of that one
can be lost.
"""

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from supervisor.core.errors import StoreUnreadable

CHECKPOINT_PAGES: Final = 500
"""How much is written between two checkpoints: about 4 MiB, as in SQLite's default."""
_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_WORDS: Final = {0x377F0682: "<", 0x377F0683: ">"}
"""For the log's first word: the byte order of the machine that wrote it, in which checksums are computed."""
_NATIVE: Final = "<" if sys.byteorder == "little" else ">"
_INDEX_HEADER: Final = 48


def check_log(path: Path) -> None:
    """Raise StoreUnreadable if commits follow a damaged place of the log. Changes nothing.

    Call it when this process has no connection to the file, after one that has read from it: the index file then
    says where SQLite stops. (Opening and closing that file while there is a connection would drop its locks.)
    """
    log = Path(f"{path}-wal")
    # Damage stays; a frame that a process was writing at the first look is complete at the second.
    if (end := _find_damage(path, log)) is not None and _find_damage(path, log) == end:
        raise StoreUnreadable(
            f"{log} is damaged after its frame {end}, and commits that counted follow; it was left untouched. Restore "
            f"{path} and {log.name} from a copy, or remove {log.name} to give up what is in it"
        )


def _find_damage(path: Path, log: Path) -> int | None:
    """Return the number of the last frame that SQLite reads, if commits that had counted follow it."""
    try:
        # Read, not mapped, and only as far as needed: another process may cut it back meanwhile, and it may be large.
        with log.open("rb", buffering=0) as file:
            frames = _Frames(file.fileno(), path)
            # Checked afterwards: a commit meanwhile only moves the end, or begins another round.
            end = _end(Path(f"{path}-shm"), frames)
            return end if end is not None and frames.has_commits_after(end) else None
    except FileNotFoundError:
        return None


def _end(index: Path, frames: "_Frames") -> int | None:
    """Return the number of the last frame that counts; None if the index does not describe these frames, because a
    process is changing it right now, or another round has begun."""
    with index.open("rb") as file:
        head = file.read(2 * _INDEX_HEADER)
    first, second = head[:_INDEX_HEADER], head[_INDEX_HEADER:]
    if first != second or len(second) < _INDEX_HEADER:
        return None
    end, salts = struct.unpack_from("=I12x8s", first, 16)
    return int(end) if salts == frames.salts or not frames.is_whole else None


class _Frames:
    """The frames of this round, as they are in the file."""

    def __init__(self, file: int, path: Path) -> None:
        header = os.pread(file, _HEADER, 0).ljust(_HEADER, b"\0")
        magic, _, page, _, salts, *sums = struct.unpack(">4I8s2I", header)
        self._file = file
        self._order = _WORDS.get(magic, _NATIVE)
        self.is_whole = magic in _WORDS and self._add((0, 0), header[:24]) == tuple(sums)
        """Whether the log's header is correct; SQLite reads nothing after an incorrect one."""
        self.salts: bytes = salts
        self._page: int = page
        if not self.is_whole:
            self._page = _page_of(path)
            self.salts = self._header(0)[8:16]

    def has_commits_after(self, end: int) -> bool:
        """Return whether two commits follow each other after a frame."""
        commits = (n for n, header in self._after(end) if _is_commit(header))
        if next(commits, None) is None or next(commits, None) is None:
            return False
        count, last, before = 0, -2, b""
        for n, header in self._after(end):
            if n != last + 1 or not self._follows(n, header, before):
                count = 0
            count += _is_commit(header)
            if count == 2:
                return True
            last, before = n, header
        return False

    def _after(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the numbers and headers of the frames of this round after a frame."""
        n = end
        while len(header := self._header(n)) == _FRAME_HEADER:
            if header[8:16] == self.salts:
                yield n, header
            n += 1

    def _start(self, n: int) -> int:
        return _HEADER + n * (_FRAME_HEADER + self._page)

    def _header(self, n: int) -> bytes:
        return os.pread(self._file, _FRAME_HEADER, self._start(n))

    def _follows(self, n: int, header: bytes, before: bytes) -> bool:
        """Return whether a frame's checksum continues that of the frame before it."""
        content = os.pread(self._file, self._page, self._start(n) + _FRAME_HEADER)
        if len(content) < self._page:
            return False
        first, second = struct.unpack_from(">2I", before, 16)
        return self._add((first, second), header[:8] + content) == struct.unpack_from(">2I", header, 16)

    def _add(self, sums: tuple[int, int], content: bytes) -> tuple[int, int]:
        first, second = sums
        words = struct.unpack(f"{self._order}{len(content) // 4}I", content)
        for even, odd in zip(words[::2], words[1::2], strict=True):
            first = (first + even + second) & 0xFFFFFFFF
            second = (second + odd + first) & 0xFFFFFFFF
        return first, second


def _is_commit(header: bytes) -> bool:
    return header[4:8] != b"\0\0\0\0"


def _page_of(path: Path) -> int:
    """Return the size of the database's pages."""
    with path.open("rb") as file:
        size: int = struct.unpack(">16xH", file.read(18).ljust(18, b"\0"))[0]
    return 65536 if size == 1 else size
