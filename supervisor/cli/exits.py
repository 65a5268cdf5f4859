"""The exit codes of commands, and which error gives which. They are a contract: scripts and CI read them.

0   done; cancel: the session has ended
1   run, resume, retry, fork, demo: the session failed, stalled, was cancelled or abandoned
2   usage: a wrong command line or JSON text, an agent that cannot be loaded
3   the session waits for a person
4   conflict: already decided otherwise, withdrawn or expired; the session's id belongs to another agent or input
5   not found
6   refused: another process runs the session, the store cannot be read or does not answer, a supervised call started
    this command, the person is unknown or may not do it
7   blocked: today's code cannot go on with the session
8   the server cannot be reached, or has another API
130, 143, 129   stopped by SIGINT, SIGTERM, SIGHUP
141 run, resume, retry, fork, demo, serve, cancel: stopped, since the reader of its output closed the pipe (`| head`)
"""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from typing import Final

from supervisor.core.errors import (
    InvalidInput,
    NotFound,
    RunBlocked,
    ServerError,
    SessionConflict,
    StoreUnreadable,
    SupervisorError,
)
from supervisor.core.text.visible import visible


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    WAITING = 3
    CONFLICT = 4
    NOT_FOUND = 5
    REFUSED = 6
    BLOCKED = 7
    UNREACHABLE = 8


class Refused(SupervisorError):
    """A command that is refused as things are now: exit code 6."""


CODES: Final[dict[type[SupervisorError], Exit]] = {
    InvalidInput: Exit.USAGE,
    SessionConflict: Exit.CONFLICT,
    NotFound: Exit.NOT_FOUND,
    RunBlocked: Exit.BLOCKED,
    ServerError: Exit.UNREACHABLE,
}
"""Every other error has the code REFUSED."""


def code_of(error: BaseException) -> Exit:
    """Return the exit code of an error."""
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), Exit.REFUSED)


def explain(error: BaseException) -> str:
    """Return an error as one line, with control characters escaped: agents and files may have written into it."""
    said = str(error)
    if isinstance(error, OSError) and error.strerror:
        said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = visible(said, kind="words", lines=True) or type(error).__name__
    return f"{text} (left untouched)" if isinstance(error, StoreUnreadable) and "untouched" not in text else text


def not_found(kind: str, name: str, known: Iterable[str], option: str = "") -> NotFound:
    """Return the error for an id that does not exist. It names the closest ones that do. `option`: those of the place
    where it was looked for (`Place.option`)."""
    every = list(known)
    begun = [other for other in every if name and other.startswith(name)]  # `name` is only their beginning
    near = begun[:3] or get_close_matches(name, every, n=3, cutoff=0.6)
    offer = f"; did you mean {' or '.join(near)}?" if near else f"; see supervisor {kind}s{option}"
    return NotFound(f"no {kind} {name} in this store{offer}")
