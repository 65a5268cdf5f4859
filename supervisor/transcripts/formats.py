"""What a format has to know, and which format a file is in.

Theory: the makers' files differ in how a line is read, in which lines are one conversation, and in how a result is
written; all else (pairing, reading, writing, locking) is the same for all. A format is one small object with no state.

Rules:
- The first line that can be read decides the format; a file that no format recognises is never touched.
- `read` adds exactly one line to the index, whatever it is given.
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
    decoder: msgspec.json.Decoder[Any]

    def recognises(self, first: dict[str, Any]) -> bool: ...
    def read(self, entry: Any, index: Index) -> None: ...
    def read_other(self, entry: Any, index: Index) -> None:
        """Add a line whose shape is not the format's; `entry` is a dict, or None where it is no JSON object."""
        ...

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


def decode_blocks(content: msgspec.Raw, decoder: msgspec.json.Decoder[list[Any]], block: type[Any]) -> list[Any]:
    """Decode the blocks of a message; one of an unexpected shape is kept with its type alone, so that it counts."""
    if not begins(content, "["):
        return []
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        clean = as_javascript_reads_it(memoryview(content))
    blocks = []
    for value in msgspec.json.decode(clean) if clean else ():
        try:
            blocks.append(msgspec.json.decode(msgspec.json.encode(value), type=block))
        except msgspec.ValidationError:
            kind = value.get("type") if isinstance(value, dict) else None
            blocks.append(block(type=kind if isinstance(kind, str) else None))
    return blocks


def by_place(dangling: Iterable[Dangling]) -> list[tuple[tuple[int, bool], list[Dangling]]]:
    """Group dangling calls by where their results belong, in the order of the file."""
    groups: dict[tuple[int, bool], list[Dangling]] = {}
    for call in dangling:
        groups.setdefault((call.after, call.is_tail), []).append(call)
    return sorted(groups.items())


def all_orphaned(found: dict[int, Findings]) -> list[Orphaned]:
    return [orphaned for findings in found.values() for orphaned in findings.orphaned]
