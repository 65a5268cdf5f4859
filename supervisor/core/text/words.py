"""The words of a text, by which approvals are searched.

A search finds what has each of its words. A word of three letters or more also finds longer words that begin with it.

Rules
- A word is a run of letters and digits, case aside; all else divides words. Scripts without spaces have words of one
  letter.
- A store's index and a search have the words of `words_of`, so no other place decides what a word is.
- Pure.
"""

import re
from collections.abc import Iterable
from typing import Final
from unicodedata import normalize

LONGEST_CHARACTERS: Final = 40
"""The most characters of a word that count."""
_BEGINS_CHARACTERS: Final = 3
"""The fewest characters by which the beginning of a word is found."""
_ALONE: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD: Final = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, each once."""
    text = text.lower() if text.isascii() else normalize("NFKC", text).casefold()
    return list(dict.fromkeys(word[:LONGEST_CHARACTERS] for word in _WORD.findall(text)))


def as_needles(wanted: Iterable[str]) -> list[str]:
    """Return the texts that stand in a line of words (`as_line`) if it has all that are wanted."""
    return [f" {word}" if is_beginning(word) else f" {word} " for word in wanted]


def is_beginning(word: str) -> bool:
    """Whether a wanted word also finds longer ones."""
    return len(word) >= _BEGINS_CHARACTERS


def as_line(words: Iterable[str]) -> str:
    """Return words in one text; see `as_needles`."""
    return f" {' '.join(words)} "
