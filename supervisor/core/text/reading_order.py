"""Whether a screen draws text in the order in which it was written.

Hebrew and Arabic are drawn from right to left, as their readers expect, and a text that mixes them with other
characters is drawn in pieces of both directions. In prose that is right. In a command or a path it can exchange two
operands.

Rules
- A word of one direction is never in doubt, also between Latin words: `cat /srv/דוח/a.csv`.
- A line is in doubt if a screen may draw its pieces in another order: two words from right to left without Latin
  letters between them, a digit after one, or a line that begins with one and has anything else. A screen that goes by
  the first letter of a line would lay all of the latter out from right to left.
- Pure. This follows Unicode's bidirectional algorithm (UAX 9) where that is simple, and doubts where it is not.
"""

import unicodedata


def is_right_to_left(char: str) -> bool:
    """Return whether it is a letter or digit that a screen draws from right to left."""
    return unicodedata.bidirectional(char) in ("R", "AL", "AN")


def is_reordered(text: str) -> bool:
    """Return whether a screen may draw a command or path in another order than it was written."""
    return not text.isascii() and any(_is_in_doubt(line) for line in text.split("\n") if not line.isascii())


def _is_in_doubt(line: str) -> bool:
    begins_right: bool | None = None  # the direction of the first letter of the line
    is_after_right = has_gap = has_others = False
    for char in line:
        match unicodedata.bidirectional(char):
            case "R" | "AL":
                if is_after_right and has_gap:
                    return True
                begins_right = True if begins_right is None else begins_right
                is_after_right, has_gap = True, False
            case "EN" | "AN" if is_after_right:
                return True
            case "L":
                begins_right = False if begins_right is None else begins_right
                is_after_right = has_gap = False
                has_others = True
            case "NSM" | "BN":
                pass
            case _:
                has_gap = has_others = True
    return begins_right is True and has_others
