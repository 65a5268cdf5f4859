"""Events of restarts: that another attempt follows, and what it asks for again. Rules as in core/events.py; why it is
so is in core/restarts.py."""

from datetime import datetime
from typing import Literal

import msgspec

from supervisor.core.facts import Event, traits


@traits("told", "own")
class RunRestarted(Event, frozen=True, kw_only=True):
    """An attempt failed or stalled, and another begins at `due_at`; until then the run is out of memory, and nothing
    but a cancel wakes it.

    `number` counts the restarts of the run, from 1. `forgotten` are begun anew if the agent asks for them: the steps
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


class Again(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run does again that goes on with the memory of the one before it; names as in RunRestarted.

    `children` are sub-agents whose sessions go on in the same way, in the same append; `by` is who asked for it.
    """

    by: str
    forgotten: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


class OperationRecalled(Event, frozen=True, kw_only=True):
    """The agent asked again, after a restart, for what has its result from before it: here is that result's place in
    the order."""

    operation: str
    given: int | None = None
    """As in OperationStarted."""
