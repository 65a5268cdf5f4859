"""What agents and tools wrote, as a screen may show it.

Rules
- Nothing reaches a screen as it is: whatever a terminal would obey, or an eye would miss, becomes an escape that can be
  read.
- Pure.
"""

import json
import unicodedata
from collections.abc import Callable
from typing import Any, Final

import msgspec

_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls (ANSI escapes begin with one), formats (bidi overrides, zero width), surrogates, unassigned, separators."""
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that leave nothing, or only a gap, on a screen."""
_MARKS_IN_A_ROW: Final = 3
"""Languages stack up to three combining marks; more of them climb over the lines above and below."""


def visible(text: str, *, lines: bool = False) -> str:
    """Return the text with everything invisible or commanding made visible; `lines`: keep line ends."""
    return _escaped(text, "\n" if lines else "", _escape)


def json_text(value: Any, *, indent: int = 0) -> str:
    """Return a value as JSON that a person can edit: what cannot be seen is written as JSON's own escapes."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    return _escaped(text, "\n", lambda char: json.dumps(char)[1:-1])


def _escaped(text: str, kept: str, escape: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        is_seen = (
            category not in _INVISIBLE_CATEGORIES
            and char not in _INVISIBLE
            and (category != "Zs" or char == " ")
            and not unicodedata.name(char, "").startswith("VARIATION SELECTOR")
            and marks <= _MARKS_IN_A_ROW
        )
        shown.append(char if is_seen or char in kept else escape(char))
    return "".join(shown)


def _escape(char: str) -> str:
    named = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
    code = ord(char)
    short = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return named.get(char, short if code < 0x10000 else f"\\U{code:08x}")
