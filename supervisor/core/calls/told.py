"""Which programs a command runs, told to people by the same reading that looks for denied ones.

Rules
- The reading is generous (shell_words.py): it names every program that could begin anywhere in the text, once.
- What it cannot know it says: a program that only the shell will know, one that runs what its words or its input say
  (programs.py), and a text that may hide more. It is a help for the eye and decides nothing.
"""

from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import Any, Final

from supervisor.core.calls.programs import is_launcher
from supervisor.core.calls.shell_patterns import LONG_CHARACTERS, is_before_program
from supervisor.core.calls.shell_words import Word, split_commands

_UNKNOWN: Final = "a program that only the shell knows"
_HEADS: Final = frozenset({"for", "case", "select", "function", "in"})
"""Words of the shell's grammar that begin no program, although a deny is looked for after them."""
_MOST_PROGRAMS: Final = 20


def programs_told(command: Any) -> str:
    """Return the programs of a command in one line, such as "git, sh (sh may run what it is given)"; "" if it has
    none. `command`: a text for a shell, or the words of one program."""
    if isinstance(command, list) and command and all(isinstance(each, str) for each in command):
        return _told([str(command[0])], is_clear=True)
    if not isinstance(command, str):
        return ""
    if len(command) > LONG_CHARACTERS:
        return "not read: the command is too long for it"
    split = split_commands(command)
    return _told([*dict.fromkeys(_programs(split.commands))], is_clear=split.is_clear)


def _programs(commands: Sequence[Sequence[Word]]) -> Iterator[str]:
    for words in commands:
        first = next(dropwhile(is_before_program, words), None)
        if first is not None and first.text not in _HEADS:
            yield "" if first.is_open else first.text


def _told(programs: Sequence[str], *, is_clear: bool) -> str:
    names = [each or _UNKNOWN for each in programs[:_MOST_PROGRAMS]]
    names += [f"{len(programs) - _MOST_PROGRAMS} more"] * (len(programs) > _MOST_PROGRAMS)
    names += ["perhaps more: not all of it can be read for certain"] * (not is_clear)
    launchers = [each for each in programs[:_MOST_PROGRAMS] if each and is_launcher(each)]
    runs = f" ({', '.join(launchers)} may run what {'it is' if len(launchers) == 1 else 'they are'} given)"
    return ", ".join(names) + runs * bool(launchers) if programs else ""
