"""What a format has to know, and which format a file is in.

Theory: the makers' files differ in how a line is read, in which lines are one conversation, and in how a result is
written; all else (pairing, reading, writing, locking) is the same for all. A format is one small object with no state.

Rules:
- The first line that can be read decides the format; a file that no format recognises is never touched.
- `read` adds exactly one line to the index, or raises ShapeError: of a line that JSON can read and the format cannot,
  nobody knows whether it holds a result, so its file is refused. No line is overlooked.
- `plan` proposes; it writes nothing, and takes the time and the source of ids as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from supervisor.core.transcript import Dangling, Findings, Orphaned
from supervisor.transcripts.index import Index
from supervisor.transcripts.lines import as_javascript_reads_it

ABSENT = msgspec.Raw(b"")
"""The value of a key that is not there, told from null by identity."""


class ShapeError(Exception):
    """A line has a shape that the format does not know; `at` is its number from 0, None for the line being read."""

    def __init__(self, said: str, at: int | None = None) -> None:
        super().__init__(said)
        self.at = at


class Addition(NamedTuple):
    """A line to be added behind line `after`, or at the end of the file where that is None."""

    after: int | None
    line: bytes
    call_id: str
    tool: str


class Plan(NamedTuple):
    additions: list[Addition]
    changes: dict[int, bytes]
    """Lines that get another pointer, whole, without their terminator."""
    drops: set[int]
    notes: list[str]
    """What could not be done, in words for the person who asked."""

    @property
    def is_empty(self) -> bool:
        return not (self.additions or self.drops)


class Wish(NamedTuple):
    """How a person wants a file repaired."""

    now: datetime
    new_id: Callable[[], str]
    """A new random UUID."""
    text: str
    drop_orphaned: bool = False
    append_only: bool = False
    """Add at the end of the file, and nowhere else."""


class Lines(Protocol):
    """Access to single lines of the file, by number."""

    def raw(self, at: int) -> bytes: ...
    def entry(self, at: int) -> dict[str, Any]: ...


class Format(Protocol):
    name: str
    framed: bool
    """Results belong between two messages of the assistant; otherwise anywhere behind their calls."""
    writes_copy: bool
    """The file's maker keeps indexes into it, so that a repaired copy is written unless the person insists."""
    needs_utf8: bool
    """The maker refuses the whole file over one byte that is not UTF-8: such a torn tail is moved away."""
    key_prefixes: tuple[str, ...]
    """What a call's id is prefixed with in the index, one for each class of tools that are paired apart."""
    unique_ids: bool
    """The maker gives a call's id once in a file, so that a result anywhere in it is that call's."""
    speaking: frozenset[str]
    """The types of the lines that can hold calls and results."""
    spoken: frozenset[str]
    """The keys that are read in those lines only; what they hold in others, in whatever shape, does not matter."""
    decoder: msgspec.json.Decoder[Any]

    def recognises(self, first: dict[str, Any]) -> bool: ...
    def read(self, entry: Any, index: Index) -> None: ...
    def labels(self, index: Index) -> Sequence[int] | None:
        """Name the conversation of each line, 0 for none; None where all lines are one."""
        ...

    def is_synthesised(self, entry: dict[str, Any]) -> bool: ...
    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan: ...


def iso(now: datetime) -> str:
    """Write an instant the way JavaScript does."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def begins(raw: msgspec.Raw, bracket: str) -> bool:
    """Say whether a raw value is an object or an array."""
    view = memoryview(raw)
    return len(view) > 0 and view[0] == ord(bracket)


def decode_blocks(content: msgspec.Raw, decoder: msgspec.json.Decoder[list[Any]]) -> list[Any]:
    """Decode the blocks of a message; text alone has none."""
    if begins(content, '"'):
        return []
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        clean = as_javascript_reads_it(memoryview(content))
    try:
        return decoder.decode(clean or b"")
    except msgspec.MsgspecError as error:
        raise ShapeError(f"the content of its message: {error}") from None


def read_value(text_format: Format, value: Any, index: Index) -> None:
    """Add a line that is no object of the format as it stands; raises ShapeError if it matters what it is."""
    if isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] not in text_format.speaking:
        value = {key: inner for key, inner in value.items() if key not in text_format.spoken}
    try:
        entry = text_format.decoder.decode(msgspec.json.encode(value))
    except msgspec.ValidationError as error:
        raise ShapeError(str(error)) from None
    text_format.read(entry, index)


def by_place(dangling: Iterable[Dangling]) -> list[tuple[tuple[int, bool], list[Dangling]]]:
    """Group dangling calls by where their results belong, in the order of the file."""
    groups: dict[tuple[int, bool], list[Dangling]] = {}
    for call in dangling:
        groups.setdefault((call.after, call.is_tail), []).append(call)
    return sorted(groups.items())


def all_orphaned(found: dict[int, Findings]) -> list[Orphaned]:
    return [orphaned for findings in found.values() for orphaned in findings.orphaned]
