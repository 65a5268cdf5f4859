"""Lists of shell commands, covered part by part: `git log | head -5` by `git log *` and `head *`.

    cd packages/a && npm run check 2>&1 | tail -20        `npm run check *` and `tail *`

Theory: a list that is proved to be one (core/calls/shell_words.py) runs its commands and nothing else. So it is allowed
if each of them is.

Rules
- Each command may be covered by another pattern. Denies and asks see the whole text (core/calls/shell_patterns.py).
- A command that reads what another one writes may be given orders by it. So it is covered only by a prefix of a program
  that only looks (core/calls/looking.py).
- `cd` to a place in the session's folder is covered, and what follows may run there, or where it would have run if `cd`
  fails. A pattern that names a folder covers none of that. No other builtin is covered but by a prefix.
- The time of the call is that of each command.
"""

import posixpath
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from supervisor.core.calls.folders import known_folder
from supervisor.core.calls.looking import is_inside, only_looks
from supervisor.core.calls.programs import BUILTINS, is_harmless, meant_prefix, why_no_prefix, why_unreviewed
from supervisor.core.calls.shell_patterns import COMMAND, DEFAULT_TIMEOUT_SECONDS, CommandCall, read_call, read_pattern
from supervisor.core.calls.shell_words import Part, simple_list

_MOST_PLACES: Final = 8  # folders in which a command may run after `cd`


class CommandList(NamedTuple):
    """The commands of a call that are to be covered, each by itself, with the folders in which it may run, as far as
    these are known: more than one after `cd`. `base`: the session's folder."""

    call: CommandCall
    parts: tuple[tuple[Part, tuple[str, ...]], ...]
    base: str | None


def read_list(arguments: Mapping[str, Any], cwd: str | None, command: str = COMMAND) -> CommandList | None:
    """Return the commands of a call of which each must be covered; None if its text is not proved to be a list."""
    call, base = read_call(arguments, cwd, command), known_folder(cwd)
    if call is None or not call.is_bare or not isinstance(call.command, str):
        return None
    found: list[tuple[Part, tuple[str, ...]]] = []
    places = () if call.folder is None else (call.folder,)
    for part in simple_list(call.command) or ():
        if part.words[0] != "cd":
            found.append((part, places))
        elif base != call.folder or len(places) > _MOST_PLACES or not _is_move(part.words, base):
            return None
        else:
            places = tuple(dict.fromkeys([*places, *(posixpath.join(place, part.words[1]) for place in places)]))
    return CommandList(call, tuple(found), base) if found else None


def covers_part(pattern: str, whole: CommandList, at: int, *, unreviewed: bool = False) -> bool:
    """Return whether an allow pattern covers one command of a list."""
    read, (part, places) = read_pattern(pattern), whole.parts[at]
    if read is None or read.words is None or read.is_list or read.fields is not None:
        return False
    if not 0 < whole.call.seconds <= read.seconds:
        return False
    is_there = whole.call.folder == whole.base if read.folder is None else places == (read.folder,)
    words, count = part.words, len(read.words)
    if not is_there or words[:count] != read.words:
        return False
    if read.is_prefix and only_looks(words, whole.call.folder):
        return True
    if part.is_fed or words[0] in BUILTINS:
        return False
    if not read.is_prefix:
        return words == read.words
    is_reviewed = unreviewed or why_unreviewed(read.words) is None
    return is_reviewed and why_no_prefix(read.words) is None and is_harmless(words, count)


def _is_move(words: tuple[str, ...], base: str | None) -> bool:
    """Return whether `cd` stays in a folder."""
    return len(words) == 2 and words[1][:1] not in ("-", "") and is_inside(words[1], base)


def meant_patterns(arguments: Mapping[str, Any], cwd: str | None, command: str = COMMAND) -> tuple[str, ...]:
    """Return the patterns that a person means by "always", one for each command of a list that differs; none if there
    is a command that a person must see each time."""
    whole = read_list(arguments, cwd, command)
    if whole is None or whole.call.folder != whole.base:
        return ()
    seconds = "" if whole.call.seconds <= DEFAULT_TIMEOUT_SECONDS else f"for {whole.call.seconds:g} s: "
    found: list[str] = []
    for at, (part, _) in enumerate(whole.parts):
        prefix = meant_prefix(part.words)
        pattern = "" if prefix is None else f"{seconds}{' '.join(prefix)} *"
        if not pattern or not covers_part(pattern, whole, at, unreviewed=True):
            return ()
        found.append(pattern)
    return tuple(dict.fromkeys(found))
