"""What a format must know, and which format a file is in.

Theory: the makers' files differ in how a line is read, in which lines are one conversation, and in how a result is
written. Everything else (pairing, reading, writing, locking) is the same for all. A format is a small object without
state.

Rules:
- The first line that can be read decides the format. A file that no format recognises is never changed.
- `read` adds exactly one line to the index, or raises ShapeError. A line that is JSON and that the format does not
  understand may contain a result, so its file is refused: no line is skipped.
- `plan` only proposes. It takes the time and the source of ids as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from supervisor.core.sessions.transcript import Dangling, Findings, Orphaned, is_synthesised_text
from supervisor.transcripts.index import Index
from supervisor.transcripts.lines import as_javascript_reads_it

ABSENT = msgspec.Raw(b"")
"""The value of an absent key; compared by identity, so that it differs from null."""


class ShapeError(Exception):
    """A line has a shape that the format does not know; `at` is its number from 0, None for the line being read."""

    def __init__(self, said: str, at: int | None = None) -> None:
        super().__init__(said)
        self.at = at


class Addition(NamedTuple):
    """A line to be added after line `after`, or at the end of the file if `after` is None."""

    after: int | None
    line: bytes
    call_id: str
    tool: str


class Plan(NamedTuple):
    additions: list[Addition]
    changes: dict[int, bytes]
    """Whole lines that get another pointer, without their terminator."""
    drops: set[int]
    notes: list[str]
    """What could not be done, as text for the person who asked."""
    moves: frozenset[int] = frozenset()
    """Torn lines that stop the maker's reader, and that go to another file."""

    @property
    def is_empty(self) -> bool:
        return not (self.additions or self.drops or self.moves)


class Wish(NamedTuple):
    """How a person wants a file repaired."""

    now: datetime
    new_id: Callable[[], str]
    """A new random UUID."""
    text: str
    drop_orphaned: bool = False
    append_only: bool = False
    """Add at the end of the file only."""


class Lines(Protocol):
    """Access to single lines of the file, by number."""

    def raw(self, at: int) -> bytes: ...
    def entry(self, at: int) -> dict[str, Any]: ...


class Format(Protocol):
    """A format of sessions. Most have the values that are given here."""

    name: str
    framed: bool = True
    """Results belong between two messages of the assistant; otherwise anywhere after their calls."""
    writes_copy: bool = False
    """The maker keeps indexes into the file, so a repaired copy is written unless the person asks for the file."""
    needs_utf8: bool = False
    """The maker refuses a file for one byte that is not UTF-8: a torn line with one is moved to another file."""
    refuses_torn: bool = False
    """The maker refuses a file with a torn line, too: each is moved to another file."""
    key_prefixes: tuple[str, ...] = ("",)
    """The prefixes of call ids in the index, one for each class of tools that is paired separately."""
    unique_ids: bool = False
    """The maker never repeats a call's id in a file, so a result with that id anywhere in it belongs to that call."""
    speaking: frozenset[str]
    """The types of the lines that can contain calls and results."""
    spoken: frozenset[str]
    """The keys that are read in those lines only; in other lines their values do not matter, whatever their shape."""
    decoder: msgspec.json.Decoder[Any]

    def recognises(self, first: dict[str, Any]) -> bool: ...
    def read(self, entry: Any, index: Index) -> None: ...
    def labels(self, index: Index) -> Sequence[int] | None:
        """Return the label of each line's conversation, 0 for none; None if all lines are one conversation."""
        return None

    def is_synthesised(self, entry: dict[str, Any]) -> bool:
        """Whether the result in a line is one that recovery or a repair wrote."""
        return False

    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan: ...


def iso(now: datetime) -> str:
    """Format an instant as JavaScript does."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def begins_with(raw: msgspec.Raw, bracket: str) -> bool:
    """Return whether a raw value begins with this bracket or quote."""
    view = memoryview(raw)
    return len(view) > 0 and view[0] == ord(bracket)


def decode_blocks(content: msgspec.Raw, decoder: msgspec.json.Decoder[list[Any]]) -> list[Any]:
    """Decode the blocks of a message; a message that is a string has none."""
    if begins_with(content, '"'):
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
    """Add a line by its decoded value, without keys that do not matter in it. Raises ShapeError for an unknown shape
    that could matter."""
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


def insertions(found: dict[int, Findings], write: Callable[[Dangling], tuple[bytes, str, str]]) -> list[Addition]:
    """Return a line for each dangling call, after the results of its siblings, or at the end of the file. `write`:
    returns the line, the call's id, and its tool."""
    return [
        Addition(None if is_tail else after, *write(call))
        for (after, is_tail), calls in by_place(call for findings in found.values() for call in findings.dangling)
        for call in calls
    ]


def says_synthesised(content: Any) -> bool:
    """Whether the content of a result, a text or blocks, begins as one that recovery or a repair wrote."""
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    return isinstance(text, str) and is_synthesised_text(text)


def to_drop(found: dict[int, Findings], wish: Wish) -> tuple[list[Orphaned], list[str]]:
    """Return the orphaned results that a person wants dropped and that may be, and notes on those that stay."""
    orphaned = [orphaned for findings in found.values() for orphaned in findings.orphaned] if wish.drop_orphaned else []
    notes = [
        f"line {orphan.at + 1}: its orphaned result stays, because a call that it may belong to has no other"
        for orphan in orphaned
        if orphan.is_needed
    ]
    return [orphan for orphan in orphaned if not orphan.is_needed], notes
