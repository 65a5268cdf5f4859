"""Patterns of shell commands: the exact one, or a prefix of its words; and the folder and the time it was shown with.

    git status                          this command, run in the session's folder, for at most 30 seconds
    git status *                        and with further operands that stay in the folder, and options known to be
                                        harmless (core/calls/programs.py)
    in /srv/app: npm run *              the same in another folder, which is compared as text
    in /srv/app for 600 s: npm test     ... and for at most 600 seconds
    make -j4 2>&1 | tail -n 3           not simple: exactly this text
    ["git","log","--format=a  b"]       exactly these words, run without a shell
    {"command":"ls","cwd":"/srv",...}   exactly these arguments, all of them: the only way to cover an `env`

An allow is strict: a command that cannot be proved simple (core/calls/shell_words.py) is covered by its own exact text
only, and a pattern that cannot be understood covers nothing. A deny or ask is generous: it is always a prefix, in every
folder, and matches a command that runs the program from within another one. Where the program could be hidden, or its
name is among the words of a program that may run some of them, or in the value of a variable that a command gets
(`EDITOR=deploy git commit`, also by the argument `env`), the answer is doubt, and then a person is asked.

Rules
- A simple pattern covers the words, as text for /bin/sh or as a list, but not a list whose program is a shell builtin.
- A pattern ends in ` *`, or it has no wildcard: any other star is the shell's own, in a text that must be equal.
- Only an object covers a call with `env`, or with an argument that this module does not know.
- A list of commands is covered part by part: see core/calls/shell_lists.py.
- A deny pattern's options match in any place; other options of the same program raise doubt (`-rf`, `-fr`).
- A deny is a fence, not a wall: it cannot know what a script does. A call that no rule allows is asked: that is the
  wall.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import msgspec

from supervisor.core.calls import patterns
from supervisor.core.calls.folders import folder_of_call, known_folder, with_folder
from supervisor.core.calls.looking import only_looks
from supervisor.core.calls.programs import (
    BUILTINS,
    OFFERED,
    family,
    is_harmless,
    is_launcher,
    may_run_words,
    why_lost,
    why_no_prefix,
    why_unreviewed,
)
from supervisor.core.calls.shell_words import Word, as_text, quote, simple_words, split_commands
from supervisor.core.errors import InvalidInput

COMMAND: Final = "command"
"""The name of the shell tool's argument."""
DEFAULT_TIMEOUT_SECONDS: Final = 30.0  # seconds, as the shell tool's (T3); a pattern without a time covers at most this
LONG_CHARACTERS: Final = 20_000  # characters of a command in which a deny is looked for; a longer command asks
_MANY: Final = 100
_ENDLESS_SECONDS: Final = 1e9  # more seconds than any pattern can name
_HEAD: Final = re.compile(
    r"(?:in (?P<folder>/[A-Za-z0-9_@%+=:,./-]*|'/[ -&(-~]*')(?: for (?P<in_folder>\d{1,9}(?:\.\d{1,6})?) s)?"
    r"|for (?P<anywhere>\d{1,9}(?:\.\d{1,6})?) s): (?P<rest>.+)",
    re.DOTALL,
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]*")
_NAMES: Final = re.compile(r"[A-Za-z0-9_./+-]+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_RESERVED: Final = frozenset(
    {"!", "{", "}", "if", "then", "else", "elif", "do", "while", "until", "fi", "done", "esac"}
)


class _Pattern(NamedTuple):
    text: str
    words: tuple[str, ...] | None = None
    """None: not a simple command."""
    is_prefix: bool = False
    is_list: bool = False
    fields: dict[str, Any] | None = None
    folder: str | None = None
    seconds: float = DEFAULT_TIMEOUT_SECONDS
    has_head: bool = False


class CommandCall(NamedTuple):
    command: str | tuple[str, ...]
    folder: str | None
    """The folder in which it runs; None: the session's folder, which is not known."""
    seconds: float
    is_bare: bool
    """Whether the call is only command, folder and time."""

    @property
    def words(self) -> tuple[str, ...] | None:
        return simple_words(self.command) if isinstance(self.command, str) else self.command


