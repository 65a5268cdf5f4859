"""What a session is doing now, as a value: for trees on a screen, and for other readers.

None of this is on disk, and not all of it can be known: only the process that runs a run knows how much of its budget
is left. A field that cannot be known is None, never a guess.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec

from supervisor.core.usage import NOTHING, Spent
from supervisor.core.values import Approval, OutcomeKind

DoingKind = Literal[
    "approval",
    "call",
    "step",
    "model_call",
    "message",
    "children",
    "timer",
    "back_off",
    "blocked",
    "budget",
    "limit",
    "left",
    "unknown",
]
"""approval: a person is asked; also a question of the agent's own. back_off: the run failed, and will be run again.
blocked: its code cannot follow its journal; `name` says why. budget: it waits for a decision about a budget above it.
limit: it waits for a place of the limit `name`, or, without a name, until what a step asks is no longer busy.
left: the function `name` still runs in the process of the session, although its call or step has ended (T3). unknown:
the journal does not say, as for a step or a model call in another process."""
Clock = Literal["running", "paused", "asleep", "unknown"]
"""The state of the watchdog. asleep: the run waits outside memory, and no budget runs; unknown: another process has it.
"""


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a run is doing. Text of agents is in it unchanged: a surface must escape it."""

    kind: DoingKind
    since: datetime | None = None
    name: str = ""
    """The tool, the step, the limit, or the sub-agents that the run waits for."""
    arguments: Any = None
    """Arguments of a call, with secrets masked."""
    command: str | None = None
    """The name of the argument that is a shell command."""
    approval: Approval | None = None
    until: datetime | None = None
    """When a timer or a back-off is due."""
    count: int = 1
    """How many sub-agents, or how many wait for the limit."""
    place: int = 0
    """Its place among those that wait for the limit, from 1; 0: the process that runs it knows."""


class StreamedText(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is writing now (`Context.stream`). Empty while it writes nothing, and once it has said the whole.
    Text of agents is in it unchanged: a surface must escape it."""

    text: str = ""
    left_out: int = 0
    """The number of characters before `text` that are not kept."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a tree, and what it is doing."""

    session: str
    parent: str | None
    root: str
    path: tuple[str, ...]
    """Names of the agents from the root to this one."""
    created_at: datetime
    heard_at: datetime
    """The last sign of life: a journal entry, or output of a command, if that is known."""
    outcome: OutcomeKind | None = None
    cause: str | None = None
    owner: str | None = None
    """The process that runs the tree; None if no process does."""
    doing: tuple[Doing, ...] = ()
    writing: str = ""
    """The end of the text that it is writing (`Context.stream`)."""
    clock: Clock = "unknown"
    budget: float | None = None
    """Seconds for which it may be silent while the clock is running."""
    budget_left: float | None = None
    usage: Spent = NOTHING
    """What it and everything below it have spent on models (B1)."""

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
        """Whether it could go on, and no process runs it."""
        return self.outcome is None and self.owner is None
