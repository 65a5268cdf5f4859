"""Text of agents and tools as a person may be shown it: one function for cards, pages, terminals and patterns.

A person decides by what they see. So a character that a screen would obey, draw as nothing, or draw like another one
is replaced by a mark: `⟨U+202E⟩`. Every other character is unchanged.

Marked in any text
- Controls, formats, surrogates, private and unassigned characters, and unusual spaces.
- Unicode's Default_Ignorable_Code_Point, and some other characters that fonts draw as nothing.
- A combining mark that does not follow a letter of its own script, and the fourth in a row.
- The brackets of marks, `⟨` and `⟩`. So no text can imitate a mark, two different texts never look the same, and all
  else is drawn as it is: `grep '\\bfoo'` reads as it runs.

Marked by the kind of the text
- `code`: a command, a path, a name, an id, a pattern. What looks like something else is marked (look_alikes.py).
- `words`: text whose meaning is not known. Words that mix scripts whose letters look alike are marked.
- `prose`: what people read as language, and no program runs: a question, a reason, a message. Nothing more is marked.
- An argument that is declared a command or a path is code. So is any other value without spaces, which may be a name or
  an id. Values with spaces are `words` (`kind_of`).

Marked on request
- Letters that are written from right to left, if the screen's order is in doubt (reading_order.py). `ordered` marks
  them, so that the screen shows the order in which they were written; cards show such text both ways.

Rules
- Pure, and injective: the text can be read back from what is shown. So a text is made visible once, where it is drawn;
  a second time marks the brackets of the first.
- Characters are classified by Unicode's data in this Python; a character that it does not know is marked.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, Final, Literal, NamedTuple

import msgspec

from supervisor.core.text.reading_order import is_reordered, is_right_to_left

Kind = Literal["code", "words", "prose"]
"""What a text is, which says what could be mistaken in it."""

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
_BRACKETS: Final = "\u27e8\u27e9"
_MARKS_IN_A_ROW: Final = 3
"""Languages stack up to three combining marks; more of them climb over the lines above and below."""
_CONTROLS: Final = re.compile(r"[^ -~]")
_CONTROLS_IN_LINES: Final = re.compile(r"[^ -~\n]")
_ESCAPED: Final = re.compile(r"\\(?:u[0-9a-f]{4}|[bfnrt])")
"""An escape of JSON, or of a shell: none of its letters belongs to the next word."""
_PIECES: Final = re.compile(r"[^ ]+")
_PIECES_OF_LINES: Final = re.compile(r"[^ \n]+")
"""Paths, addresses, words: pieces that are examined as one."""
_MANY: Final = 10
_GAPS: Final = re.compile(rf" {{41,}}|\n(?: *\n){{{_MANY},}}")
STRINGS: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BETWEEN_WORDS: Final = re.compile(r"\s|\\[nrt]")
_PLAIN: Final = re.compile(
    "[А-Яа-яЁё -@[-`{-~]+"  # noqa: RUF001 # Cyrillic, without Latin letters,
    "|[\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fef\uac00-\ud7a3 -~]+"  # Japanese, Chinese and Korean,
    "|[À-ÖØ-öø-ž -~]+"  # and the letters of European languages, with ASCII
)
"""Pieces in which nothing is marked but in code, for speed: most text that is not ASCII."""


class _Look(NamedTuple):
    """How a character looks. `script`: the first word of its name, "" if it is neither a letter nor a mark."""

    is_seen: bool = True
    is_letter: bool = False
    is_mark: bool = False
    is_digit: bool = False
    script: str = ""


def visible(text: str, *, kind: Kind = "code", lines: bool = False, ordered: bool = False) -> str:
    """Return the text with every character marked that a person would not see, or would mistake for another.

    `lines`: keep line ends. `ordered`: also mark text that is written from right to left, if its order is in doubt.
    Make a text visible once: a second time marks the marks.
    """
    shown = _marked(text, _mark, kind=kind, lines=lines)
    return _marked(text, _mark, kind=kind, lines=lines, ordered=True) if ordered and is_reordered(shown) else shown


def visible_json(text: str) -> str:
    """Return JSON with each of its strings made visible by its own kind. It keeps its lines."""
    return STRINGS.sub(lambda found: visible(found[0], kind=kind_of(found[1])), text)


def kind_of(value: str) -> Kind:
    """Return the kind of a value of an argument that is declared neither a command nor a path."""
    return "words" if _BETWEEN_WORDS.search(value.strip()) else "code"


def gathered(shown: str) -> str:
    """Return visible text without long gaps that hide what comes after them: a run of more than 40 spaces, or of 10 or
    more empty lines, becomes words in the brackets of marks. Lines of spaces among those are counted by themselves."""
    return _GAPS.sub(lambda gap: _gathered(gap[0]), shown)


def is_visible(text: str, kind: Kind = "code") -> bool:
    """Return whether a person sees all of a text, of one line or several, as it is."""
    return _marked(text, lambda char: char if char in _BRACKETS else "", kind=kind, lines=True) == text


def json_text(value: Any, *, indent: int = 0) -> str:
    """Return a value as JSON that a person can edit: marked characters are written as JSON's own escapes."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    return _marked(text, _json_escape, kind="words", lines=True)


