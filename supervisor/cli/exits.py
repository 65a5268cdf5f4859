"""Exit codes, and which error means which. They are a contract: scripts and CI read them.

0   done; for `cancel`: the session has ended
1   run, resume, demo: it ended otherwise than succeeded
2   usage: the command line, a JSON text, an agent that cannot be loaded
3   it waits for a person
4   conflict: decided otherwise, withdrawn, expired; another agent or input under this session's id
5   not found
6   refused: another process owns it, the store cannot be read, a decision from inside a supervised call, a person
    who is not known or may not do it
7   blocked: today's code cannot follow what the session has done
8   the server cannot be reached, or is no supervisor of this API
130, 143, 129   stopped by SIGINT, SIGTERM, SIGHUP
141 run, resume, demo, serve, cancel: stopped, since nobody reads what it says (`| head`)
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
from supervisor.core.visible import visible


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
    """What is refused as things are now: exit code 6."""


_CODES: Final[dict[type[SupervisorError], Exit]] = {
    InvalidInput: Exit.USAGE,
    SessionConflict: Exit.CONFLICT,
    NotFound: Exit.NOT_FOUND,
    RunBlocked: Exit.BLOCKED,
    ServerError: Exit.UNREACHABLE,
}
"""An error that is none of these is refused."""


def code_of(error: BaseException) -> Exit:
    """Return the exit code that an error means."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), Exit.REFUSED)


def explain(error: BaseException) -> str:
    """Return an error's one line; what an agent or a file wrote into it is made safe for a screen."""
    said = str(error)
    if isinstance(error, OSError) and error.strerror:
        said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = visible(said, lines=True) or type(error).__name__
    return f"{text} (left untouched)" if isinstance(error, StoreUnreadable) and "untouched" not in text else text


def not_found(kind: str, name: str, known: Iterable[str]) -> NotFound:
    """Return the error for an id that is not there, offering the closest ones that are."""
    every = list(known)
    begun = [other for other in every if name and other.startswith(name)]  # it was cut off
    near = begun[:3] or get_close_matches(name, every, n=3, cutoff=0.6)
    offer = f"; did you mean {' or '.join(near)}?" if near else f"; see supervisor {kind}s"
    return NotFound(f"no {kind} {visible(name)} in this store{offer}")
