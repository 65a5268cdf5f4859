"""What a terminal would show at the end of an output: escapes, cursor movement and redrawn lines (T8).

Theory: a program that draws its progress writes each picture over the one before. A person sees the last one, and a
model should read what a person sees. So the output is played on a screen, as a terminal plays it, and the screen is
read at the end, with the lines that have left it at the top.

Rules
- The function is pure. Its memory and its time are bounded by the length of the text, also for hostile text: a cursor
  moves within the screen, and an operation that copies a long line is paid from a budget. Where the budget is spent,
  what is left is shown without its escapes.
- Text without control characters stays as it is, and so does one whose only ones are tabs and line ends.
- Lines do not wrap, since no terminal told the program how wide it is. Lines that left the screen stay. A program that
  uses the second screen (an editor, a pager) leaves nothing of it once it has ended.
- Colours, titles, links, images, modes and bells have no place in text, and are left out.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

ROWS: Final = 24
COLUMNS: Final = 200
"""How far a cursor can move, in rows and columns. Text that is written may be longer."""
_BUDGET: Final = 20_000_000
"""The cells that operations within long lines may copy."""
_CONTROLS: Final = re.compile(r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TOKEN: Final = re.compile(
    r"""(?P<text>[^\x00-\x1f\x7f-\x9f]+)
    | (?:\x1b\[|\x9b)(?P<csi>[0-?]{0,64}[ -/]{0,8}[@-~])
    | (?P<string>(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?)
    | \x1b(?P<escape>[ -/]{0,8}[0-~])
    | (?P<control>[\x00-\x1f\x7f-\x9f])""",
    re.VERBOSE,
)
_SECOND_SCREEN: Final = ("?47", "?1047", "?1049")

Line = list[str]


def render(text: str) -> str:
    """Return what a terminal would show of a text, without spaces at the ends of lines; a plain text as it is."""
    if _CONTROLS.search(text) is None:
        return text
    screen = Screen()
    for token in _TOKEN.finditer(text):
        if screen.budget < 0:
            return screen.text() + _TOKEN.sub(lambda rest: rest["text"] or _plain(rest[0]), text[token.start() :])
        if (said := token["text"]) is not None:
            screen.write(said)
        elif (control := token["control"]) is not None:
            screen.control(control)
        elif (csi := token["csi"]) is not None:
            screen.csi(csi[:-1], csi[-1])
        elif (escape := token["escape"]) is not None:
            screen.escape(escape)
    return screen.text()


def _plain(control: str) -> str:
    return control if control in "\t\n" else ""


class Screen:
    """The last ROWS lines, which may still change, those above them, and a cursor."""

    def __init__(self) -> None:
        self.budget = _BUDGET
        self._above = list[str]()
        self._first: list[Line] | None = None
        """The first screen, while the second one is shown."""
        self._begin()

    def _begin(self) -> None:
        self._lines: list[Line] = [[]]
        self._row = self._column = 0
        self._saved = 0, 0

    def text(self) -> str:
        """Return all lines."""
        lines = [*(self._first or ()), *self._lines]
        while len(lines) > 1 and not lines[-1] and len(lines) - 1 > self._row:
            lines.pop()
        return "\n".join([*self._above, *map(_read, lines)])

    def write(self, text: str) -> None:
        """Write a text over what is at the cursor."""
        line, column = self._lines[self._row], self._column
        if column > len(line):
            line.extend(" " * (column - len(line)))
        line[column : column + len(text)] = text
        self._column += len(text)

    def control(self, control: str) -> None:
        """Obey a control character; most of them show nothing."""
        match control:
            case "\n" | "\x0b" | "\x0c" | "\x84" | "\x85":
                self._end_line()
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\t" if self._column >= len(self._lines[self._row]):
                self.write("\t")  # as it is: a file with tabs keeps them
            case "\t":
                self.move(0, 8 - self._column % 8)

    def escape(self, escape: str) -> None:
        """Obey an escape sequence without parameters."""
        match escape:
            case "7":
                self._saved = self._row, self._column
            case "8":
                self.go(*self._saved)
            case "D" | "E":
                self._end_line()
            case "M":
                self.move(-1, 0)
            case "c":
                self._begin()

    def csi(self, given: str, final: str) -> None:
        """Obey a control sequence."""
        if given in _SECOND_SCREEN and final in "hl":
            self._switch(is_second=final == "h")
            return
        if given.strip("0123456789;:"):
            return  # a private one: it shows nothing
        numbers = [int(each[:6] or 0) if each[:6].isdigit() else 0 for each in given.split(";")]
        if (act := _ACTS.get(final)) is not None:
            act(self, numbers)

    def _switch(self, *, is_second: bool) -> None:
        if is_second and self._first is None:
            first = self._lines
            self._place = self._row, self._column
            self._begin()
            self._first = first
        elif not is_second and self._first is not None:
            self._lines, self._first = self._first, None
            self._row, self._column = self._place

    def _end_line(self) -> None:
        self._column = 0
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append([])
        if self._row == ROWS:
            gone = self._lines.pop(0)
            self._row -= 1
            if self._first is None:
                self._above.append(_read(gone))

    def move(self, rows: int, columns: int) -> None:
        """Move the cursor by so many rows and columns, within the screen."""
        self.go(self._row + rows, self._column + columns)

    def go(self, row: int | None = None, column: int | None = None) -> None:
        """Move the cursor to a place within the screen; None: it stays in this row or column."""
        self._row = self._row if row is None else max(0, min(row, ROWS - 1))
        self._lines += ([] for _ in range(self._row + 1 - len(self._lines)))
        if column is not None:
            self._column = max(0, min(column, max(COLUMNS - 1, self._column)))

    def erase_line(self, how: int) -> None:
        """Erase from the cursor on (0), up to the cursor (1), or all (2)."""
        line = self._lines[self._row]
        if how in (0, 2):
            del line[self._column if how == 0 else 0 :]
        elif how == 1:
            self._blank(self._column + 1)

    def _blank(self, end: int, start: int = 0) -> None:
        line = self._lines[self._row]
        end = min(end, len(line))
        self.budget -= max(0, end - start)
        line[start:end] = " " * max(0, end - start)

    def erase_screen(self, how: int) -> None:
        """Erase from the cursor on (0), up to the cursor (1), or all (2)."""
        if how in (0, 1):
            self.erase_line(how)
            for line in self._lines[self._row + 1 :] if how == 0 else self._lines[: self._row]:
                line.clear()
        elif how == 2:  # the lines above the screen stay, also with 3
            for line in self._lines:
                line.clear()

    def repeat(self, count: int) -> None:
        """Write the last character again."""
        if 0 < self._column <= len(line := self._lines[self._row]):
            self.write(line[self._column - 1] * min(count, COLUMNS))

    def shift_lines(self, count: int, *, is_in: bool) -> None:
        """Put empty lines before that of the cursor, or take lines away from there on."""
        count, below = min(count, ROWS), self._lines[self._row :]
        below = [*([] for _ in range(count)), *below] if is_in else below[count:]
        self._lines[self._row :] = below[: ROWS - self._row] or [[]]
        self._column = 0

    def shift(self, count: int, how: str) -> None:
        """Insert spaces at the cursor (`@`), delete characters (`P`), or erase them in place (`X`)."""
        line, column, count = self._lines[self._row], self._column, min(count, COLUMNS)
        if how == "X":
            self._blank(column + count, column)
        elif column < len(line):
            self.budget -= len(line) - column
            line[column : column if how == "@" else column + count] = " " * (count if how == "@" else 0)


def _moving(rows: int, columns: int, *, is_to_start: bool = False) -> Callable[[Screen, list[int]], None]:
    def act(screen: Screen, numbers: list[int]) -> None:
        count = max(1, numbers[0])
        screen.move(rows * count, columns * count)
        if is_to_start:
            screen.control("\r")

    return act


_ACTS: Final[Mapping[str, Callable[[Screen, list[int]], None]]] = {
    "A": _moving(-1, 0),
    "B": _moving(1, 0),
    "C": _moving(0, 1),
    "D": _moving(0, -1),
    "E": _moving(1, 0, is_to_start=True),
    "F": _moving(-1, 0, is_to_start=True),
    "a": _moving(0, 1),
    "e": _moving(1, 0),
    "G": lambda screen, numbers: screen.go(column=numbers[0] - 1),
    "`": lambda screen, numbers: screen.go(column=numbers[0] - 1),
    "d": lambda screen, numbers: screen.go(row=numbers[0] - 1),
    "H": lambda screen, numbers: screen.go(row=numbers[0] - 1, column=(numbers[1] if numbers[1:] else 1) - 1),
    "f": lambda screen, numbers: screen.go(row=numbers[0] - 1, column=(numbers[1] if numbers[1:] else 1) - 1),
    "s": lambda screen, _: screen.escape("7"),
    "u": lambda screen, _: screen.escape("8"),
    "J": lambda screen, numbers: screen.erase_screen(numbers[0]),
    "K": lambda screen, numbers: screen.erase_line(numbers[0]),
    "L": lambda screen, numbers: screen.shift_lines(max(1, numbers[0]), is_in=True),
    "M": lambda screen, numbers: screen.shift_lines(max(1, numbers[0]), is_in=False),
    "@": lambda screen, numbers: screen.shift(max(1, numbers[0]), "@"),
    "P": lambda screen, numbers: screen.shift(max(1, numbers[0]), "P"),
    "X": lambda screen, numbers: screen.shift(max(1, numbers[0]), "X"),
    "b": lambda screen, numbers: screen.repeat(max(1, numbers[0])),
}
"""What control sequences do, by the letter that ends them."""


def _read(line: Line) -> str:
    return "".join(line).rstrip(" ")
