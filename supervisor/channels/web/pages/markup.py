"""Text cut into spans that a page can colour: commands, diffs and everything else.

Rules
- Spans are a partition: joined, they are the text that they were cut from, and none of them is markup. Colour helps the
  eye and proves nothing; what a shell obeys inside double quotes is never coloured like harmless text.
- Linear in the length of the text, whatever an agent wrote.
"""

import difflib
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Language = Literal["shell", "patch", "change", "text"]
"""A patch is text in the format of diff; a change is what `change` returns, where every line begins with its sign."""

LARGEST_DIFF: Final = 400
"""Lines of either side up to which two texts are compared: comparing is quadratic, and longer ones are shown as they
are."""

_ESCAPE: Final = r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}"
_SHELL: Final = re.compile(
    rf"""(?P<escape>{_ESCAPE})
    |(?P<string>'[^'\\]*'|"[^"\\$`]*")
    |(?P<operator>&&|\|\||\$\(|\$\{{|[;|&<>()`]|\n)
    |(?P<option>(?<![^\s])-[\w-]+)
    |(?P<word>[^\s;|&<>()`'"$\\]+)""",
    re.VERBOSE,
)
_TEXT: Final = re.compile(rf"(?P<escape>{_ESCAPE})")
_HUNK: Final = re.compile(r"^@@ -\d+(,\d+)? \+\d+(,\d+)? @@", re.MULTILINE)
_STARTS: Final = ("&&", "||", "$(", ";", "|", "&", "(", "`", "\n")
"""Behind these the next word is a program."""


class Span(NamedTuple):
    kind: str
    """A class of the style sheet; "" for plain text."""
    text: str


def spans(text: str, language: Language) -> list[Span]:
    """Cut a text, made visible before, into spans."""
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


def change(old: str, new: str) -> str | None:
    """Return what replacing `old` by `new` does, as a diff that leaves no line of either out; None if they are too
    long to be compared."""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > LARGEST_DIFF:
        return None
    lines = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [f" {line}" for line in before[a:b]]
        else:
            lines += [*(f"-{line}" for line in before[a:b]), *(f"+{line}" for line in after[c:d])]
    return "\n".join(lines)


def _shell(text: str) -> Iterator[Span]:
    is_start, at = True, 0
    for match in _SHELL.finditer(text):
        if match.start() > at:
            yield Span("", text[at : match.start()])
            is_start &= text[at : match.start()].isspace()
        at, kind = match.end(), match.lastgroup or ""
        if kind == "word":
            kind = "program" if is_start else ""
        is_start = kind == "operator" and match[0] in _STARTS
        yield Span(kind, match[0])
    if at < len(text):
        yield Span("", text[at:])


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
