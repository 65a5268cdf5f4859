"""The life of an ACP session: which messages may come in which state, and what follows from them.

A table for each protocol version maps (state, event) to the next state and an action. It has a row for each message
that an agent may send of its own accord, in each state. A pair that is not in the table is a mistake of ours: it
raises, and the session stays as it was. Pure: no process, no task, no JSON.

Events that we cause: begin, prompt, cancel. Events that the agent causes: greeted (its answer to initialize), opened
(its answer to a request that opens a session), refused (an error as that answer), update, permission, stopped (its
answer to a prompt, an error too). Greeted and refused have a suffix: the way of opening a session that comes next.

Rules
- A session that exists is opened by session/resume, else by session/load, else a new one takes its place. Each way that
  the agent refuses leads to the next one.
- What comes while a session is opened again is its past, and is not reported a second time.
- Permissions are asked during a prompt only. After our cancel each one is answered `cancelled`; no other state answers
  so.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from supervisor.core.errors import InvalidInput

State = Literal["started", "greeting", "resuming", "loading", "opening", "idle", "prompting", "cancelling"]
Action = Literal[
    "initialize",
    "session/resume",
    "session/load",
    "session/new",
    "session/prompt",
    "session/cancel",
    "report",
    "ask",
    "answer cancelled",
    "answer with an error",
    "fail",
    "nothing",
]
"""A method: send it. The others: what is done with what has come."""
Way = Literal["resume", "load", "new", "none"]

_OPENING: Final[Mapping[str, State]] = {"resume": "resuming", "load": "loading", "new": "opening"}
_METHOD: Final[Mapping[str, Action]] = {"resume": "session/resume", "load": "session/load", "new": "session/new"}
_REOPENING: Final[tuple[State, ...]] = ("resuming", "loading")
_OUTSIDE: Final[tuple[State, ...]] = ("started", "greeting", *_OPENING.values(), "idle")
"""The states without a prompt under way."""

VERSION_1: Final[Mapping[tuple[str, str], tuple[State, Action]]] = {
    ("started", "begin"): ("greeting", "initialize"),
    **{("greeting", f"greeted.{way}"): (_OPENING[way], _METHOD[way]) for way in _OPENING},
    ("resuming", "refused.load"): ("loading", "session/load"),
    **{(state, "refused.new"): ("opening", "session/new") for state in _REOPENING},
    ("opening", "refused.none"): ("opening", "fail"),
    **{(state, "opened"): ("idle", "nothing") for state in _OPENING.values()},
    **{(state, "update"): (state, "nothing") for state in ("started", "greeting", *_REOPENING)},
    ("opening", "update"): ("opening", "report"),
    ("idle", "update"): ("idle", "report"),
    ("idle", "prompt"): ("prompting", "session/prompt"),
    ("prompting", "update"): ("prompting", "report"),
    ("prompting", "permission"): ("prompting", "ask"),
    ("prompting", "cancel"): ("cancelling", "session/cancel"),
    ("prompting", "stopped"): ("idle", "nothing"),
    ("cancelling", "update"): ("cancelling", "report"),
    ("cancelling", "permission"): ("cancelling", "answer cancelled"),
    ("cancelling", "stopped"): ("idle", "nothing"),
    **{(state, "permission"): (state, "answer with an error") for state in _OUTSIDE},
    **{(state, "cancel"): (state, "nothing") for state in _OUTSIDE},
    ("cancelling", "cancel"): ("cancelling", "nothing"),
}

LIVES: Final[Mapping[int, Mapping[tuple[str, str], tuple[State, Action]]]] = {1: VERSION_1}
"""The protocol versions that we speak."""
NEWEST: Final = max(LIVES)


class OutOfTurn(RuntimeError):
    """An event that cannot come in this state."""


class UnknownVersion(InvalidInput):
    """The agent speaks another version of the protocol."""


class Life:
    """The state of one ACP session in one process."""

    def __init__(self, version: int = NEWEST) -> None:
        self._table = LIVES[version]
        self.state: State = "started"

    def __repr__(self) -> str:
        return f"<ACP session, {self.state}>"

    def take(self, event: str) -> Action:
        """Apply an event, and return what to do. Raises OutOfTurn, and changes nothing, if it cannot come now."""
        try:
            self.state, action = self._table[self.state, event]
        except KeyError:
            raise OutOfTurn(f"{event} cannot come while the session is {self.state}") from None
        return action


def check_version(found: object) -> None:
    """Raise UnknownVersion, which names both, unless we speak the version that the agent has answered."""
    if type(found) is not int or found not in LIVES:
        ours = " or ".join(str(version) for version in LIVES)
        raise UnknownVersion(f"the agent speaks version {found!r} of ACP; the supervisor speaks version {ours}")


def ways(capabilities: Mapping[str, Any], *, has_session: bool) -> tuple[Way, ...]:
    """Return the ways of opening a session in the order in which they are tried. `capabilities`: agentCapabilities of
    the answer to initialize."""
    found: list[Way] = []
    if has_session:
        offered = capabilities.get("sessionCapabilities") or {}
        if isinstance(offered, Mapping) and offered.get("resume") is not None:
            found.append("resume")
        if capabilities.get("loadSession") is True:
            found.append("load")
    return (*found, "new")


def next_way(ways: Iterable[Way]) -> Way:
    """Return the first of the ways that are left; none if there is none."""
    return next(iter(ways), "none")
