"""Reading a shell command without running it: strictly to prove it safe, generously to find what it may run.

There are two readers, because two different mistakes must not happen. `simple_words` proves: it returns words only for
a text that every POSIX shell reads as one simple command of exactly these words, and else None. `split_commands`
searches: it finds every place where a command could begin, and says if something may be hidden from it.

Why not a parser of the shell's grammar: a proof needs the opposite of a parser, a language so small that all shells
agree on it, and a refusal of the rest. tree-sitter-bash recovers from errors and reads bash where /bin/sh is dash; with
it we would trust two compiled wheels more, to understand text that is refused anyway. bashlex is GPL.
shlex accepts what a shell would expand, and does not know line ends.

Rules
- Simple text is printable ASCII in which spaces separate words; a word is bare (letters, digits and `_@%+=:,./-`,
  which mean nothing to a shell) or quoted as a whole, without `$`, backtick, backslash and `!` in double quotes.
- The program is a bare word without `=` (that would be an assignment); a builtin may have its name, too.
- Nothing is repaired, normalised or guessed. Only deny and ask use the generous reader.
- A list is proved in the same way (`simple_list`): simple commands between `&&`, `||`, `;`, `|` and line ends, whose
  output may go to /dev/null, and whose errors to where the output goes. Its words may be joined of bare and quoted
  pieces. Dash, bash and `bash --posix` read each such text alike: tests/core/test_shell_lists.py runs random ones.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_BARE: Final = r"[A-Za-z0-9_@%+=:,./-]+"
_WORD: Final = rf"""(?:(?P<bare>{_BARE})|'(?P<single>[ -&(-~]*)'|"(?P<double>[ #%-\[\]-_a-~]*)")"""
_ANY: Final = re.sub(r"\?P<\w+>", "?:", _WORD)
_SIMPLE: Final = re.compile(rf" *[A-Za-z0-9_./](?:[A-Za-z0-9_@%+:,./-])*(?: +{_ANY})* *")
_WORDS: Final = re.compile(_WORD)
_QUOTINGS: Final = ("{}", "'{}'", '"{}"')
_TOKEN: Final = re.compile(
    r"""(?P<space>\ +)|(?P<operator>\ *(?:&&|\|\||\||;|\n)[ \n]*)|(?P<output>(?:2>&1|[12]?>/dev/null)(?=[ ;|\n]|&&|\Z))
    |(?P<bare>(?:[A-Za-z0-9_@%+=:,./-]|(?<=[A-Za-z0-9_./])~|(?<=[A-Za-z0-9_.~^])\^)+)|'(?P<single>[ -&(-~]*)'
    |"(?P<double>(?:[ #%-\[\]-_a-~]|\\[ -~]|\$(?=["\ \\|)/]))*)\"""",
    re.VERBOSE,
)
_ESCAPED: Final = re.compile(r'\\([$`"\\])')
_MOST_PARTS: Final = 50  # commands of a list


def simple_words(text: str) -> tuple[str, ...] | None:
    """Return the words of one simple command; None if the text cannot be proved to be one."""
    if not _SIMPLE.fullmatch(text):
        return None
    return tuple(match[match.lastgroup or 0] for match in _WORDS.finditer(text))


class Part(NamedTuple):
    """One simple command of a list. `is_fed`: whether it reads what another one writes; `is_piped`: whether another one
    reads what it writes."""

    words: tuple[str, ...]
    is_fed: bool
    is_piped: bool


def simple_list(text: str) -> tuple[Part, ...] | None:
    """Return the commands of a list, in order; None if the text cannot be proved to be one."""
    text = text.strip(" \n").removesuffix(";").rstrip(" ")
    parts: list[Part] = []
    words: list[str] = []
    at, is_fed, is_in_word = 0, False, False
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or (match["output"] is not None and (is_in_word or not words)):
            return None
        at = match.end()
        if match["operator"] is not None:
            operator = match["operator"].strip(" \n") or "\n"
            if not words or len(parts) == _MOST_PARTS:
                return None
            parts.append(Part(tuple(words), is_fed, operator == "|"))
            words, is_fed, is_in_word = [], operator == "|", False
        elif match["bare"] is not None or match["single"] is not None or match["double"] is not None:
            piece = (
                _ESCAPED.sub(r"\1", match["double"])
                if match["double"] is not None
                else match["bare"] or match["single"]
            )
            if not words and (match["bare"] is None or "=" in piece or piece[0] in "+-,:%@"):
                return None  # a program is a bare word
            if is_in_word and len(words) == 1:
                return None
            words[-1:] = [words[-1] + piece] if is_in_word else [*words[-1:], piece]
            is_in_word = True
        else:
            is_in_word = False
    if not words:
        return None
    return (*parts, Part(tuple(words), is_fed, False))


def quote(word: str) -> str | None:
    """Return the spelling of a word in a simple command, or None if there is none."""
    spellings = (form.format(word) for form in _QUOTINGS)
    return next((each for each in spellings if re.fullmatch(_ANY, each)), None)


def as_text(words: Iterable[str]) -> str | None:
    """Return the simple command that has these words, or None if there is none."""
    words = tuple(words)
    text = " ".join(quote(word) or "" for word in words)
    return text if simple_words(text) == words else None


class Word(NamedTuple):
    text: str
    is_open: bool = False
    """Whether a shell may change it: a variable, a glob, braces, or characters that deceive."""


class Split(NamedTuple):
    commands: tuple[tuple[Word, ...], ...]
    is_clear: bool
    """Whether every command was found for certain: no substitution, here-document, comment or unclosed quote."""
    is_plumbed: bool
    """Whether anything is piped or redirected; the file of a redirection is not a word of a command."""


def split_commands(text: str) -> Split:
    """Return every simple command that the text may run, without quotes, with assignments and reserved words."""
    return _Splitter(text).split()


class _Splitter:
    """Reads the text once, character by character, as a shell would; `at` is the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.quote = ""
        self.is_clear = "\0" not in text
        self.commands: list[tuple[Word, ...]] = []
        self.words: list[Word] = []
        self.word: str | None = None
        self.is_open = False
        self.is_file = False
        self.is_plumbed = False

    def split(self) -> Split:
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if self.quote == "'":
                self._quoted(char)
            elif char == "\\":
                self._escaped()
            elif char in "$`":
                self._expansion(char)
            elif self.quote:
                self._quoted(char)
            elif char in "'\"":
                self.quote = char
                self.word = self.word or ""
            else:
                self._bare(char)
        self._end_command()
        return Split(tuple(self.commands), self.is_clear and not self.quote, self.is_plumbed)

    def _quoted(self, char: str) -> None:
        if char == self.quote:
            self.quote = ""
        else:
            self._take(char)

    def _escaped(self) -> None:
        following = self.text[self.at : self.at + 1]
        self.at += 1
        self.is_clear &= following != ""
        if self.quote and following not in '$`"\\\n':
            self._take("\\")
        if following != "\n":
            self._take(following)

    def _expansion(self, char: str) -> None:
        """A variable makes its word open; in a substitution a command begins, with quotes of its own."""
        following = self.text[self.at : self.at + 1]
        self._take("$")
        self.is_open = True
        if char == "`" or following == "(":
            self.at += char == "$"
            self.quote = ""
            self._end_command()
        self.is_clear &= char == "$" and following not in ("(", "{", "'", '"')

    def _bare(self, char: str) -> None:
        before = self.text[max(self.at - 2, 0) : self.at - 1]
        if char in "<>":
            self._redirection(before)
        elif char in "&|" and before in ("<", ">"):
            self._end_word()
        elif char in ";&|()\n":
            self._end_command()
            self.is_plumbed |= char == "|"
        elif char in " \t":
            self._end_word()
        else:
            self.is_clear &= char != "#" or self.word is not None
            self._take(char)
            self.is_open |= char in "*?[{}" or (char == "~" and self.word == "~")

    def _redirection(self, before: str) -> None:
        """The next word is a file, and a number just before is a descriptor; a here-document is not read."""
        self.is_clear &= before != "<"
        if self.word is not None and self.word.isdigit():
            self.word = None
        self._end_word()
        self.is_plumbed = self.is_file = True

    def _take(self, char: str) -> None:
        self.word = (self.word or "") + char
        self.is_open |= not (char.isascii() and char.isprintable())

    def _end_word(self) -> None:
        if self.word is not None and not self.is_file:
            self.words.append(Word(self.word, self.is_open and self.word not in ("{", "}", "[", "[[")))
        self.is_file &= self.word is None
        self.word, self.is_open = None, False

    def _end_command(self) -> None:
        self._end_word()
        if self.words:
            self.commands.append(tuple(self.words))
        self.words, self.is_file = [], False
