"""Text cut into spans that a page can colour: commands, diffs and everything else.

Rules
- Spans are a partition: joined, they are the text that they were cut from, and none of them is markup. Colour helps the
  eye and proves nothing; what a shell obeys inside double quotes is never coloured like harmless text.
- Linear in the length of the text, whatever an agent wrote; and one that is too long to be looked through is one span:
  all clients wait while a page is drawn.
"""

import difflib
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Language = Literal["shell", "patch", "change", "text"]
"""A patch is text in the format of diff; a change is what `text_change` returns: each line begins with its sign."""

LARGEST_CHARACTERS: Final = 20_000
"""Characters up to which a text is coloured."""
LARGEST_DIFF_LINES: Final = 400
"""Lines of either side up to which two texts are compared: comparing is quadratic, and longer ones are shown as they
are."""

_ESCAPE: Final = r"⟨(?:U\+[0-9A-F]{4,6}|[0-9]+\ (?:spaces|empty\ lines|lines\ of\ [0-9]+\ spaces))⟩"
"""A mark (core/text/visible.py)."""
_SHELL: Final = re.compile(
    rf"""(?P<escape>{_ESCAPE})
    |(?P<string>'[^']*')
    |(?P<quote>")
    |(?P<operator>&&|\|\||\$\(|[;|&<>()`]|\n)
    |(?P<option>(?<![^\s])-[\w-]+)
    |(?P<word>[^\s;|&<>()`'"$\\⟨]+)
    |(?P<other>\\.|[\s$'\\⟨]+?)""",
    re.VERBOSE,
)
_TEXT: Final = re.compile(rf"(?P<escape>{_ESCAPE})")
_HUNK: Final = re.compile(r"^@@ -\d+(,\d+)? \+\d+(,\d+)? @@", re.MULTILINE)
_STARTS: Final = frozenset({"&&", "||", "$(", ";", "|", "&", "(", "`", "\n"})
"""After these the next word is a program."""
_QUOTED: Final = re.compile(
    rf'(?P<escape>{_ESCAPE})|(?P<operator>\$\(|`)|(?P<quote>")|(?P<string>\\.|[^"`$\\⟨]+|[$\\⟨])'
)
"""What there is between double quotes."""


class Span(NamedTuple):
    kind: str
    """A class of the style sheet; "" for plain text."""
    text: str


def spans(text: str, language: Language) -> list[Span]:
    """Cut a text, made visible before, into spans."""
    if len(text) > LARGEST_CHARACTERS:
        return [Span("", text)]
    match language:
        case "shell":
            return list(_shell(text))
        case "patch" | "change":
            return list(_diff(text, has_headers=language == "patch"))
        case "text":
            return list(_escapes(text))


def language_of(name: str, text: str, *, is_command: bool) -> Language:
    """Say how an argument of this name is coloured."""
    if is_command:
        return "shell"
    return "patch" if name in ("diff", "patch") or _HUNK.search(text) else "text"


def text_change(old: str, new: str) -> str | None:
    """Return what replacing `old` by `new` does, as a diff that leaves no line of either out; None if they are too
    long to be compared."""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > LARGEST_DIFF_LINES:
        return None
    lines = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [f" {line}" for line in before[a:b]]
        else:
            lines += [*(f"-{line}" for line in before[a:b]), *(f"+{line}" for line in after[c:d])]
    return "\n".join(lines)


def _shell(text: str) -> Iterator[Span]:
    """Go through a command as a shell would, roughly: `quoted` says for each open `$(` whether it is in quotes."""
    is_start, at, quoted = True, 0, [False]
    while at < len(text):
        match = (_QUOTED if quoted[-1] else _SHELL).match(text, at)
        assert match is not None, "the patterns leave nothing out"
        at, kind, piece = match.end(), match.lastgroup or "", match[0]
        if kind == "quote":
            quoted[-1] = not quoted[-1]
        elif piece == "$(":
            quoted.append(False)
        elif piece == ")" and len(quoted) > 1:
            quoted.pop()
        if piece.isspace() and kind == "other":
            yield Span("", piece)
            continue
        yield Span(_kind(kind, is_start=is_start), piece)
        is_start = kind == "operator" and piece in _STARTS


def _kind(kind: str, *, is_start: bool) -> str:
    """Return the class of a piece of a command."""
    names = {"quote": "string", "word": "program" if is_start else "", "other": ""}
    return names.get(kind, kind)


def _diff(text: str, *, has_headers: bool) -> Iterator[Span]:
    for line in text.splitlines(keepends=True):
        if has_headers and line.startswith(("--- ", "+++ ", "diff ", "index ", "@@")):
            yield Span("meta", line)
        else:
            yield Span({"+": "added", "-": "removed"}.get(line[:1], ""), line)


def _escapes(text: str) -> Iterator[Span]:
    at = 0
    for match in _TEXT.finditer(text):
        if match.start() > at:
            yield Span("", text[at : match.start()])
        yield Span("escape", match[0])
        at = match.end()
    if at < len(text):
        yield Span("", text[at:])