def covers(
    pattern: str, arguments: Mapping[str, Any], cwd: str | None, command: str = COMMAND, *, unreviewed: bool = False
) -> bool:
    """Return whether an allow pattern covers this call of a session in the folder `cwd`. `command`: the name of the
    argument that is the command, here and below. `unreviewed`: also if it is a prefix that was not reviewed, as its
    author said."""
    read, call = read_pattern(pattern), read_call(arguments, cwd, command)
    if read is None or call is None:
        return False
    if read.fields is not None:
        return patterns.is_same(with_folder(read.fields, cwd), with_folder(arguments, cwd))
    if not (call.is_bare and call.folder == (read.folder or known_folder(cwd)) and 0 < call.seconds <= read.seconds):
        return False
    if read.is_prefix:
        prefix, words = read.words or (), call.words or ()
        if not prefix or words[: len(prefix)] != prefix or not is_harmless(words, len(prefix)):
            return False
        return why_no_prefix(prefix) is None and (unreviewed or why_unreviewed(prefix) is None)
    if read.is_list:
        return call.command == read.words
    if call.command == read.text:
        return True
    return read.words is not None and call.words == read.words and read.words[0] not in BUILTINS


def meets(pattern: str, arguments: Mapping[str, Any], command: str = COMMAND) -> bool | None:
    """Return whether a deny or ask pattern matches this call; None in doubt."""
    read = read_pattern(pattern)
    call = read_call(arguments, None, command)
    if read is None or read.words is None or call is None:
        return None
    answer = _runs(read.words, call.command)
    given = arguments.get("env")
    if answer is False and isinstance(given, Mapping) and _is_named(read.words, _as_words(map(str, given.values()))):
        return None
    return answer


def _runs(wanted: tuple[str, ...], command: str | tuple[str, ...]) -> bool | None:
    """Return whether a command runs the wanted program in the wanted way; None in doubt."""
    if not isinstance(command, str):
        return _is_run(wanted, tuple(map(Word, command)), is_alone=True, is_fed=False)
    if len(command) > LONG_CHARACTERS:
        return None
    simple = simple_words(command)
    if simple is not None:
        return _is_run(wanted, tuple(map(Word, simple)), is_alone=True, is_fed=False)
    split = split_commands(command)
    answers = [
        _is_run(wanted, words, is_alone=len(split.commands) == 1, is_fed=split.is_plumbed) for words in split.commands
    ]
    return True if True in answers else None if None in answers or not split.is_clear else False


def exact_pattern(arguments: Mapping[str, Any], cwd: str | None, command: str = COMMAND) -> str | None:
    """Return the pattern that covers only this call in this folder, or None if there is none."""
    found = _exact_patterns(arguments, cwd, command)
    return next((each for each in found if covers(each, arguments, cwd, command)), None)


def prefix_pattern(arguments: Mapping[str, Any], cwd: str | None, command: str = COMMAND) -> str | None:
    """Return the prefix that a person is offered for this call, or None: only prefixes that are known to only look."""
    call = read_call(arguments, cwd, command)
    if call is None or not call.words:
        return None
    known = [prefix for prefix in (call.words[:1], call.words[:2]) if prefix in OFFERED]
    pattern = f"{_head(call)}{' '.join(known[0])} *" if known else ""
    return pattern if covers(pattern, arguments, cwd, command) else None


def prefix_of(pattern: str) -> tuple[str, ...]:
    """Return the words of a prefix; none for any other pattern."""
    read = read_pattern(pattern)
    return read.words or () if read is not None and read.is_prefix else ()


def what_prefix_shows(pattern: str) -> str | None:
    """Return what an offered prefix would show without asking; None for any other pattern."""
    read = read_pattern(pattern)
    return None if read is None or not read.is_prefix else OFFERED.get(read.words or ())


