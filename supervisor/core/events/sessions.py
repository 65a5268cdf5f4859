"""Events of sessions: how a session began (new, as a fork, or imported), and the messages that it received and sent.

The rules of core/events apply. What a fork copies is in core/sessions/forking.py.
"""

from datetime import datetime
from typing import Final, Literal

from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.events.facts import Event, event_traits

MESSAGE: Final = "message"
"""Stands for a message in RunPassivated.waiting_for of a run that receives; no operation or session has this name."""


@event_traits("told")
class SessionCreated(Event, frozen=True, kw_only=True):
    """The first event of every session. `agent` is "module:name", `file` where that module was read."""

    agent: str
    file: str | None
    path: tuple[str, ...]
    root: str
    requester: str
    cwd: str
    rules: tuple[Rule, ...] = ()
    """The rules in the declarations of the agents from the root to this one; never wider than their parents' (A14)."""
    takes_text: bool = False
    """Whether the agent's input may be text: then a message to the idle session begins a turn."""
    parent: str | None = None
    parent_operation: str | None = None
    traceparent: str | None = None
    """The W3C trace context to which the spans of the session belong; None if it was created without traces."""
    forked: int = 0
    """How many SessionForked end the copy with which a fork begins: those of earlier forks, which it copied, and its
    own. 0: the session is no fork."""
    requester_roles: tuple[str, ...] = ()
    """The roles that the requester had then; empty where the program knew no people."""
    budget: Budget | None = None
    """Of the whole tree, over all its turns, as it was started with."""


@event_traits("wakes")
class SessionForked(Event, frozen=True, kw_only=True):
    """All entries before this one are a copy: what they say happened in session `source`, before its entry `before`.

    The run goes on from here with `version` of its code; None: the version that is current when it goes on.
    """

    source: str
    before: int
    by: str
    version: str | None = None


@event_traits("audited", "not copied", "no progress")
class ForkTaken(Event, frozen=True, kw_only=True):
    """Session `fork` begins with a copy of this session, as it was before its entry `before`. Nothing else changed."""

    fork: str
    before: int
    by: str


@event_traits(answers=lambda _: MESSAGE)
class MessageReceived(Event, frozen=True, kw_only=True):
    """`by` sent a message to the session. It is kept until the agent receives it, or a turn begins with it (R7)."""

    message: str
    text: str
    by: str


@event_traits("not copied", "no progress")
class WordHeard(Event, frozen=True, kw_only=True):
    """`by` wrote a chat word or an answer, under an id of the sender. `approvals` are all that it decides, however
    often it comes (A12)."""

    message_id: str
    text: str
    by: str
    approvals: tuple[str, ...] = ()


@event_traits("told", "last append")
class MessageUndelivered(Event, frozen=True, kw_only=True):
    """The run ended without receiving the message, and no later run can receive it: its sender is told so (R7)."""

    message: str
    text: str
    by: str


@event_traits("own", "last append", "unwinding")
class MessageSent(Event, frozen=True, kw_only=True):
    """The session said something to the people who watch it, once: by `send`, or as a turn's result."""

    text: str
    operation: str | None = None


@event_traits("not copied", "no progress")
class MessageShown(Event, frozen=True, kw_only=True):
    """A channel has shown people a piece of what the session said; `mark` identifies the piece. Only a channel whose
    platform does not let it read what stands there needs this."""

    channel: str
    mark: str


@event_traits("begins run")
class ImportStarted(Event, frozen=True, kw_only=True):
    """The session took place elsewhere, and its messages follow: none of it ran here, and no decision in it was
    made here.

    From here on the session is idle. `format`, `source` (the file's own id of the session) and `digest` (of its
    bytes) say whether another import is the same one.
    """

    format: str
    source: str
    file: str
    digest: str

    @property
    def cause(self) -> str:
        """What stands for an outcome until the session goes on here."""
        return f"imported from {self.format}"


class MessageImported(Event, frozen=True, kw_only=True):
    """One message of a session that took place elsewhere; `at` is when it was imported, `said_at` when it was said.

    Of a call, `text` is its arguments as JSON; `call` is the id that its result has too, unique in its file at best.
    """

    role: Literal["user", "assistant", "call", "result"]
    text: str
    said_at: datetime | None = None
    tool: str | None = None
    call: str | None = None
    is_error: bool = False
    is_lost: bool = False
    """The file has no result of this call: this one was put in its place, as a repair does."""


class ImportFinished(Event, frozen=True, kw_only=True):
    """The import is complete. `left_out` counts what was not a message: torn lines, results without a call."""

    messages: int
    left_out: int = 0
