"""A line that a person types: its text, its cursor, and the usual editing keys. Pure.

Everything in a paste is text, also its line ends. Only a pressed Enter ends the line.
"""

from collections.abc import Callable
from typing import Final, Literal

PASTED: Final = "paste:"
"""Prefix of the key that stands for a whole paste; the pasted text follows."""
_CHANGES: Final[dict[str, Callable[[str, str], tuple[str, str]]]] = {
    "backspace": lambda before, after: (before[:-1], after),
    "delete": lambda before, after: (before, after[1:]),
    "ctrl-d": lambda before, after: (before, after[1:]),
    "ctrl-u": lambda before, after: ("", after),
    "ctrl-k": lambda before, after: (before, ""),
    "ctrl-w": lambda before, after: (before.rstrip()[: before.rstrip().rfind(" ") + 1], after),
    "left": lambda before, after: (before[:-1], before[-1:] + after),
    "ctrl-b": lambda before, after: (before[:-1], before[-1:] + after),
    "right": lambda before, after: (before + after[:1], after[1:]),
    "ctrl-f": lambda before, after: (before + after[:1], after[1:]),
    "home": lambda before, after: ("", before + after),
    "ctrl-a": lambda before, after: ("", before + after),
    "end": lambda before, after: (before + after, ""),
    "ctrl-e": lambda before, after: (before + after, ""),
}
"""How each key changes the text before and after the cursor."""


class Line:
    """One line of input. `press` takes a key, and returns "accept" or "back" when the person is done."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.cursor = len(text)

    def press(self, key: str) -> Literal["accept", "back"] | None:
        if key == "enter":
            return "accept"
        if key == "esc":
            return "back"
        before, after = self.text[: self.cursor], self.text[self.cursor :]
        if key in _CHANGES:
            before, after = _CHANGES[key](before, after)
        elif key.startswith(PASTED):
            before += "".join(char for char in key.removeprefix(PASTED) if char >= " " or char in "\n\t")
        elif len(key) == 1:
            before += key
        self.text = before + after
        self.cursor = len(before)
        return None