def normalise(kind: str, pattern: str) -> str:
    """Return the pattern, an object in its canonical form; raises InvalidInput if it could not work as written."""
    read = read_pattern(pattern)
    if read is None:
        raise InvalidInput(f"the pattern {pattern!r} cannot be understood; {_HELP}")
    if kind == "allow":
        if read.is_prefix and (why := why_no_prefix(read.words or ("",))) is not None:
            raise InvalidInput(f"{pattern!r} is not a prefix that can be allowed: {why}")
        return patterns.normalise(pattern) if read.fields is not None else pattern
    if read.words is None or read.has_head:
        raise InvalidInput(f"{pattern!r} does not identify a command: name a program and its first words")
    return pattern


def why_not_reviewed(pattern: str) -> str | None:
    """Return why a prefix is not known to be harmless; None for any other pattern."""
    read = read_pattern(pattern)
    return None if read is None or not read.is_prefix else why_unreviewed(read.words or ("",))


def has_lost_review(pattern: str) -> bool:
    """Return whether a pattern is a prefix that was reviewed once, and is not any more."""
    read = read_pattern(pattern)
    return read is not None and read.is_prefix and why_lost(read.words or ("",)) is not None


def why_covers_nothing(pattern: str, *, unreviewed: bool) -> str | None:
    """Return why an allow of a command covers no call at all, although it was accepted once; None if it may cover
    some."""
    read = read_pattern(pattern)
    if read is None or not read.is_prefix:
        return None
    return why_no_prefix(read.words or ("",)) or (None if unreviewed else why_unreviewed(read.words or ("",)))


_HELP: Final = (
    "a pattern is an exact command, or the first words of one and ' *', where the program does not run what its "
    "further words say, and its own command is named (git status *)"
)


def read_pattern(pattern: str) -> _Pattern | None:
    head = _HEAD.fullmatch(pattern)
    if head is None and pattern.startswith("in "):
        return None
    text = head["rest"] if head else pattern
    read = _read_command(text)
    if head is None or read is None:
        return read
    if read.fields is not None:
        return None
    folder = head["folder"].strip("'") if head["folder"] else None
    seconds = head["in_folder"] or head["anywhere"]
    return read._replace(folder=folder, seconds=float(seconds) if seconds else DEFAULT_TIMEOUT_SECONDS, has_head=True)


def _read_command(text: str) -> _Pattern | None:
    if text.startswith("{"):
        fields = patterns.read_object(text)
        if fields is not None:
            return _Pattern(text, fields=fields)
    if text.startswith("["):
        words = _read_words(text)
        if words is not None:
            return _Pattern(text, words, is_list=True)
    if text.endswith(" *"):
        prefix = simple_words(text[:-2])
        return None if prefix is None else _Pattern(text, prefix, is_prefix=True)
    return _Pattern(text, simple_words(text)) if text.strip(" *") else None


def _read_words(text: str) -> tuple[str, ...] | None:
    try:
        words = msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return words or None


def read_call(arguments: Mapping[str, Any], cwd: str | None, name: str) -> CommandCall | None:
    """Return what a call would run whose argument `name` is its command, or None if the arguments are not those that we
    know."""
    command, own, seconds = arguments.get(name), arguments.get("cwd"), arguments.get("timeout", DEFAULT_TIMEOUT_SECONDS)
    if isinstance(command, list | tuple):
        command = tuple(command)
        if not command or not all(isinstance(word, str) for word in command):
            return None
    elif not isinstance(command, str):
        return None
    if not (own is None or isinstance(own, str)) or isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    more = [value for key, value in arguments.items() if key not in (name, "cwd", "timeout", "env")]
    is_bare = not arguments.get("env") and all(value is None or value is False for value in more)
    base = known_folder(cwd)
    folder = own if base is None else folder_of_call(base, own)
    return CommandCall(command, folder, seconds if 0 < seconds < _ENDLESS_SECONDS else -1, is_bare)


def _head(call: CommandCall) -> str:
    folder = "" if call.folder is None else f"in {quote(call.folder) or ''}"
    seconds = "" if call.seconds <= DEFAULT_TIMEOUT_SECONDS else f"for {call.seconds:g} s"
    head = " ".join(part for part in (folder, seconds) if part)
    return f"{head}: " if head else ""


