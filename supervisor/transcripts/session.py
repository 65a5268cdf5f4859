"""A session of another maker, read and judged: what the file contains and what it lacks.

Theory: one pass over the file gives the index and the findings; the few lines that a repair needs are read again.
The findings are valid for the file as it was; by `Session.stamp` a writer detects that it has changed since.

Rules:
- This module writes nothing, and keeps nothing open.
- A file that cannot be judged is refused with the reason, and with what the person can do about it.
- A torn line (neither JSON nor blank) is counted and left out, as the makers' own readers do. A file with a line that
  is JSON and that its format does not understand is refused.
- Codex refuses a file for one byte that is not UTF-8. A torn line with such a byte is a fault that can be repaired; a
  whole one is refused. Mistral Vibe refuses a file for any torn line.

The module is longer than 400 lines because reading and judging a file are one pass.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from supervisor.core.sessions.transcript import Findings
from supervisor.transcripts.chat_lines import ChatLines
from supervisor.transcripts.claude_code import ClaudeCode
from supervisor.transcripts.codex import Codex
from supervisor.transcripts.copilot_cli import CopilotCli
from supervisor.transcripts.formats import Format, ShapeError, read_value
from supervisor.transcripts.gemini_cli import GeminiCli
from supervisor.transcripts.index import RESULT, Index
from supervisor.transcripts.lines import (
    BOM,
    NOT_JSON,
    TooDeepError,
    is_utf8,
    javascript_value,
    json_value,
    read_lines,
)
from supervisor.transcripts.pi_linear import PiLinear
from supervisor.transcripts.pi_tree import PiTree
from supervisor.transcripts.recognised import database_of, name_of

_PACKED_BYTES: Final = (
    1 << 13
)  # compressed bytes that are unpacked at once; the result may be thousands of times as long
_UNPACKED_AT_LEAST_BYTES: Final = 64 << 20
_UNPACKED_AT_MOST_BYTES: Final = 8 << 30
_RATIO: Final = 1000  # no known session is compressed as much; a bomb has 30,000
_SQLITE = b"SQLite format 3\0"
FORMATS: tuple[Format, ...] = (
    PiLinear(),
    PiTree(2),
    PiTree(3),
    Codex(),
    ClaudeCode(),
    CopilotCli(),
    GeminiCli(),
    ChatLines(),
)


class RefusedError(Exception):
    """A file is left unchanged; the message says why and what can be done. `name` is that of its format, if known."""

    def __init__(self, said: str, name: str | None = None) -> None:
        super().__init__(said)
        self.format = name


class DatabaseError(RefusedError):
    """A SQLite database with sessions: OpenClaw's since 2026.7.2, or OpenCode's."""


class UnknownFormatError(RefusedError):
    """No format reads the file, or the file is empty; its format may be known by name."""


class ChangedError(RefusedError):
    """The file is no longer the one that was judged."""


class Stamp(NamedTuple):
    """Identifies one state of a file."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Session:
    """One file, judged. `path` is what the person named, `real` the file to which it leads."""

    def __init__(self, path: Path, real: Path, stamp: Stamp, text_format: Format, index: Index, size: int) -> None:
        self.path = path
        self.real = real
        self.stamp = stamp
        self.format = text_format
        self.index = index
        self.size = size
        """Bytes of text; more than the file's size if the file is compressed."""
        self.found: dict[int, Findings] = {}
        self.torn: list[int] = []
        self.not_utf8: list[int] = []
        """The torn lines that stop the maker's reader."""
        self.first: dict[str, Any] = {}
        self.has_crlf = False
        self.is_terminated = True

    @property
    def is_compressed(self) -> bool:
        return self.real.suffix == ".zst"

    @property
    def calls(self) -> int:
        return sum(findings.calls for findings in self.found.values())

    @property
    def dangling(self) -> int:
        return sum(len(findings.dangling) for findings in self.found.values())

    @property
    def orphaned(self) -> int:
        return sum(len(findings.orphaned) for findings in self.found.values())

    @property
    def unanswerable(self) -> int:
        return sum(findings.unanswerable for findings in self.found.values())

    @property
    def held(self) -> int:
        return sum(findings.held for findings in self.found.values())

    @contextmanager
    def open(self) -> Iterator[Reader]:
        """Open the file again to read single lines; refuse if it has changed since it was judged."""
        with open_text(self.real) as (file, _, stamp):
            if stamp != self.stamp:
                raise ChangedError(f"{self.path} changed while it was being read; run the repair again")
            yield Reader(file, self)


