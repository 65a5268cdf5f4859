"""What a session is doing now, as a value: for trees on a screen, and for whoever else looks on.

Nothing here is on disk, and not all of it can be known: how much of its budget a run has left is known by the process
that runs it alone. What cannot be known is None, never a guess.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec

from supervisor.core.values import Approval, OutcomeKind

DoingKind = Literal[
    "approval", "call", "step", "model_call", "message", "children", "timer", "back_off", "blocked", "unknown"
]
"""approval: a person is asked, also a question of the agent's own. back_off: it failed, and is run again. blocked: its
code cannot follow its journal; `name` says why. unknown: something that no journal tells, such as a step or a model
call of another process."""
Clock = Literal["running", "paused", "asleep", "unknown"]
"""Of the watchdog. asleep: the run has left memory to wait, and no budget runs; unknown: another process has it."""


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a run is at. What agents wrote is in it as it is: a surface escapes it."""

    kind: DoingKind
    since: datetime | None = None
    name: str = ""
    """The tool, the step, or the sub-agents that are waited for."""
    arguments: Any = None
    """Of a call: with its secrets masked."""
    approval: Approval | None = None
    until: datetime | None = None
    """Of a timer and a back-off: when it is due."""
    count: int = 1
    """Of sub-agents: how many."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a tree, and what it is doing."""

    session: str
    parent: str | None
    root: str
    path: tuple[str, ...]
    """Names of the agents from the root to this one."""
    created_at: datetime
    heard_at: datetime
    """The last sign of life: an entry of its journal, or output of a command, where that is known."""
    outcome: OutcomeKind | None = None
    cause: str | None = None
    owner: str | None = None
    """Who runs the tree; None: nobody does."""
    doing: tuple[Doing, ...] = ()
    clock: Clock = "unknown"
    budget: float | None = None
    """Seconds that it may be silent, while the clock is running."""
    budget_left: float | None = None

    @property
    def agent(self) -> str:
        """The name of its agent."""
        return self.path[-1]

    @property
    def asks(self) -> bool:
        """Whether it waits for a person."""
        return self.outcome is None and any(doing.kind == "approval" for doing in self.doing)

    @property
    def is_unrun(self) -> bool:
        """Whether it could go on, and nobody runs it."""
        return self.outcome is None and self.owner is None
