"""What agents and tools wrote, as a screen may show it.

Rules
- Nothing reaches a screen as it is: whatever a terminal would obey, or an eye would miss, becomes an escape that can be
  read.
- Pure.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls (ANSI escapes begin with one), formats (bidi overrides, zero width), surrogates, unassigned, separators."""
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that leave nothing, or only a gap, on a screen."""
_DOUBTFUL: Final = re.compile("[^ -~]+")
"""Runs of what is not printable ASCII; the rest, which is most of it, is taken as it is."""
_DOUBTFUL_IN_LINES: Final = re.compile("[^ -~\n]+")
_BLANKS: Final = re.compile(r" {41,}")
_EMPTY_LINES: Final = re.compile(r"\n(?: *\n){10,}")
_MARKS_IN_A_ROW: Final = 3
"""Languages stack up to three combining marks; more of them climb over the lines above and below."""


def visible(text: str, *, lines: bool = False) -> str:
    """Return the text with everything invisible or commanding made visible; `lines`: keep line ends."""
    return _escaped(text, _DOUBTFUL_IN_LINES if lines else _DOUBTFUL, _escape)


def gathered(text: str) -> str:
    """Return a text in which no long gap hides what comes after it: runs of more than 40 spaces, and of 10 or more
    empty lines, are said in words."""
    text = _EMPTY_LINES.sub(lambda run: f"\n⟨{run[0].count(chr(10)) - 1} empty lines⟩\n", text)
    return _BLANKS.sub(lambda run: f" ⟨{len(run[0])} spaces⟩ ", text)


def json_text(value: Any, *, indent: int = 0) -> str:
    """Return a value as JSON that a person can edit: what cannot be seen is written as JSON's own escapes."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    return _escaped(text, _DOUBTFUL_IN_LINES, _json_escape)


def _escaped(text: str, doubtful: re.Pattern[str], escape: Callable[[str], str]) -> str:
    def escaped(run: re.Match[str]) -> str:
        shown: list[str] = []
        marks = 0
        for char in run[0]:
            is_seen, is_mark = _look(char)
            marks = marks + 1 if is_mark else 0
            shown.append(char if is_seen and marks <= _MARKS_IN_A_ROW else escape(char))
        return "".join(shown)

    return doubtful.sub(escaped, text)


@lru_cache(4096)
def _look(char: str) -> tuple[bool, bool]:
    """Return whether a character is seen, and whether it is a mark on the one before it."""
    category = unicodedata.category(char)
    is_seen = (
        category not in _INVISIBLE_CATEGORIES
        and char not in _INVISIBLE
        and (category != "Zs" or char == " ")
        and not unicodedata.name(char, "").startswith("VARIATION SELECTOR")
    )
    return is_seen, category in ("Mn", "Me")


@lru_cache(4096)
def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


@lru_cache(4096)
def _escape(char: str) -> str:
    named = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
    code = ord(char)
    short = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return named.get(char, short if code < 0x10000 else f"\\U{code:08x}")
