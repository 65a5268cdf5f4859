"""Text cut into spans that a page can colour, and into parts that it can fold: commands, diffs and everything else.

Rules
- Spans are a partition: joined, they are the text that they were cut from, and none of them is markup. Colour helps the
  eye and proves nothing; what a shell obeys inside double quotes is never coloured like harmless text.
- Parts are a partition of the spans. Two kinds of part are folded: lines that are the same on both sides of a change,
  and the middle of a long text. Only a change that this module made has lines of the first kind: a patch may call any
  line unchanged. The middle of a text is part of what runs, so a page unfolds it before its Approve counts.
- Linear in the length of the text, whatever an agent wrote. A command that is too long to be looked through is not
  coloured, and only so many lines are compared with each other: all clients wait while a page is drawn.
"""

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple

Language = Literal["shell", "patch", "change", "text"]
"""A patch is text in the format of diff; a change is what `text_change` returns: each line begins with its sign."""

LARGEST_CHARACTERS: Final = 20_000
"""Characters up to which a command is coloured."""
LARGEST_DIFF_PAIRS: Final = 400 * 400
"""Pairs of lines that are compared for one change: comparing is quadratic. What lies between two lines that both sides
have once is compared by itself, so this bounds only long stretches without such a line."""
CONTEXT_LINES: Final = 3
"""Unchanged lines that stay in sight before and after a change."""
ROW_CHARACTERS: Final = 80
MOST_ROWS: Final = 60
"""Rows of a text up to which all of it is in sight. Of a longer one, HEAD_ROWS and TAIL_ROWS are."""
HEAD_ROWS: Final = 24
TAIL_ROWS: Final = 12

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
    match language:
        case "shell" if len(text) <= LARGEST_CHARACTERS:
            return list(_shell(text))
        case "patch" | "change":
            return list(_diff(text, has_headers=language == "patch"))
        case _:
            return list(_escapes(text))


def language_of(name: str, text: str, *, is_command: bool) -> Language:
    """Say how an argument of this name is coloured."""
    if is_command:
        return "shell"
    return "patch" if name in ("diff", "patch") or _HUNK.search(text) else "text"


def text_change(old: str, new: str) -> str:
    """Return what replacing `old` by `new` does, as a diff that leaves no line of either out."""
    return "\n".join(f"{sign}{line}" for sign, line in _changes(old.split("\n"), new.split("\n")))


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of both sides in order, each with its sign. The sides meet at the lines that each of them has
    once; what lies between is compared line by line, as long as that is cheap."""
    left = LARGEST_DIFF_PAIRS
    a = b = 0
    for at, to in (*_meetings(old, new), (len(old), len(new))):
        before, after = old[a:at], new[b:to]
        left -= len(before) * len(after)
        if before or after:
            yield from _compared(before, after) if left >= 0 else _replaced(before, after)
        if at < len(old):
            yield " ", old[at]
        a, b = at + 1, to + 1


def _meetings(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return where both sides have the same line: their common ends, and between these the longest row of lines that
    each side has once."""
    first, least = 0, min(len(old), len(new))
    while first < least and old[first] == new[first]:
        first += 1
    last = 0
    while last < least - first and old[-1 - last] == new[-1 - last]:
        last += 1
    count_old, count_new = Counter(old[first : len(old) - last]), Counter(new[first : len(new) - last])
    places = {line: to for to, line in enumerate(new[first : len(new) - last], first) if count_new[line] == 1}
    heads: list[int] = []
    chains: list[tuple[tuple[int, int], int | None]] = []  # a pair, and the one before it in its row
    ends: list[int] = []
    for at, line in enumerate(old[first : len(old) - last], first):
        if count_old[line] == 1 and (to := places.get(line)) is not None:
            place = bisect_left(heads, to)
            chains.append(((at, to), ends[place - 1] if place else None))
            heads[place : place + 1], ends[place : place + 1] = [to], [len(chains) - 1]
    row: list[tuple[int, int]] = []
    end = ends[-1] if ends else None
    while end is not None:
        pair, end = chains[end]
        row.append(pair)
    tail = [(len(old) - each, len(new) - each) for each in range(last, 0, -1)]
    return [*((each, each) for each in range(first)), *reversed(row), *tail]


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, str]]:
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from ((" ", line) for line in before[a:b])
        else:
            yield from _replaced(before[a:b], after[c:d])


