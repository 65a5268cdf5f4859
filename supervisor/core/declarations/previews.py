"""Previews: what a tool shows of a call before a person decides it, and what the state is that it has read.

    @tool(preview=rows_of)
    async def delete_rows(table: str, where: str) -> int: ...

A preview only reads. It takes those arguments of the tool that it names, and a PreviewContext first if it wants one.
What it returns becomes text here, and its state a digest: the journal holds no state of anything outside.

Rules
- A text alone is its own state: if a second preview says something else, what the person saw is not true any more.
- What is longer than MOST_TEXT_CHARACTERS is cut, with the number of what is missing. The state is of all of it.
- Pure.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import digest_of_value
from supervisor.core.values import EvidenceKind

PREVIEW_SECONDS: Final = 5.0
"""The deadline of a preview. Cards wait for it so long at most."""
OnChange = Literal["deny", "run"]
PREVIEWS_ELSEWHERE: Final = (
    "previews read on the machine that asks, and this tree runs on Temporal: leave preview= out there"
)
MOST_TEXT_CHARACTERS: Final = 20_000
MOST_ROWS: Final = 200
MOST_CELL_CHARACTERS: Final = 200


class PreviewContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a preview can read about its call. It gets one by naming the type on its first parameter."""

    session: str
    requester: str
    cwd: str
    """The folder in which the call would run unless its own arguments name another."""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a preview returns: a text, a table or a diff, and the state of what it has read.

    `table`: rows of cells, the first of them the names of columns. `state`: any value that JSON can express, such as
    hashes of what was read; just before the call runs the preview is taken again, and another state denies the call.
    None: the text, the table or the diff is the state.
    """

    text: str = ""
    table: Sequence[Sequence[Any]] = ()
    diff: str = ""
    state: Any = None


class Previewed(NamedTuple):
    """What was previewed, as it is journaled. `state`: a digest."""

    kind: EvidenceKind
    text: str
    state: str


def read_preview(returned: Any, what: str) -> Previewed:
    """Return what a preview has returned. Raises InvalidInput, which names `what`, for anything that is none."""
    found = Preview(text=returned) if isinstance(returned, str) else returned
    if not isinstance(found, Preview):
        raise InvalidInput(f"{what} returned {type(returned).__name__}: return a text or a Preview")
    said = [name for name in ("text", "table", "diff") if getattr(found, name)]
    if len(said) > 1:
        raise InvalidInput(f"{what} returned {' and '.join(said)}: return one of them")
    kind: EvidenceKind = "table" if found.table else "diff" if found.diff else "text"
    whole = _table_text(found.table) if kind == "table" else found.diff or found.text
    if not isinstance(whole, str):
        raise InvalidInput(f"{what} returned a {kind} that is no text")
    try:
        given = [kind, found.table or whole] if found.state is None else [found.state]
        state = digest_of_value(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} returned a state that JSON cannot express: {error}") from None
    return Previewed(kind, cut_text(printable_text(whole)), state)


def cut_text(text: str) -> str:
    """Return a text as it is journaled, with the number of characters that are left out of it."""
    more = len(text) - MOST_TEXT_CHARACTERS
    return text if more <= 0 else f"{text[:MOST_TEXT_CHARACTERS]}\n… ({more} characters more)"


def _table_text(table: Sequence[Sequence[Any]]) -> str:
    """Return a table in lines, with columns of one width. No text of a cell begins a line."""
    shown = [[_cell(cell) for cell in row] for row in table[:MOST_ROWS]]
    count = max((len(row) for row in shown), default=0)
    widths = [max((len(row[place]) for row in shown if place < len(row)), default=0) for place in range(count)]
    lines = [" | ".join(map(str.ljust, row, widths)).rstrip() for row in shown]
    lines[1:1] = ["-+-".join("-" * width for width in widths)]
    more = len(table) - MOST_ROWS
    return "\n".join([*lines, *([f"… ({more} rows more)"] if more > 0 else [])])


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    text = text.replace("\r", "␍").replace("\n", "⏎")
    return text if len(text) <= MOST_CELL_CHARACTERS else f"{text[:MOST_CELL_CHARACTERS]}…"