def _gathered(gap: str) -> str:
    if gap[0] == " ":
        return f" ⟨{len(gap)} spaces⟩ "
    lines = gap[1:-1].split("\n")
    found = ["\n"]
    for spaces, run in groupby(lines, len):
        count = len(tuple(run))
        if spaces:
            found.append(f"⟨{count} lines of {spaces} spaces⟩\n")
        else:
            found.append(f"⟨{count} empty lines⟩\n" if count >= _MANY else "\n" * count)
    return "".join(found)


def _marked(text: str, mark: Callable[[str], str], *, kind: Kind, lines: bool, ordered: bool = False) -> str:
    controls = _CONTROLS_IN_LINES if lines else _CONTROLS
    if text.isascii():
        return controls.sub(lambda found: mark(found[0]), text)

    def mark_piece(found: re.Match[str]) -> str:
        piece = found[0]
        if piece.isascii():
            return controls.sub(lambda control: mark(control[0]), piece)
        if kind != "code" and _PLAIN.fullmatch(piece):
            return piece
        marked = _marks_of(piece, kind, ordered=ordered)
        return "".join(mark(char) if is_marked else char for char, is_marked in zip(piece, marked, strict=True))

    return (_PIECES_OF_LINES if lines else _PIECES).sub(mark_piece, text)


def _marks_of(piece: str, kind: Kind, *, ordered: bool) -> Sequence[bool]:
    """Return whether each character of a piece without spaces is marked."""
    return (_kept_marks if len(piece) <= _WORD_CHARACTERS else _find_marks)(piece, kind, ordered)


def _find_marks(piece: str, kind: Kind, ordered: bool) -> Sequence[bool]:
    from supervisor.core.text.look_alikes import Letter, deceptive, is_alike, mixes_scripts  # ASCII needs no tables

    looks = [_look(char) for char in piece]
    for found in _ESCAPED.finditer(piece):
        looks[found.start() : found.end()] = [_Look()] * len(found[0])
    marked: list[bool] = []
    base, row = "", 0  # the script of the letter before the marks, and the number of marks after it
    for char, look in zip(piece, looks, strict=True):
        row = row + 1 if look.is_mark else 0
        is_seen = look.is_seen and not (ordered and is_right_to_left(char)) and not (kind == "code" and is_alike(char))
        if look.is_mark:
            is_seen = is_seen and row <= _MARKS_IN_A_ROW and base != "" and look.script in (base, "COMBINING", "VEDIC")
        if not look.is_mark or not is_seen:
            base = look.script if look.is_letter and is_seen else ""
        marked.append(not is_seen)
    if kind == "prose":
        return marked
    for start, end in _words(looks, marked):
        word = [Letter(piece[at], looks[at].script, looks[at].is_letter) for at in range(start, end)]
        if piece[start:end].isascii():
            continue
        if mixes_scripts(word):
            marked[start:end] = [not char.isascii() for char in piece[start:end]]
        elif kind == "code" and (foreign := deceptive(word)):
            marked[start:end] = [char in foreign for char in piece[start:end]]
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


_kept_marks: Final = lru_cache(4096)(_find_marks)
_WORD_CHARACTERS: Final = 64
"""Characters of the longest piece whose marks are kept, for speed: texts repeat their words."""


@lru_cache(8192)
def _look(char: str) -> _Look:
    from supervisor.core.text.look_alikes import script_of

    category, code = unicodedata.category(char), ord(char)
    is_seen = (
        category not in _UNSEEN_CATEGORIES
        and code not in _NOTHING
        and (category != "Zs" or char == " ")
        and char not in _BRACKETS
    )
    is_letter, is_mark = category[0] == "L", category in ("Mn", "Me")
    script = script_of(char) if is_letter or category[0] == "M" else ""
    return _Look(is_seen, is_letter or category == "Mc", is_mark, category == "Nd", script)


@lru_cache(4096)
def _json_escape(char: str) -> str:
    return char if char in _BRACKETS else json.dumps(char)[1:-1]


@lru_cache(4096)
def _mark(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"
