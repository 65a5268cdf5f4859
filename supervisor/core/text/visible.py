"""Text of agents and tools as a person may be shown it: one function for cards, pages, terminals and patterns.

A person decides by what they see. So a character that a screen would obey, draw as nothing, or draw like another one
is replaced by a readable escape (`\\u202e`). Every other character is unchanged: text in any one script reads as its
author wrote it.

Always marked
- Controls, formats, surrogates, private and unassigned characters, and unusual spaces.
- Unicode's Default_Ignorable_Code_Point, and some other characters that fonts draw as nothing.
- A combining mark that does not follow a letter of its own script, and the fourth in a row.
- Characters that are another form of an ASCII one: full-width and mathematical letters, the Kelvin sign.

Marked because of their neighbours
- A word that mixes scripts whose letters look alike (github with a Cyrillic i): all of it that is not ASCII.
- A word of look-alike letters only, if Latin letters are in the same path or address (`.com` after a Cyrillic name).

Marked on request
- Letters that are written from right to left. A screen draws them in another order than a command runs them. `ordered`
  escapes them, so that the screen shows the order in which they were written; cards show such text both ways.

Rules
- Pure, and idempotent: text that was made visible is not changed again.
- Characters are classified by Unicode's data in this Python; a character that it does not know is marked.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

_UNSEEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls (ANSI escapes begin with one), formats (bidi overrides, zero width), surrogates, unassigned, separators."""
_IGNORABLE: Final = (
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""Default_Ignorable_Code_Point of Unicode 16 (DerivedCoreProperties.txt), first and last of each range."""
_BLANK: Final = (
    *((0x2800, 0x2800), (0xFFFC, 0xFFFC), (0x1107F, 0x1107F), (0x13430, 0x1345F), (0x16FE4, 0x16FE4)),
    (0x1D159, 0x1D159),
)
"""Others that are drawn as nothing: a Braille blank, joiners and fillers of single scripts, a note without a head."""
_NOTHING: Final = frozenset(chain.from_iterable(range(first, last + 1) for first, last in (*_IGNORABLE, *_BLANK)))
_LOOK_ALIKE_SCRIPTS: Final = frozenset({"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"})
_PHONETIC: Final = (*range(0x0250, 0x02B0), *range(0x1D00, 0x1DC0))
"""Letters of phonetic alphabets, many of which are Latin letters in another shape; treated as a script of their own."""
_LIKE_LATIN: Final = frozenset(
    "асеһіјӏкорԛѕԁүухԝѵгпАВСЕНІЈКМОРЅТХУԌѴ"  # Cyrillic,
    "ονρικυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳͿϹ"  # Greek
    "օսոցհյքգՕՍ"  # and Armenian
)
"""Letters of other scripts that look like Latin ones."""
_LIKE_SIGNS: Final = frozenset("\u01c3\u2024\u2044\u2215\u2223\u2236\u29f8\ua789")
"""Characters that look like `! . / / | : / :`, and mean nothing to any program."""
_MARKS_IN_A_ROW: Final = 3
"""Languages stack up to three combining marks; more of them climb over the lines above and below."""
_CONTROLS: Final = re.compile(r"[^ -~]")
_CONTROLS_IN_LINES: Final = re.compile(r"[^ -~\n]")
_ESCAPED: Final = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[bfnrt])")
"""An escape of ours, or of JSON: none of its letters belongs to the next word."""
_PIECES: Final = re.compile(r"[^ ]+")
_PIECES_OF_LINES: Final = re.compile(r"[^ \n]+")
"""Paths, addresses, words: pieces that are examined as one."""
_BLANKS: Final = re.compile(r" {41,}")
_EMPTY_LINES: Final = re.compile(r"\n(?: *\n){10,}")
_UNMARKED: Final = re.compile(
    "[А-Яа-яЁё -@[-`{-~]+"  # noqa: RUF001 # Cyrillic, without Latin letters,
    "|[\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fef\uac00-\ud7a3 -~]+"  # Japanese, Chinese and Korean,
    "|[À-ÖØ-öø-ž -~]+"  # and the letters of European languages, with ASCII
)
"""Pieces in which nothing would be marked, for speed: most text that is not ASCII."""


class _Look(NamedTuple):
    """How a character looks. `script`: the first word of its name, "" if it is neither a letter nor a mark."""

    is_seen: bool = True
    is_letter: bool = False
    is_mark: bool = False
    is_digit: bool = False
    is_right_to_left: bool = False
    script: str = ""


def visible(text: str, *, lines: bool = False, ordered: bool = False) -> str:
    """Return the text with every character marked that a person would not see, or would mistake for another.

    `lines`: keep line ends. `ordered`: also mark text that is written from right to left.
    """
    return _marked(text, _escape, lines=lines, ordered=ordered)


def gathered(text: str) -> str:
    """Return the text without long gaps that hide what comes after them: a run of more than 40 spaces, or of 10 or more
    empty lines, becomes words."""
    text = _EMPTY_LINES.sub(lambda run: f"\n⟨{run[0].count(chr(10)) - 1} empty lines⟩\n", text)
    return _BLANKS.sub(lambda run: f" ⟨{len(run[0])} spaces⟩ ", text)


def is_visible(text: str) -> bool:
    """Return whether a person sees all of a text, of one line or several, unchanged."""
    return visible(text, lines=True) == text


def is_reordered(text: str) -> bool:
    """Return whether a screen may draw the text in another order than it was written."""
    return not text.isascii() and any(_look(char).is_right_to_left for char in text)


def json_text(value: Any, *, indent: int = 0) -> str:
    """Return a value as JSON that a person can edit: marked characters are written as JSON's own escapes."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    return _marked(text, _json_escape, lines=True, ordered=False)


def _marked(text: str, escape: Callable[[str], str], *, lines: bool, ordered: bool) -> str:
    controls = _CONTROLS_IN_LINES if lines else _CONTROLS
    if text.isascii():
        return controls.sub(lambda found: escape(found[0]), text)

    def mark(found: re.Match[str]) -> str:
        piece = found[0]
        if piece.isascii():
            return controls.sub(lambda control: escape(control[0]), piece)
        if _UNMARKED.fullmatch(piece):
            return piece
        marked = _marks_of(piece, ordered=ordered)
        return "".join(escape(char) if is_marked else char for char, is_marked in zip(piece, marked, strict=True))

    return (_PIECES_OF_LINES if lines else _PIECES).sub(mark, text)


def _marks_of(piece: str, *, ordered: bool) -> list[bool]:
    """Return whether each character of a piece without spaces is marked."""
    looks = [_look(char) for char in piece]
    for found in _ESCAPED.finditer(piece):
        looks[found.start() : found.end()] = [_Look()] * len(found[0])
    marked: list[bool] = []
    base, row = "", 0  # the script of the letter before the marks, and the number of marks after it
    for look in looks:
        row = row + 1 if look.is_mark else 0
        is_seen = look.is_seen and not (ordered and look.is_right_to_left)
        if look.is_mark:
            is_seen = is_seen and row <= _MARKS_IN_A_ROW and base != "" and look.script in (base, "COMBINING", "VEDIC")
        if not look.is_mark or not is_seen:
            base = look.script if look.is_letter and is_seen else ""
        marked.append(not is_seen)
    has_latin = any(look.script == "LATIN" and char.isascii() for look, char in zip(looks, piece, strict=True))
    for start, end in _words(looks, marked):
        if _is_deceptive(piece[start:end], looks[start:end], has_latin=has_latin):
            marked[start:end] = [not char.isascii() for char in piece[start:end]]
    return marked


def _words(looks: list[_Look], marked: list[bool]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each run of letters, their marks, and digits; marked characters are in no run."""
    start: int | None = None
    for at, look in enumerate(looks):
        if (look.is_letter or look.is_mark or look.is_digit) and not marked[at]:
            start = at if start is None else start
        elif start is not None:
            yield start, at
            start = None
    if start is not None:
        yield start, len(looks)


def _is_deceptive(word: str, looks: list[_Look], *, has_latin: bool) -> bool:
    """Return whether a word could be mistaken for another one, of other letters."""
    if word.isascii():
        return False
    scripts = {look.script for look in looks if look.is_letter}
    if len(scripts & _LOOK_ALIKE_SCRIPTS) > 1 or ("PHONETIC" in scripts and len(scripts) > 1):
        return True
    letters = {char for char in word if not char.isdecimal()}
    return has_latin and bool(letters) and _LIKE_LATIN.issuperset(letters)


@lru_cache(8192)
def _look(char: str) -> _Look:
    category, code = unicodedata.category(char), ord(char)
    is_seen = (
        category not in _UNSEEN_CATEGORIES
        and code not in _NOTHING
        and (category != "Zs" or char == " ")
        and char not in _LIKE_SIGNS
        and not _is_form_of_ascii(char)
    )
    is_letter, is_mark = category[0] == "L", category in ("Mn", "Me")
    script = unicodedata.name(char, "").partition(" ")[0] if is_letter or category[0] == "M" else ""
    script = "PHONETIC" if code in _PHONETIC else script
    is_right_to_left = unicodedata.bidirectional(char) in ("R", "AL", "AN")
    return _Look(is_seen, is_letter or category == "Mc", is_mark, category == "Nd", is_right_to_left, script)


def _is_form_of_ascii(char: str) -> bool:
    """Return whether it is a form of one ASCII character; wide punctuation is normal in Chinese and Japanese text."""
    form, _, plain = unicodedata.decomposition(char).rpartition(" ")
    if char.isascii() or not plain or form not in ("", "<wide>", "<font>", "<compat>"):
        return False
    meant = chr(int(plain, 16))
    return meant.isascii() and meant.isprintable() and (form != "<wide>" or meant.isalnum())


@lru_cache(4096)
def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


@lru_cache(4096)
def _escape(char: str) -> str:
    named = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
    code = ord(char)
    short = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return named.get(char, short if code < 0x10000 else f"\\U{code:08x}")
