"""Whether a shell command puts itself into the background: the only question that we ask of a command's text (T6).

Rules
- The text is read as /bin/sh reads it: quotes, escapes and comments hide an ampersand; `&&`, `|&`, `>&` and `<&` are
  other operators.
- In doubt the answer is no: an unclosed quote or bracket, a here-document, a text longer than a shell accepts.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<gap>\s+) | (?P<comment>(?:(?<=[\s;&|()])|\A)\#[^\n]*)
    | (?P<word>[\w/.,:=+@%^~-]+ | \\. | '[^']*' | "(?:\\.|[^"\\])*" | `(?:\\.|[^`\\])*`)
    | (?P<operator>&&|\|\||;;|\|&|>&|<&|&>|;&|.)""",
    re.VERBOSE | re.DOTALL,
)
_LONGEST_CHARACTERS: Final = 2**17  # characters; Linux starts no program with a longer argument
_OPENING, _CLOSING = "({", ")}"
_SEPARATORS: Final = ("&", ";", "|", "\n")


def without_ampersand(command: str) -> str | None:
    """Return the command without the single `&` that it ends in; None if it does not end so."""
    if len(command) > _LONGEST_CHARACTERS:
        return None
    said = [token for token in _TOKEN.finditer(command) if token.lastgroup in ("word", "operator")]
    plain = [token[0] for token in said if token.lastgroup == "operator"]
    if not said or said[-1].lastgroup != "operator" or said[-1][0] != "&" or "<<" in command:
        return None
    if {"'", '"', "`", "\\"} & {*plain}:
        return None  # an unclosed quote
    if sum((each in _OPENING) - (each in _CLOSING) for each in plain if len(each) == 1):
        return None
    rest = command[: said[-1].start()].rstrip()
    return rest if rest and not rest.endswith(_SEPARATORS) else None
