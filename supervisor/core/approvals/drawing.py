"""How a piece of text is drawn on a card: made visible once, and in an order that no screen changes unseen.

    a command, a path    code: look-alikes are marked, and it is laid out from left to right
    a question, a reason prose: nothing is marked that a person can read, and it is laid out as its readers expect
    another argument     by `kind_of`; a value that is no text is JSON, whose strings are drawn each by its own kind

Rules
- Only code is drawn a second time, in the order in which it was written, and only where a screen may draw it in another
  one. Prose never is.
- On chats and in letters, a line with letters from right to left is isolated, so that it lays out neither the label
  before it nor the text after it. A page does that with `dir`.
- Pure.
"""

import shlex
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput
from supervisor.core.text.reading_order import is_reordered, is_right_to_left
from supervisor.core.text.visible import STRINGS, Kind, gathered, kind_of, visible, visible_json

_LONG_JSON: Final = 60
_ISOLATE: Final = "\u2068{}\u2069"
"""Unicode's isolate whose direction is that of its first letter, and its end."""


class Drawn(NamedTuple):
    """`text`: what is shown; `in_order`: the same in the order in which it was written, "" if no screen changes it."""

    text: str
    in_order: str = ""


def draw_code(text: str) -> Drawn:
    """Return a command, a path or another text that a program takes, in its lines."""
    shown = gathered(visible(text, lines=True))
    return Drawn(shown, gathered(visible(text, lines=True, ordered=True)) if is_reordered(shown) else "")


def draw_command(command: Any) -> Drawn:
    """Return a command as a shell would take it, or as it is if it is none."""
    if isinstance(command, str):
        return draw_code(command)
    is_words = isinstance(command, list | tuple) and bool(command) and all(isinstance(word, str) for word in command)
    return draw_code(shlex.join(command)) if is_words else draw_value(command)


def draw_prose(text: str, kind: Kind = "prose") -> Drawn:
    """Return what people read, in its lines."""
    return Drawn(gathered(visible(text, kind=kind, lines=True)))


def draw_value(value: Any) -> Drawn:
    """Return the value of an argument that is declared neither a command nor a path: an unmistakable text as it is, and
    any other value as JSON."""
    if isinstance(value, str) and ("\n" in value or value == value.strip()) and _is_plain(value):
        return draw_code(value) if (kind := kind_of(value)) == "code" else draw_prose(value, kind)
    body = msgspec.json.encode(value)
    text = body.decode()
    text = text if len(text) <= _LONG_JSON else msgspec.json.format(body, indent=2).decode()
    shown = gathered(visible_json(text))
    is_in_doubt = is_reordered(STRINGS.sub(lambda found: found[0] if kind_of(found[1]) == "code" else "x", shown))
    return Drawn(shown, gathered(visible(text, lines=True, ordered=True)) if is_in_doubt else "")


def direction_of(shown: str) -> str:
    """Return the `dir` of the element of a page that has a drawn value: several words are laid out by their first
    letter, code and JSON from left to right."""
    is_json = shown.startswith(("{", "[")) and not _is_plain(shown)
    return "ltr" if is_json or kind_of(shown) == "code" else "auto"


def isolated(shown: str) -> str:
    """Return a visible text for a chat or a letter, with each line isolated that has letters from right to left."""
    return shown if shown.isascii() else "\n".join(_isolated_lines(shown))


def _isolated_lines(shown: str) -> Iterator[str]:
    for line in shown.split("\n"):
        yield _ISOLATE.format(line) if any(map(is_right_to_left, line)) else line


def _is_plain(text: str) -> bool:
    """Whether a string shown without quotes cannot be taken for another value, or for another string."""
    if not text:
        return False
    try:
        from_json(text, Any, "an argument")
    except InvalidInput:
        return True
    return False
