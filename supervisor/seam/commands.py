"""What people and programs may command, as values, and the laws of each: one table.

A public method of a Supervisor makes the value of its command and gives it to `Supervisor._do`. That applies the law,
and then the store, the client of a server and the client of Temporal each carry the command out (`_METHOD`). So a check
cannot be forgotten for one of them.

Rules
- A value is what the person said, checked as far as the value alone can be. `by` stands next to it: the law says who
  that may be.
- The role is checked after the place: what a supervised call runs gives no command in a person's name (A4).
- What only looks is no command, and has no law.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from supervisor.core import values
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.schedules import CHANGES, Schedule, ScheduleChange, ScheduleView
from supervisor.core.sessions.heard import check_message
from supervisor.core.sessions.trees import Origin, PruneResult
from supervisor.core.values import Decision, DecisionResult, SendResult, check_word
from supervisor.seam.runs import Run, SessionImport

A = TypeVar("A")
MOST_HUSHED: Final = 1000
"""Approvals of one acknowledgement."""


class Command(msgspec.Struct, Generic[A], frozen=True):
    """A command whose answer is an `A`. The methods of Supervisor say what each of them means."""


class ChannelCommand(Command[A], Generic[A], frozen=True, kw_only=True):
    """A command that says through which channel it came."""

    channel: str | None = None

    def __post_init__(self) -> None:
        check_word("a channel", "" if self.channel is None else self.channel)


class Start(Command[Run[Any]], frozen=True):
    """`spec`: the declaration of the agent, next to its name; None: the name alone was given."""

    agent: str
    input: msgspec.Raw | None
    """As JSON; None: the agent's default."""
    inexact: str | None = None
    """Why the JSON does not say what was given."""
    spec: AgentSpec[..., Any] | None = None
    session: str | None = None
    cwd: str | None = None
    requester: str | None = None
    budget: Budget | None = None

    def check_exact(self) -> None:
        """Raise InvalidInput if the JSON does not say what was given."""
        if self.inexact is not None:
            raise InvalidInput(self.inexact)


class Resume(Command[Run[Any]], frozen=True):
    session: str


class ResumeAll(Command[list[Run[Any]]], frozen=True):
    """Every open tree that no process runs."""


class Decide(ChannelCommand[DecisionResult], frozen=True):
    approval: str
    decision: Decision


class DecideAll(ChannelCommand[list[DecisionResult]], frozen=True):
    """`decisions`: of one person, with the id of each approval. `shown`: by approval, the digest that they saw."""

    decisions: tuple[tuple[str, Decision], ...]
    batch: str
    shown: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("the id of a batch", self.batch)


class Chat(ChannelCommand[ChatResult], frozen=True):
    """`message`: the sender's id of the text; None: it comes once."""

    session: str
    text: str
    shown_before: datetime | None = None
    shown: Collection[str] | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_message(self.message)


class _Hush(ChannelCommand[tuple[str, ...]], frozen=True):
    """`approvals`: ids of those that the person has seen."""

    approvals: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < len(self.approvals) <= MOST_HUSHED:
            raise InvalidInput(f"name 1 to {MOST_HUSHED} approvals, not {len(self.approvals)}")


class Acknowledge(_Hush, frozen=True):
    """The person is on it."""


class Snooze(_Hush, frozen=True):
    """The person wants to hear nothing of it until an instant."""

    until: datetime

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.until.tzinfo is None:
            raise InvalidInput("until when: add the time zone, as in 2027-01-31T07:00:00Z")


class Reveal(ChannelCommand[Any], frozen=True):
    approval: str


class Cancel(Command[None], frozen=True):
    session: str
    reason: str | None = None
    run: int | None = None


class RaiseBudget(Command[None], frozen=True):
    session: str
    budget: Budget

    def __post_init__(self) -> None:
        if not self.budget.limits:
            raise InvalidInput("name a limit to raise, such as usd=10")


class Send(Command[SendResult], frozen=True):
    """`message`: the sender's id of the text; None: it comes once."""

    session: str
    text: str
    message: str | None = None

    def __post_init__(self) -> None:
        _check_message(self.message)


class Retry(Command[Run[Any]], frozen=True):
    session: str


class Fork(Command[values.Fork], frozen=True):
    session: str
    before: int
    new: str | None = None
    version: str | None = None


class AddRule(Command[Rule], frozen=True):
    """`pending`: whether it decides what waits already, too."""

    rule: Rule
    pending: bool = False

    def __post_init__(self) -> None:
        if self.pending and self.rule.kind == "ask":
            raise InvalidInput("an ask rule decides nothing that waits: leave pending away")


class RevokeRule(Command[Rule], frozen=True):
    rule: str


class AddSchedule(Command[ScheduleView], frozen=True):
    schedule: Schedule


