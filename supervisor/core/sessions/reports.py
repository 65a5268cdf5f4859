"""Reports: what an agent says of itself. A report is no operation, so nothing in a run depends on it.

Rules
- The pieces of a message are one entry: a piece is added to the report before it if that is not written yet and both
  have one kind, tool and call. A plan is never joined with another entry, nor is a call or a result without an id.
- An entry has at most LONGEST bytes of text. A piece that would make it longer begins another entry. A single report
  that is longer is cut; `left_out` is the number of bytes that were cut.
"""

from datetime import datetime
from typing import Any, Final, get_args

from msgspec.structs import replace

from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput
from supervisor.core.events import AnyEvent, Reported
from supervisor.core.values import ReportKind

LONGEST_BYTES: Final = 64 * 1024
"""Bytes of the text of one entry."""
LONGEST_NAME_CHARACTERS: Final = 256
"""Characters of the name of a tool or the id of a call: other programs make them up."""
_KINDS: Final = get_args(ReportKind)
_PIECES: Final = ("text", "thought")


def make_report(
    at: datetime, kind: ReportKind, text: str, tool: str | None, call: str | None, *, is_error: bool
) -> Reported:
    """Return the entry of a report. Raises InvalidInput for another kind, or for what is no text."""
    if kind not in _KINDS:
        raise InvalidInput(f"a report is one of {', '.join(_KINDS)}, not {kind!r}")
    for name, value in (("text", text), ("tool", tool or ""), ("call", call or "")):
        if not isinstance(value, str):
            raise InvalidInput(f"the {name} of a report is a text, not {value!r:.40}")
    kept, left_out = _cut(printable_text(text))
    names: dict[str, Any] = {"tool": _name(tool), "call": _name(call)}
    return Reported(at=at, kind=kind, text=kept, left_out=left_out, is_error=is_error, **names)


def joined(before: AnyEvent, piece: Reported) -> Reported | None:
    """Return the unwritten report with the next piece added; None if the piece begins another report."""
    if not isinstance(before, Reported) or not _is_piece(piece) or before.left_out:
        return None
    if _message(before) != _message(piece) or size_of(before) + size_of(piece) > LONGEST_BYTES:
        return None
    return replace(before, text=before.text + piece.text, left_out=piece.left_out)


def size_of(report: Reported) -> int:
    """Return the bytes of a report's text."""
    return len(report.text) if report.text.isascii() else len(report.text.encode())


def _is_piece(report: Reported) -> bool:
    return report.kind in _PIECES or (report.kind != "plan" and report.call is not None)


def _message(report: Reported) -> tuple[str, str | None, str | None, bool]:
    return report.kind, report.tool, report.call, report.is_error


def _cut(text: str) -> tuple[str, int]:
    """Return the beginning of a text that fits, and the number of bytes after it."""
    if len(text) * 4 <= LONGEST_BYTES or (text.isascii() and len(text) <= LONGEST_BYTES):
        return text, 0
    whole = text.encode()
    kept = whole[:LONGEST_BYTES].decode(errors="ignore")  # a character at the edge is left out whole
    return kept, len(whole) - len(kept.encode())


def _name(name: str | None) -> str | None:
    return None if name is None else printable_text(name)[:LONGEST_NAME_CHARACTERS]