class Reader:
    """Single lines of an open session."""

    def __init__(self, file: io.FileIO, session: Session) -> None:
        self.file = file
        self._session = session

    def end(self, at: int) -> int:
        """Return the offset of the line after line `at`."""
        starts = self._session.index.starts
        return starts[at + 1] if at + 1 < len(starts) else self._session.size

    def raw(self, at: int) -> bytes:
        begin = self._session.index.starts[at]
        self.file.seek(begin)
        line = self.file.read(self.end(at) - begin)
        return line.removesuffix(b"\n").removesuffix(b"\r")

    def entry(self, at: int) -> dict[str, Any]:
        raw = self.raw(at).removeprefix(BOM if at == 0 else b"")
        try:
            entry = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            entry = javascript_value(raw.decode("utf-8", "replace"))
        return entry if isinstance(entry, dict) else {}


@contextmanager
def judging(path: Path) -> Iterator[None]:
    """Refuse a file on which our own code fails, too: the report says so, and no other file is affected."""
    try:
        yield
    except (RefusedError, OSError):
        raise
    except Exception as error:
        raise RefusedError(
            f"{path} cannot be judged ({type(error).__name__}: {error}); it is left alone. This is a bug of "
            "supervisor: please report it"
        ) from error


@contextmanager
def open_text(real: Path) -> Iterator[tuple[io.FileIO, int, Stamp]]:
    """Open a file's text; yield it with its size and the file's stamp. A compressed file is unpacked to disk, not to
    memory."""
    if not stat.S_ISREG(real.stat().st_mode):  # checked first, because opening a pipe would wait for ever
        raise UnknownFormatError(f"{real} is not a regular file")
    with io.FileIO(real) as file:
        stamp = Stamp.of(os.fstat(file.fileno()))
        if real.suffix != ".zst":
            yield file, stamp.size, stamp
            return
        try:
            import zstandard
        except ImportError:
            raise RefusedError(
                f"{real} is compressed; install the package that reads it: pip install zstandard"
            ) from None
        with tempfile.TemporaryFile(buffering=0) as unpacked:
            try:
                limit = min(max(_UNPACKED_AT_LEAST_BYTES, _RATIO * stamp.size), _UNPACKED_AT_MOST_BYTES)
                is_whole = _unpack(file, unpacked, zstandard.ZstdDecompressor(), limit)
            except zstandard.ZstdError as error:
                raise RefusedError(f"{real} cannot be unpacked ({error}); it may be damaged") from None
            if not is_whole:
                raise RefusedError(f"{real} is cut off: its end cannot be unpacked; restore it from a copy")
            size = unpacked.tell()
            unpacked.seek(0)
            with io.FileIO(os.dup(unpacked.fileno())) as text:
                yield text, size, stamp


def _unpack(file: io.FileIO, into: BinaryIO, decompressor: Any, limit: int) -> bool:
    """Unpack all frames of a file, up to a limit in bytes.

    Returns False if the last frame is cut off, which zstandard's own streams do not report.
    """
    frame = None
    while packed := file.read(_PACKED_BYTES):
        while packed:
            frame = frame or decompressor.decompressobj()
            into.write(frame.decompress(packed))
            if into.tell() > limit:
                raise RefusedError(
                    f"{file.name} unpacks to more than {limit >> 20} MiB, which no session of its size does; if you "
                    "trust it, unpack it (zstd -d) and name the unpacked file"
                )
            packed = frame.unused_data
            if frame.eof:
                frame = None
    return frame is None


def _refuse_database(path: Path, real: Path) -> RefusedError:
    database = database_of(real)
    if database is None:
        return UnknownFormatError(f"{path} is a SQLite database without sessions of a program that is known")
    return DatabaseError(f"{path} is {database.said}", database.name)


def read_session(path: Path, held: Collection[str] = ()) -> Session:
    """Read and judge one file; `held` are the ids of calls that will be answered."""
    real = Path(os.path.realpath(path))  # for a link that leads to itself, the link
    with open_text(real) as (file, size, stamp):
        if file.read(len(_SQLITE)) == _SQLITE:
            raise _refuse_database(path, real)
        file.seek(0)
        try:
            session = _scan(path, real, file, size, stamp)
            labels = session.format.labels(session.index)
        except TooDeepError:
            raise RefusedError(f"{path} has a line nested too deeply to be judged; it is left alone") from None
        except ShapeError as error:
            raise _unknown_shape(path, (error.at or 0) + 1, error) from None

    def is_synthesised(at: int) -> bool:
        with session.open() as lines:
            return session.format.is_synthesised(lines.entry(at))

    session.found = session.index.pair(
        labels,
        framed=session.format.framed,
        unique=session.format.unique_ids,
        held=[prefix + key for prefix in session.format.key_prefixes for key in held],
        is_synthesised=is_synthesised,
    )
    if labels is not None and session.format.unique_ids:
        _refuse_answered_elsewhere(session, labels)
    return session