class ChangeSchedule(Command[ScheduleView], frozen=True):
    schedule: str
    to: ScheduleChange

    def __post_init__(self) -> None:
        if self.to not in CHANGES:  # no process could read the journal of schedules any more
            raise InvalidInput(f"a schedule can be {', '.join(CHANGES[:-1])} or {CHANGES[-1]}, not {self.to!r:.40}")


class RunSchedule(Command[Run[Any]], frozen=True):
    schedule: str
    session: str | None = None


class NoteRefused(ChannelCommand[None], frozen=True):
    approval: str
    reason: str


class NoteShown(Command[None], frozen=True):
    session: str
    mark: str
    channel: str

    def __post_init__(self) -> None:
        check_word("a channel", self.channel)
        check_word("the mark of a message", self.mark)


class Import(Command[AbstractAsyncContextManager[SessionImport]], frozen=True):
    session: str
    origin: Origin
    agent: AgentSpec[Any, Any] | None = None


class Prune(Command[PruneResult], frozen=True):
    before: datetime
    only: Collection[str] | None = None
    dry_run: bool = False


class Law(NamedTuple):
    """`method`: the public method of a Supervisor. `doing`: the act, as the refusal inside a call names it.

    `inside`: what a process may that a supervised call started (A4).

        refused    nothing: it would be a person's act, or the running of what others have started
        own tree   the command, in the tree of its own call, or in a tree that this process runs itself
        allowed    the command: it asks people itself, or tells what has happened

    `audit`: the act in the audit trail, if an operator alone may (A15).
    `role`: who may give the command, where people have roles.

        operator   operators alone
        approver   who may decide this approval: the handler asks that, since it has the approval
        person     every person: what the text means is a command of its own
        program    no person: a program or a channel gives it for itself

    `program_may`: whether a program that names no person is admitted; if not, its user needs the role. `repeats`:
    whether the command may be given again when its answer was lost, since that changes nothing; so may one that carries
    an id of its sender.
    """

    method: str
    doing: str
    inside: Literal["refused", "own tree", "allowed"]
    audit: str = ""
    role: Literal["operator", "approver", "person", "program"] = "operator"
    program_may: bool = False
    repeats: bool = False


LAWS: Final[Mapping[type[Command[Any]], Law]] = {
    Start: Law("start", "starting", "allowed", "start agents", program_may=True, repeats=True),
    Resume: Law("resume", "resuming", "refused", "resume sessions", program_may=True),
    ResumeAll: Law("resume_all", "resuming", "refused", "resume sessions", program_may=True),
    Decide: Law("decide", "deciding", "refused", role="approver", repeats=True),
    DecideAll: Law("decide_all", "deciding", "refused", role="approver", repeats=True),
    Chat: Law("chat", "sending", "refused", role="person"),
    Acknowledge: Law("acknowledge", "acknowledging", "refused", role="approver", repeats=True),
    Snooze: Law("snooze", "snoozing", "refused", role="approver", repeats=True),
    Reveal: Law("reveal", "looking at credentials", "refused", "look at credentials"),
    Cancel: Law("cancel", "cancelling another session", "own tree", "cancel sessions", program_may=True, repeats=True),
    RaiseBudget: Law("raise_budget", "raising a budget", "refused", "raise budgets", program_may=True, repeats=True),
    Send: Law("send", "sending", "refused", "send messages"),
    Retry: Law("retry", "retrying", "refused", "retry sessions"),
    Fork: Law("fork", "forking", "refused", "fork sessions", repeats=True),
    AddRule: Law("add_rule", "changing rules", "refused", "make rules", repeats=True),
    RevokeRule: Law("revoke_rule", "changing rules", "refused", "make rules"),
    AddSchedule: Law(
        "add_schedule", "changing schedules", "refused", "change schedules", program_may=True, repeats=True
    ),
    ChangeSchedule: Law("change_schedule", "changing schedules", "refused", "change schedules", program_may=True),
    RunSchedule: Law("run_schedule", "starting", "refused", "start agents", program_may=True, repeats=True),
    NoteRefused: Law("note_refusal", "noting that a person was refused", "allowed", role="program"),
    NoteShown: Law("note_shown", "noting what a channel has shown", "allowed", role="program"),
    Import: Law("import_session", "importing", "refused", role="program"),
    Prune: Law("prune", "pruning", "refused", role="program"),
}


def repeats(command: Command[Any]) -> bool:
    """Return whether a command may be given again when its answer was lost."""
    return LAWS[type(command)].repeats or getattr(command, "message", None) is not None


def _check_message(message: str | None) -> None:
    if message is not None:
        check_message(message)


def session_of(command: Command[Any]) -> str | None:
    """Return the session that a command names, if any."""
    return getattr(command, "session", None)