def _exact_patterns(arguments: Mapping[str, Any], cwd: str | None, command: str) -> Iterator[str]:
    """Yield candidates, the most readable first; the caller tests each before it offers it."""
    call = read_call(arguments, cwd, command)
    if call is None:
        return
    if isinstance(call.command, str):
        texts: tuple[str | None, ...] = (call.command,)
    else:
        texts = (as_text(call.command), patterns.to_json(call.command))
    for text in texts:
        read = read_pattern(_head(call) + text) if text else None
        if text and read is not None and read.text == text and not read.is_prefix:
            yield _head(call) + text
    whole = patterns.exact_pattern(with_folder(arguments, cwd))
    if whole is not None:
        yield whole


def _is_run(wanted: Sequence[str], words: tuple[Word, ...], *, is_alone: bool, is_fed: bool) -> bool | None:
    """Return whether a command runs the wanted program in the wanted way, directly or by a launcher; None in doubt."""
    skipped = tuple(takewhile(is_before_program, words))
    words = words[len(skipped) :]
    if not words and is_alone:
        return False  # a variable that no command gets
    answer = _is_run_bare(wanted, words, is_alone=is_alone, is_fed=is_fed)
    values = _as_words(word.text.partition("=")[2] for word in skipped)
    return None if answer is False and _is_named(wanted, values) else answer


def is_before_program(word: Word) -> bool:
    """Return whether a word stands before the program of a command: an assignment, or a word of the shell's grammar."""
    return word.text in _RESERVED or _ASSIGNMENT.match(word.text) is not None


def _is_run_bare(wanted: Sequence[str], words: tuple[Word, ...], *, is_alone: bool, is_fed: bool) -> bool | None:
    """As `_is_run`, for a command without assignments."""
    if not words:
        return False
    answer = _begins(wanted, words)
    if answer is not False:
        return answer
    if words[0].is_open or not words[0].text:
        return None
    texts = [word.text for word in words]
    looks = not any(word.is_open for word in words) and only_looks(texts, None)
    if is_launcher(texts[0]) and not looks:
        is_hidden = is_fed or any(word.is_open or not _PLAIN.fullmatch(word.text) for word in words)
        return True if _is_named(wanted, words) else None if is_hidden else False
    may_be_run = not is_alone or (not looks and may_run_words(texts[0], texts[1:]))
    return None if may_be_run and _is_named(wanted, words) else False


def _as_words(texts: Iterable[str]) -> tuple[Word, ...]:
    """Return texts as the further words of a command."""
    return (Word(""), *map(Word, texts))


def _is_named(wanted: Sequence[str], words: tuple[Word, ...]) -> bool:
    """Return whether the arguments of a command spell the wanted one; also if it could begin in too many places."""
    names = tuple(Word(name) for word in words[1:] for name in _NAMES.findall(word.text))
    starts = [at for at, name in enumerate(names) if family(name.text) == family(wanted[0])]
    return len(starts) > _MANY or any(_begins(wanted, names[at:]) is not False for at in starts)


def _begins(wanted: Sequence[str], words: tuple[Word, ...]) -> bool | None:
    """Return whether the words run the wanted program with the wanted words; None if an option or variable may."""
    if not words or family(words[0].text) != family(wanted[0]):
        return False
    rest = [word.text for word in words[1:]]
    options = [word for word in wanted[1:] if word.startswith("-")]
    if not _follow([word for word in wanted[1:] if not word.startswith("-")], rest):
        return None if any(word.is_open for word in words) else False
    if all(option in rest for option in options):
        return True
    return None if any(word.startswith("-") for word in rest) or any(word.is_open for word in words) else False


def _follow(wanted: Sequence[str], rest: Sequence[str]) -> bool:
    """Return whether the wanted words come in this order, with only options and their values between them."""
    at = 0
    for word in wanted:
        start = at
        while at < len(rest) and rest[at] != word:
            at += 1
        if at == len(rest) or (at > start and not rest[start].startswith("-")):
            return False
        at += 1
    return True
