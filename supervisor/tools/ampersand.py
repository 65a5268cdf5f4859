"""What a shell command puts into the background: the only question that we ask of a command's text (T6).

Rules
- The text is read as /bin/sh reads it: quotes, escapes, substitutions and comments hide an ampersand; `&&`, `|&`, `>&`
  and `<&` are other operators.
- In doubt the answer is nothing: an unclosed quote or bracket, a here-document, a text longer than a shell accepts.
- A part of a command stands alone only with what came before it and set its scene: the folder and the variables.
- `setsid` is left out of a job: each has a session of its own. To begin another one, `setsid` forks, and the job, whose
  command has exited then, would end.
"""

import re
from itertools import dropwhile
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<gap>\s+) | (?P<comment>(?:(?<=[\s;&|()])|\A)\#[^\n]*)
    | (?P<word>[\w/.,:=+@%^~-]+ | \\. | '[^']*' | "(?:\\.|[^"\\])*" | `(?:\\.|[^`\\])*` | \$\{[^}]*\} | \$\([^()]*\))
    | (?P<operator>&&|\|\||;;|\|&|>&|<&|&>|;&|.)""",
    re.VERBOSE | re.DOTALL,
)
_LONGEST_CHARACTERS: Final = 2**17  # characters; Linux starts no program with a longer argument
_OPENING, _CLOSING = "({", ")}"
_SEPARATORS: Final = ("&", ";", "|", "\n")
_MARKS: Final = (";", "&", *_OPENING, *_CLOSING)
_QUOTES: Final = ("'", '"', "`", "\\")
_GOES_ON: Final = ("&&", "||", "|", "|&")
"""What a line may end in whose statement goes on in the next line."""
_SCENE: Final = re.compile(r"(?:cd|export|source|\.|umask|ulimit|unset|set)\s[^&|]*\Z|\w+=\S*\Z")
"""A statement that sets the scene of those after it."""
_SETSID: Final = re.compile(r"\s*((?:nohup\s+)?)setsid(?:\s+--?[\w-]+)*\s+")
_NO_START: Final = re.compile(
    r"(?:do|then|else|elif|while|until|for|if|case|done|fi|esac|in|select|function)\b|[|&]|\Z"
)
"""How a part of a loop or a condition begins, which cannot stand alone."""


def without_ampersand(command: str) -> str | None:
    """Return the command without the single `&` that it ends in; None if it does not end so."""
    if len(command) > _LONGEST_CHARACTERS:
        return None
    said = [token for token in _TOKEN.finditer(command) if token.lastgroup in ("word", "operator")]
    plain = [token[0] for token in said if token.lastgroup == "operator"]
    if not said or said[-1].lastgroup != "operator" or said[-1][0] != "&" or "<<" in command:
        return None
    if {*_QUOTES} & {*plain}:
        return None  # an unclosed quote
    if sum((each in _OPENING) - (each in _CLOSING) for each in plain if len(each) == 1):
        return None
    rest = command[: said[-1].start()].rstrip()
    return rest if rest and not rest.endswith(_SEPARATORS) else None


def as_job(command: str | list[str]) -> str | list[str]:
    """Return what runs as the job of a command: the command without the `&` at its end, and without `setsid`."""
    if isinstance(command, str):
        rest = without_ampersand(command)
        return _without_setsid(command if rest is None else rest)
    words = list(command)
    if words[:1] == ["setsid"]:
        words = [*dropwhile(lambda word: word.startswith("-"), words[1:])]
    return words or command


def _without_setsid(command: str) -> str:
    found = _SETSID.match(command)
    return command if found is None else found[1] + command[found.end() :]


def in_background(command: str) -> list[str]:
    """Return what a command puts into the background: each part as a command that does the same alone."""
    parts = list[str]()
    scenes: list[list[str]] = [[]]  # of each open bracket
    for said, mark in _statements(command):
        if mark == "&" and not _NO_START.match(said):
            parts.append("; ".join([*(each for scene in scenes for each in scene), _without_setsid(said)]))
        elif mark in _OPENING:
            scenes.append([])
        elif mark in _CLOSING:
            scenes = scenes[:-1] or [[]]
        elif mark == ";" and _SCENE.match(said):
            scenes[-1].append(said)
    return parts


def _statements(command: str) -> list[tuple[str, str]]:
    """Return each statement with the mark that ends it: `;` (also for the end of a line), `&`, or a bracket."""
    if len(command) > _LONGEST_CHARACTERS or "<<" in command:
        return []
    found, start, last = list[tuple[str, str]](), 0, ""
    for token in _TOKEN.finditer(command):
        mark = token[0] if token.lastgroup == "operator" else ""
        if mark in _QUOTES:
            return []  # an unclosed quote
        if token.lastgroup == "gap" and "\n" in token[0] and last not in _GOES_ON:
            mark = ";"
        if mark in _MARKS:
            found.append((command[start : token.start()].strip(), mark))
            start = token.end()
        if token.lastgroup != "gap":
            last = token[0]
    return found