def _replaced(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from (("-", line) for line in before)
    yield from (("+", line) for line in after)


class Part(NamedTuple):
    """A stretch of a text. `fold`: why it is folded; "" if it is in sight."""

    fold: Literal["", "same", "middle"]
    spans: tuple[Span, ...]

    @property
    def lines(self) -> int:
        return sum(each.text.count("\n") for each in self.spans) + (not self.spans[-1].text.endswith("\n"))


def parts(text: str, language: Language) -> list[Part]:
    """Cut a text, made visible before, into what a page shows at once and what it folds."""
    found = spans(text, language)
    whole = list(_same_folded(found)) if language == "change" else [Part("", tuple(found))]
    shown = [span for part in whole if not part.fold for span in part.spans]
    if sum(rows_of(each.text) for each in shown) > MOST_ROWS:
        head, rest = _cut(whole, HEAD_ROWS)
        tail, middle = (_turned(each) for each in _cut(_turned(rest), TAIL_ROWS, from_end=True))
        whole = [*head, Part("middle", tuple(span for part in middle for span in part.spans)), *tail]
    return _joined(part for part in whole if part.spans)


def _joined(found: Iterable[Part]) -> list[Part]:
    """Make one part of those in sight that follow each other."""
    joined: list[Part] = []
    for fold, group in groupby(found, key=lambda each: each.fold):
        if fold:
            joined += group
        else:
            joined.append(Part("", tuple(span for part in group for span in part.spans)))
    return joined


def _same_folded(found: Iterable[Span]) -> Iterator[Part]:
    """Fold the unchanged lines of a change, but for those next to what changes."""
    runs = [(kind, tuple(each)) for kind, each in groupby(found, key=lambda each: each.kind)]
    for place, (kind, run) in enumerate(runs):
        lines = "".join(each.text for each in run).splitlines(keepends=True)
        first = CONTEXT_LINES if place else 0
        last = CONTEXT_LINES if place + 1 < len(runs) else 0
        if kind or len(lines) <= first + last + 1:
            yield Part("", run)
            continue
        rest = len(lines) - last
        for fold, piece in (("", lines[:first]), ("same", lines[first:rest]), ("", lines[rest:])):
            if piece:
                yield Part(fold, (Span("", "".join(piece)),))  # type: ignore[arg-type] # one of its values


def rows_of(text: str) -> int:
    """Return how many rows a text takes, roughly."""
    return text.count("\n") + len(text) // ROW_CHARACTERS


def _turned(found: Sequence[Part]) -> list[Part]:
    """Return the parts, and the spans of each, from the last to the first."""
    return [Part(part.fold, part.spans[::-1]) for part in reversed(found)]


def _cut(found: Sequence[Part], rows: int, *, from_end: bool = False) -> tuple[list[Part], list[Part]]:
    """Return the parts that begin with so many rows in sight, and the others. A span is cut where the rows end;
    `from_end`: parts and spans were turned, and a span is cut from its end."""
    for place, part in enumerate(found):
        for at, span in enumerate(part.spans if not part.fold else ()):
            if (taken := rows_of(span.text)) < rows:
                rows -= taken
                continue
            cut = _last_rows(span.text, rows) if from_end else _first_rows(span.text, rows)
            pieces = Span(span.kind, span.text[:cut]), Span(span.kind, span.text[cut:])
            near, far = pieces[::-1] if from_end else pieces
            before = [*found[:place], Part("", (*part.spans[:at], *([near] * bool(near.text))))]
            after = [Part("", (*([far] * bool(far.text)), *part.spans[at + 1 :])), *found[place + 1 :]]
            return before, after
    return list(found), []


def _first_rows(text: str, rows: int) -> int:
    """Return where the first rows of a text end: after a line, if one ends there."""
    at = 0
    while rows > 0 and at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        if end - at > rows * ROW_CHARACTERS:
            return at + rows * ROW_CHARACTERS
        rows -= 1 + (end - at) // ROW_CHARACTERS
        at = end
    return at


def _last_rows(text: str, rows: int) -> int:
    """Return where the last rows of a text begin."""
    end = len(text)
    while rows > 0 and end > 0:
        at = text.rfind("\n", 0, end - 1) + 1
        if end - at > rows * ROW_CHARACTERS:
            return end - rows * ROW_CHARACTERS
        rows -= 1 + (end - at) // ROW_CHARACTERS
        end = at
    return end


_MINUS: Final = "\N{MINUS SIGN}"


def count_changes(found: Iterable[Span]) -> str:
    """Return how many lines a diff adds and removes, such as "+2 -1" with a true minus; "" if it has none."""
    counts = Counter[str]()
    for each in found:
        if each.kind in ("added", "removed"):
            counts[each.kind] += each.text.count("\n") + (not each.text.endswith("\n"))
    return f"+{counts['added']} {_MINUS}{counts['removed']}" if counts else ""


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
    """Cut a diff into its lines; lines of one kind that follow each other are one span."""

    def kind(line: str) -> str:
        if has_headers and line.startswith(("--- ", "+++ ", "diff ", "index ", "@@")):
            return "meta"
        return {"+": "added", "-": "removed"}.get(line[:1], "")

    for name, lines in groupby(text.splitlines(keepends=True), key=kind):
        yield Span(name, "".join(lines))


def _escapes(text: str) -> Iterator[Span]:
    at = 0
    for match in _TEXT.finditer(text):
        if match.start() > at:
            yield Span("", text[at : match.start()])
        yield Span("escape", match[0])
        at = match.end()
    if at < len(text):
        yield Span("", text[at:])
