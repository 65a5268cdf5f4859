"""Characters and words that look like others: which of them a person could mistake in a command, a path or a name.

Rules
- By Unicode's own data: the list of what looks alike (confusables.py), and the forms of characters, which the running
  Python knows. All dashes, quotation marks and other signs that are named as those of a shell are added to it.
- A sign that looks like another character is marked wherever it stands. Of several signs that look alike, the one that
  people type is what the others are taken for: it is not marked, unless it looks like ASCII.
- A letter or digit is judged by its word. A word is deceptive as a whole if all of it could be ASCII, or all of one
  other script: `файл` is not marked, and `copy` in Cyrillic letters is. Next to ASCII letters, each letter of another
  script that looks like an ASCII one is deceptive.
- A Latin letter with accents, and the letters œ and æ, look like themselves.
- One Greek letter alone is a name, such as π: a letter of another script that looks like it is marked. If it looks like
  an ASCII letter, it is marked itself.
- A word that mixes scripts whose letters look alike is deceptive in any text but prose, where no word is. A name as
  Δt or sinθ is not: its Greek letters look like no Latin ones, and not all of its Latin ones could be Greek.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from supervisor.core.text.confusables import LIKE_ASCII, LIKE_SCRIPT, SIGNS

_MIXED_SCRIPTS: Final = frozenset({"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"})
_PHONETIC: Final = frozenset((*range(0x0250, 0x02B0), *range(0x1D00, 0x1DC0)))
"""Letters of phonetic alphabets, and small capitals: Latin letters in another shape, treated as a script of their
own."""
_DASHES_AND_QUOTES: Final = ("Pd", "Pi", "Pf")
_SIGNS_OF_SHELLS: Final = re.compile(
    r"\b(?:AMPERSAND|APOSTROPHE|ASTERISK|DASH|DOLLAR|GRAVE|HYPHEN|MINUS|NUMBER SIGN|QUOTATION MARK|SLASH|SOLIDUS|TILDE"
    r"|VERTICAL BAR|VERTICAL LINE)\b"
)
"""In the name of a sign: it is one of these in another shape."""
_FAMILIAR: Final = frozenset("£€©®°·÷¹²³")
"""Signs and raised digits of keyboards, for which others are taken."""
_ITSELF: Final = frozenset("œæŒÆ")
"""Letters that are drawn as one, and that Unicode's list compares with two."""
_PLAINLY_GREEK: Final = frozenset("ΔΞΠΦΨΩθλμξπφψω")
"""Greek letters that look like no letters of Latin alphabets."""
_COULD_BE_GREEK: Final = frozenset("ABCEFHIJKMNOPTXYZacijkopuvxy")
"""ASCII letters that look like Greek ones."""
_FULL_STOPS: Final = "\u3002\uff61"
"""They end the parts of a host name, as `.` does."""
_MORE_LIKE_LATIN: Final = frozenset("пкκχյ")
"""Letters that Unicode's list compares with small capitals only, or not at all, and that fonts draw like Latin ones."""


class Letter(NamedTuple):
    """What a letter, mark or digit is. `script`: the first word of its name; "" for a digit."""

    char: str
    script: str
    is_letter: bool


def script_of(char: str) -> str:
    """Return the script of a letter or mark: the first word of its name."""
    return "PHONETIC" if ord(char) in _PHONETIC else unicodedata.name(char, "").partition(" ")[0]


@lru_cache(8192)
def is_alike(char: str) -> bool:
    """Return whether a character looks like others whatever its word is: a sign, a phonetic letter, or a form."""
    if char.isascii() or char in _FAMILIAR:
        return False
    category = unicodedata.category(char)
    if category in _DASHES_AND_QUOTES or char in _FULL_STOPS or ord(char) in _PHONETIC or _is_form(char):
        return True
    is_of_a_word = category in ("Lo", "Lu", "Ll", "Lt", "Nd") or category[0] == "M"
    if is_of_a_word:
        return False
    is_sign_of_shell = category[0] in "PS" and _SIGNS_OF_SHELLS.search(unicodedata.name(char, "")) is not None
    return is_sign_of_shell or char in LIKE_ASCII or char in SIGNS


def mixes_scripts(word: Iterable[Letter]) -> bool:
    """Return whether a word has letters of two scripts that look alike."""
    letters = [letter for letter in word if letter.is_letter]
    scripts = {letter.script for letter in letters}
    if scripts == {"LATIN", "GREEK"} and _is_name(letters):
        return False
    return len(scripts & _MIXED_SCRIPTS) > 1 or ("PHONETIC" in scripts and len(scripts) > 1)


def _is_name(letters: Iterable[Letter]) -> bool:
    """Return whether a word of Latin and Greek letters can be taken for no other one."""
    latin = {letter.char for letter in letters if letter.script == "LATIN"}
    greek = {letter.char for letter in letters if letter.script == "GREEK"}
    return greek <= _PLAINLY_GREEK and all(char.isascii() for char in latin) and not latin <= _COULD_BE_GREEK


def deceptive(word: Sequence[Letter]) -> frozenset[str]:
    """Return the letters and digits of a word, which mixes no scripts, that make a reader take it for another one."""
    judged = {letter.char for letter in word if letter.is_letter or not letter.script}
    foreign = frozenset(char for char in judged if not char.isascii())
    could_be = {"ASCII", *(() if len(foreign) < len(judged) else LIKE_SCRIPT)}
    for char in foreign:
        could_be &= _scripts_like(char)
    if len(word) == 1 and word[0].script == "GREEK":
        return foreign if "ASCII" in could_be else frozenset()
    if could_be or len(foreign) == len(judged):
        return foreign if could_be else frozenset()
    return frozenset(char for char in foreign if "ASCII" in _scripts_like(char) and script_of(char) != "LATIN")


@lru_cache(8192)
def _scripts_like(char: str) -> frozenset[str]:
    """Return the scripts, ASCII among them, of which a letter could be one."""
    base = _base(char)
    if base == char and (char in _ITSELF or unicodedata.normalize("NFD", char)[0].isascii()):
        return frozenset()
    is_like_ascii = base in LIKE_ASCII or base in _MORE_LIKE_LATIN
    return frozenset([*(["ASCII"] * is_like_ascii), *(name for name, like in LIKE_SCRIPT.items() if base in like)])


def _base(char: str) -> str:
    """Return a letter without its accents. A Latin letter with accents looks like itself."""
    base = unicodedata.normalize("NFD", char)[0]
    return char if base.isascii() else base


def _is_form(char: str) -> bool:
    """Return whether a character is a form of one other, or of ASCII text."""
    kind = unicodedata.decomposition(char).partition(" ")[0]
    if not kind:
        return False
    form = unicodedata.normalize("NFKC" if kind.startswith("<") else "NFC", char)
    return form != char and (len(form) == 1 or form.isascii())
