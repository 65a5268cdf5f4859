"""Events of runs: the attempts of a run, the state that it saves, and how it sleeps, restarts, is blocked and ends.

The rules of core/events apply. What a restart keeps is in core/sessions/restarts.py, what a block is in
core/blocking.py.
"""

from datetime import datetime
from operator import attrgetter
from typing import Literal

import msgspec
from msgspec import Raw

from supervisor.core.blocking import Block
from supervisor.core.encoding import JSON_NULL
from supervisor.core.events.facts import Event, event_traits
from supervisor.core.values import OutcomeKind, ReportKind


class Again(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run does again that goes on with the operations of the one before it; names as in RunRestarted.

    `children` are sub-agents whose sessions go on in the same way, in the same append; `by` is who asked for it.
    """

    by: str
    forgotten: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@event_traits("begins run", "ends block")
class RunStarted(Event, frozen=True, kw_only=True):
    """A run begins, without operations: the session's first, or a turn that `message` began."""

    input: Raw
    message: str | None = None
    again: Again | None = None
    """Of a retry: the run has the operations of the one before it, except those that it does again."""


@event_traits("wakes", "not copied", "no progress")
class AttemptStarted(Event, frozen=True, kw_only=True):
    """The agent function is about to be invoked. Attempts in a row that append nothing else are bounded (R5)."""

    host: str
    pid: int
    version: str = "1"
    """Of the code that runs it. That of a run's first attempt is the version of the run (R10)."""


@event_traits("not copied")
class AttemptSettled(Event, frozen=True, kw_only=True):
    """An attempt after the first asked again for everything in its journal, and waits: no crash loop (R5)."""


@event_traits("not copied")
class RunPassivated(Event, frozen=True, kw_only=True):
    """The run left memory. Valid until an event follows that answers one of `waiting_for`, or a cancel."""

    waiting_for: tuple[str, ...]
    due_at: datetime | None = None
    """When the earliest of its timers wakes it."""


@event_traits("told", "trouble", "own")
class RunRestarted(Event, frozen=True, kw_only=True):
    """An attempt failed or stalled, and another begins at `due_at`; until then the run is out of memory, and nothing
    but a cancel wakes it.

    `number` counts the restarts of the run, from 1. `forgotten` begin again if the agent asks for them: the steps
    that failed, and what their failure cut off. `kept` have their results, which have no place in the order of results
    until the agent asks for them again. `reopened` are timers that wait again until the instant they were due at.
    """

    kind: Literal["failed", "stalled"]
    cause: str
    number: int
    due_at: datetime
    forgotten: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """What ends the back-off before it is due (as in RunPassivated): nothing."""
        return ()


@event_traits("told", "trouble", "not copied")
class RunBlocked(Event, frozen=True, kw_only=True):
    """The run cannot go on with today's code."""

    block: Block


@event_traits("told", "ends block", "not copied")
class RunUnblocked(Event, frozen=True, kw_only=True):
    """An attempt has asked for everything in the journal: the run goes on."""


@event_traits("own")
class StateSaved(Event, frozen=True, kw_only=True):
    """The state with which a later attempt begins. The first `floor` of each operation are before it and are forgotten;
    for those that `counts` names, so many (runtime/attempt/operation_ids.py)."""

    state: Raw
    counts: dict[str, int]
    floor: int = 0


class PatchMarked(Event, frozen=True, kw_only=True):
    """The run takes the path of a named change of its code (Context.patched). Not an operation: it has no result."""

    name: str


@event_traits("told", "own", "no progress", "unwinding")
class Reported(Event, frozen=True, kw_only=True):
    """What the agent says of itself, in its own words. Not an operation: nothing in the run depends on it, and no rule
    was asked about a call in it. `tool`, `call`: the agent's name of a tool, and its id of a call or a message."""

    kind: ReportKind
    text: str
    tool: str | None = None
    call: str | None = None
    is_error: bool = False
    left_out: int = 0
    """How many bytes of the text are not recorded, at its end."""


@event_traits("audited", "told", "trouble", "wakes", "last append", "unwinding")
class CancelRequested(Event, frozen=True, kw_only=True):
    """`by` cancelled `origin`, and with it everything below it, this session included (W8)."""

    by: str
    origin: str
    reason: str | None = None


@event_traits("last append", "unwinding", answers=attrgetter("child"))
class ChildEnded(Event, frozen=True, kw_only=True):
    """In the parent's journal: a sub-agent has its outcome. Delivered when the parent asks for it."""

    child: str
    kind: OutcomeKind
    value: Raw = JSON_NULL
    cause: str | None = None
    partial: Raw = JSON_NULL
    said: str = ""


@event_traits("told", "own", "ends block", "wakes", "last append")
class RunFinished(Event, frozen=True, kw_only=True):
    """The outcome, exactly once (W9)."""

    kind: OutcomeKind
    value: Raw = JSON_NULL
    cause: str | None = None
    partial: Raw = JSON_NULL
    said: str = ""
    """The last words of an agent that has not succeeded: its messages and reports, and what it was writing."""
    traceback: str = ""
    """Where the agent raised, for people; its parent is not told (runtime/attempt/tracebacks.py)."""
    led_by: tuple[str, ...] = ()
    """Operations whose failures caused the end: a retry does them again (core/sessions/retrying.py)."""
    stopped_at: int = 0
    """Of a stall: the length of the journal when the run was told to stop."""