def _refuse_answered_elsewhere(session: Session, labels: Sequence[int]) -> None:
    """Refuse a file in which the result of a dangling call is in no conversation, or in another one."""
    dangling = {call.key: label for label, found in session.found.items() for call in found.dangling}
    index = session.index
    for at, mark, key in zip(index.mark_lines, index.marks, index.keys, strict=True) if dangling else ():
        if mark == RESULT and labels[at] != dangling.get(key, labels[at]):
            raise RefusedError(
                f"{session.path} line {at + 1} has the result of a dangling call, outside of the call's "
                "conversation; the file is left alone"
            )


def _unknown_shape(path: Path, number: int, error: ShapeError) -> RefusedError:
    return RefusedError(
        f"{path} line {number} has an unknown shape ({error}), so a result in it could be overlooked; the "
        "file is left alone. If a newer program wrote it, update supervisor"
    )


def _scan(path: Path, real: Path, file: io.FileIO, size: int, stamp: Stamp) -> Session:
    lines = read_lines(file, size)
    session = _begin(path, real, size, stamp, lines)
    index = session.index
    starts, text_format = index.starts, session.format
    decode, read = text_format.decoder.decode, text_format.read
    try:
        for start, line in lines:
            starts.append(start)
            if text_format.needs_utf8 and not is_utf8(line):
                session.not_utf8.append(len(index))
            try:
                entry = decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                if not _index_otherwise(line, text_format, index):
                    _leave_out(line, session)
            else:
                read(entry, index)
                del entry
            del line  # a reference to a view keeps the buffer, and a longer one may be needed
    except RecursionError:
        raise _too_deep(path, len(starts)) from None
    except ShapeError as error:
        raise _unknown_shape(path, len(starts), error) from None
    file.seek(max(size - 1, 0))
    session.is_terminated = file.read(1) == b"\n"
    for at in session.not_utf8:
        if at not in session.torn:
            raise RefusedError(
                f"{path} line {at + 1} has bytes that are not UTF-8, for which {text_format.name} refuses the file; "
                "it is left alone. Restore the line from a copy"
            )
    return session


def _begin(path: Path, real: Path, size: int, stamp: Stamp, lines: Iterator[tuple[int, memoryview]]) -> Session:
    """Read up to the first readable line, which decides the format."""
    index = Index()
    left_out: list[tuple[bytes, bool]] = []
    for start, line in lines:
        index.starts.append(start)
        text = line[len(BOM) :] if not start and bytes(line[: len(BOM)]) == BOM else line
        first = _first(path, text, len(index.starts))
        if first is None or first is NOT_JSON:
            left_out.append((bytes(line[:64]), is_utf8(line)))
            continue
        session = Session(path, real, stamp, _format_of(path, first), index, size)
        session.first = first
        session.has_crlf = bytes(line[-1:]) == b"\r"
        for beginning, is_text in left_out:
            if session.format.needs_utf8 and not is_text:
                session.not_utf8.append(len(index))
            _leave_out(memoryview(beginning), session)
        if session.format.needs_utf8 and not is_utf8(line):
            session.not_utf8.append(len(index))
        try:
            read_value(session.format, first, index)
        except ShapeError as error:
            raise _unknown_shape(path, len(index.starts), error) from None
        return session
    raise UnknownFormatError(f"{path} has no line that can be read" if size else f"{path} is empty")


def _leave_out(line: memoryview, session: Session) -> None:
    if bytes(line[:64]).strip():
        session.torn.append(len(session.index))
        if session.format.refuses_torn:
            session.not_utf8.append(len(session.index))
    session.index.line(0)


def _too_deep(path: Path, number: int) -> RefusedError:
    return RefusedError(f"{path} line {number} is nested too deeply to be judged; it is left alone")


def _index_otherwise(line: memoryview, text_format: Format, index: Index) -> bool:
    """Add a line that the format's decoder refused; return False if the line is not JSON."""
    if (value := json_value(line)) is not NOT_JSON:
        read_value(text_format, value, index)
    return value is not NOT_JSON


def _first(path: Path, line: memoryview, number: int) -> Any:
    try:
        return json_value(line)
    except RecursionError:
        raise _too_deep(path, number) from None


def _format_of(path: Path, first: Any) -> Format:
    name = name_of(first) if isinstance(first, dict) else None
    if name is not None:
        raise UnknownFormatError(
            f"{path} is a session in a format that is known by name only ({name}), and it is left alone", name
        )
    if isinstance(first, dict) and first.keys() >= {"entry", "position", "session", "event"}:
        raise UnknownFormatError(
            f"{path} was written by supervisor export, for other programs; no store takes it, since a session in two "
            "stores would run twice. To take sessions to another place, move their store: copy it while no process has "
            "it open, and use the copy alone"
        )
    for candidate in FORMATS if isinstance(first, dict) else ():
        if candidate.recognises(first):
            return candidate
    raise UnknownFormatError(
        f"{path} is in none of the known formats (pi, OpenClaw, Claude Code, Codex, Copilot CLI, Gemini CLI, "
        "chat messages)"
    )
