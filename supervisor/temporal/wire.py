"""What is written into a Temporal server: names, and documents. Clients and workers of one namespace share them.

Rules
- A document is plain JSON, so that Temporal's own pages show it. Numbers and texts of agents are in it as they are.
  What is read of a journal is compressed.
- The state of a tree is in its workflow. What people wait for is also in a search attribute and in the memo, which a
  client reads while no worker lives.
- The id of a root session is the id of its workflow. `decision~APPROVAL` is the workflow with which former code has
  claimed a decision, `card~APPROVAL~TARGET` the one that claims a card, `told~APPROVAL~TARGET~STEP` a message,
  `turn~SESSION~RUN` the end of a tree, and `refusal~RUN` a tree which is refused. `diverged~RUN` tells what code asks
  for that does not follow the history of a tree, and `courier~...` tells a worker of a cancel (worker/couriers.py).
  `schedule~NAME` is a schedule of Temporal; with a time, the workflow that it starts then (workflow/scheduled.py).

The module is longer than 400 lines because each process of a namespace must read all of these documents alike.
"""

import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NoReturn, TypeVar

import msgspec
from temporalio.common import WorkflowIDReusePolicy

from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.encoding import to_json
from supervisor.core.errors import (
    InvalidInput,
    LimitExceeded,
    NotEntitled,
    NotFound,
    RunStopping,
    ServerError,
    SessionConflict,
    SupervisorError,
    UnknownAgent,
)
from supervisor.core.ids import digest_of_value
from supervisor.core.schedules import Became, Schedule
from supervisor.core.usage import Usage
from supervisor.core.values import Answer, Approve, Decision, Deny, Scope
from supervisor.runtime.environment import Ruled

T = TypeVar("T")

QUEUE: Final = "subagent-supervisor"
"""The task queue of a namespace: one namespace is one store."""
TREE: Final = "supervisor.tree"
CLAIM: Final = "supervisor.decision"
BARE_CLAIM: Final = "supervisor.claim"
CARD: Final = "supervisor.card"
RULES_TYPE: Final = "supervisor.rules"
RULES_ID: Final = "rules~"
"""The id of the workflow that keeps the rules: no session has it."""
CLAIMED: Final = "supervisor.claimed"
READ_RULES: Final = "supervisor.read_rules"
ADD_RULE: Final = "supervisor.add_rule"
SETTLE: Final = "supervisor.settle"
RELEASE: Final = "release"
"""The signal that tells a tree of a rule. A worker of before leaves it unread: Temporal keeps what has no handler."""
TAKE_OVER: Final = "supervisor.take_over"
LEFT_NOTHING: Final = "LeftNothing"
"""The type of the error with which a tree fails that follows an end which has left nothing (workflow/turns.py)."""
AGENTS: Final = "supervisor.agents"
BODY: Final = "supervisor.body"
COURIER: Final = "supervisor.courier"
SCHEDULE: Final = "supervisor.schedule"
FIND_DUE: Final = "supervisor.find_due"
MISSING: Final = "AgentMissing"
"""The type of the error with which a worker that lacks the agent of a tree fails a task of it (workflow/missing.py)."""
UNSTARTED: Final = "NotStarted"
"""The type of the error with which a worker fails a query that came too early (worker/unstarted.py)."""
NOT_HERE: Final = "NotHere"
"""The type of the error of a worker that does not have a function, or a payload: nothing has begun."""
PENDING: Final = "SupervisorPending"
"""The search attribute with the ids of the approvals and questions that wait in a tree."""
ROUTE: Final = "SupervisorRoute"
"""The search attribute with the beginning that all approval ids of a tree have."""
AGENT: Final = "SupervisorAgent"
STATUS: Final = "SupervisorStatus"
REQUESTER: Final = "SupervisorRequester"
"""Search attributes for people, where the namespace has them (searched.py)."""
MEMO: Final = "supervisor"
HANDLED: Final = "handled"
"""The part of a memo that says what became of a wake of a schedule."""
SIGNALS: Final = "signals"
"""The mark in the memo of a tree whose decisions are signals."""
ONCE: Final = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
"""An id is used once, unless its workflow has failed: the worker has refused what it was to do."""
LARGEST_BYTES: Final = 1024 * 1024
"""Bytes of JSON that arguments or a result may have without a folder for large payloads (payloads.py). The server
refuses documents of more than 2 MiB."""
INLINE_BYTES: Final = 256 * 1024
"""Bytes from which a payload is stored in the folder for large payloads, if there is one."""
CONTINUE_AFTER: Final = 5000
"""A server ends a workflow at 51,200 events."""
CONTINUE_AFTER_BYTES: Final = 8 * 1024 * 1024
"""A server ends a workflow at 50 MiB of history. A carried journal is not a quarter of this."""
CARRIED_LARGEST_BYTES: Final = 1536 * 1024
"""Bytes of a carried journal, where there is no folder for large payloads."""
ENDED_LARGEST_BYTES: Final = 1920 * 1024
"""Bytes of JSON that the outcome of a tree may have with what it leaves, where there is no such folder."""
MEMO_LARGEST_BYTES: Final = 64 * 1024
RULES_LARGEST_BYTES: Final = 64 * 1024
"""Bytes of rules that travel with a start. More are read when they are needed."""
SEARCHED_LARGEST_BYTES: Final = 2000
"""Bytes of the ids in the search attribute. A server refuses 2048, and a workflow that asks for more stands still."""
PAGE_BYTES: Final = 192 * 1024
"""Bytes of entries after which an answer to a query ends: so few that no file is written for it (payloads.py)."""


def queue_of(name: str | None) -> str:
    """Return the task queue of the calls of tools that name a queue; None: that of everything else."""
    return QUEUE if name is None else f"{QUEUE}~{name}"


def decision_id(approval: str) -> str:
    return f"decision~{approval}"


def refusal_id(run: str) -> str:
    return f"refusal~{run}"


def diverged_id(run: str) -> str:
    return f"diverged~{run}"


def turn_id(session: str, chain: str) -> str:
    return f"turn~{session}~{chain}"


def schedule_id(name: str) -> str:
    return f"schedule~{name}"


def card_id(approval: str, target: str) -> str:
    return f"card~{approval}~{target}"


def told_id(approval: str, target: str, step: int) -> str:
    return f"told~{approval}~{target}~{step}"


Signal = Literal["decide", "command"]
"""The signals of a tree: a DecisionRequest, and a Command."""


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow of a tree has left to the next one."""

    journal: str
    """Its entries (carry.py)."""
    last: int
    """The position of its last entry."""
    earlier: str | None
    """The run that has all entries until then; None if they are here, or its code has gone and it cannot be asked."""
    is_whole: bool = False
    """Whether all entries of the tree are here."""
    answers: dict[str, Any]
    """What its latest commands came to, by their ids."""
    not_begun: list[tuple[str, str]] = []
    """The calls, by session and operation, that count as executing and have not begun: no worker had what they need."""
    is_parked: bool = False
    """Whether it waits, until a command says that the workers have the code with which it is to go on."""
    commands: list[tuple[Signal, Any]] = []
    """What was signalled to it and is not done yet."""
    chain: str = ""
    """The first of the runs that have continued each other and have left it."""


class KnownRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for all sessions, as they were read. `at`: when they were confirmed, by the clock of the server; None:
    when the workflow began to which a client gave them."""

    rules: tuple[Rule, ...] = ()
    version: str
    at: datetime | None = None


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a tree's workflow. `given`: the input of the agent; unset for its default input."""

    agent: str
    given: Any = msgspec.UNSET
    session: str
    cwd: str
    requester: str
    by: str
    budget: Budget | None = None
    largest: int = LARGEST_BYTES
    """Bytes of JSON that the arguments or the result of a body may have: the same in each replay of the tree."""
    continue_after: int = CONTINUE_AFTER
    """Events of the workflow's history after which the tree goes on in a new workflow."""
    continue_after_bytes: int = CONTINUE_AFTER_BYTES
    """Bytes of the workflow's history after which it does so, too."""
    has_marks: bool = False
    """Whether the workflow marks the versions and patches of its runs, names the calls for which it reads rules, and
    refuses a call that is too large before it asks. One that former code has started does not: each replay must do as
    it did."""
    has_signals: bool = False
    """Whether decisions are signals that nothing claims, and the rules travel with bodies. One that former code has
    started claims decisions and reads rules for each call; see WorkflowEnvironment."""
    has_attributes: bool = False
    """Whether the tree has the search attributes for people."""
    rules: KnownRules | None = None
    carried: Carried | None = None
    """None for the first workflow of a tree."""
    follows: str | None = None
    """The run of a workflow of this tree that has ended: this one goes on with what was left there, or after it."""


def mark_of_start(start: Start) -> str:
    """Return what the same start again has in common with it."""
    document = to_wire(start)
    bounded = [] if start.budget is None else [document["budget"]]
    return digest_of_value([start.agent, document.get("given", []), *bounded])


def memo_of(start: Start, mark: str) -> dict[str, Any]:
    """Return the memo with which a tree starts. `mark`: by which the same start is known."""
    return {MEMO: {"pending": [], "left_out": []}, "start": mark, "agent": start.agent, SIGNALS: True}


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the workflow that a schedule of Temporal starts. `start`: that of its trees, without session and
    input. `offsets`: those of its zone, in minutes (wakes.py)."""

    schedule: Schedule
    start: Start
    offsets: list[int]


class Handled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a wake of a schedule, as ScheduleHandled says it on one machine."""

    instant: datetime
    became: Became
    session: str | None = None
    reason: str | None = None


class CallFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a ToolContext says of its call."""

    requester: str
    cwd: str
    is_allowed: bool


class BodyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a call or a step. `reference` names its function; `facts`: only if a tool takes a context."""

    kind: Literal["call", "step"]
    reference: str
    name: str
    session: str
    operation: str
    arguments: dict[str, Any]
    positional: list[Any] = []
    timeout: float | None = None
    inactivity_timeout: float = 60.0
    facts: CallFacts | None = None
    largest: int = LARGEST_BYTES
    ruled: Ruled | None = None
    rules: str | None = None
    """The version of the rules that let a call begin; with another one it does not begin. None: they were read."""


class BodyResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a body has ended.

    value       it returned `value`                     result      it returned a ToolResult, `value`
    failed      it raised ToolFailed                    raised      it raised another exception
    deadline    its deadline has passed                 stalled     its step showed no progress
    cancelled   it was cancelled; `value`: the result that it left, if any
    misfit      it returned what JSON cannot hold, or too much of it
    denied      the rules do not let the call begin, as its paths lead where they do on this machine
    rules       it has not begun: the rules are others by now, and are `value`, KnownRules
    lost        its worker was lost; the workflow says so
    """

    kind: Literal[
        "value",
        "result",
        "failed",
        "raised",
        "deadline",
        "stalled",
        "cancelled",
        "misfit",
        "lost",
        "denied",
        "rules",
    ]
    value: Any = None
    error: str = ""
    """The type of the exception."""
    text: str = ""
    traceback: str = ""
    is_connection: bool = False
    """Whether the exception says that a connection was lost."""
    has_begun: bool = True
    used: list[Usage] = []
    """What it has used of models, with the prices that the worker knew."""


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, in the signal to the tree. `id`: under which the tree keeps its answer. One without an id was claimed
    by a workflow of former code, which gets the answer."""

    id: str = ""
    approval: str
    root: str
    kind: Literal["approve", "deny", "answer"]
    by: str
    at: str
    channel: str | None = None
    arguments: dict[str, Any] | None = None
    scope: Scope = "once"
    pattern: str | None = None
    until: datetime | None = None
    minutes: float | None = None
    reason: str | None = None
    value: Any = None
    batch: str | None = None

    @property
    def decision(self) -> Decision:
        match self.kind:
            case "approve":
                return Approve(
                    by=self.by,
                    arguments=self.arguments,
                    scope=self.scope,
                    pattern=self.pattern,
                    until=self.until,
                    minutes=self.minutes,
                )
            case "deny":
                return Deny(by=self.by, reason=self.reason, scope=self.scope, pattern=self.pattern)
            case _:
                return Answer(by=self.by, value=self.value)


def decision_fields(decision: Decision) -> dict[str, Any]:
    """Return the fields of a DecisionRequest that are the decision's own."""
    match decision:
        case Approve(by=by, arguments=arguments, scope=scope, pattern=pattern):
            edited = None if arguments is None else plain_of(dict(arguments), "an edited argument", exact=True)
            ends = {"until": decision.until, "minutes": decision.minutes}
            return {"kind": "approve", "by": by, "arguments": edited, "scope": scope, "pattern": pattern, **ends}
        case Deny(by=by, reason=reason, scope=scope, pattern=pattern):
            return {"kind": "deny", "by": by, "reason": reason, "scope": scope, "pattern": pattern}
        case _:
            value = plain_of(decision.value, "the answer", exact=True)
            return {"kind": "answer", "by": decision.by, "value": value}


def mark_of(kind: str | None, scope: str | None, pattern: str | None, value: Any) -> str:
    """Return what decisions that are the same have in common, unless one edits the arguments, which may be secret, or
    makes a rule that ends by itself."""
    return digest_of_value([kind, scope or "once", pattern, value])


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a tree. `id`: under which the tree keeps its answer. `text`: the reason of a cancel, a message,
    the id of the rule that is revoked, a Rescue, a Budget, a ForkNote, or when the decision of another tree was made
    whose rule releases what waits. `run`: the only run that is to be cancelled. `message`: the sender's id of a
    message."""

    id: str
    kind: Literal["cancel", "send", "add_rule", "revoke_rule", "rescue", "retry", "forked", "release", "raise_budget"]
    session: str
    by: str
    text: str | None = None
    rule: Rule | None = None
    run: int | None = None
    message: str | None = None


class ForkNote(msgspec.Struct, frozen=True, kw_only=True):
    """A fork that was taken of a tree, before entry `before` of its root."""

    fork: str
    before: int


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of a tree: position, session and event, the event as JSON text. `last`: the position of the last one.
    `earlier`: the run of the workflow that has entries after the position that was asked for; then there are none.

    They are sent compressed. As plain JSON the text of an event would have each quote in it escaped again, and the
    entry of a call, which has its result twice, be larger than what a server takes."""

    rows: list[tuple[int, str, str]]
    last: int
    earlier: str | None = None

    def compressed(self) -> bytes:
        return zlib.compress(msgspec.json.encode(self), 1)

    @classmethod
    def decompressed(cls, data: bytes) -> "Entries":
        return msgspec.json.decode(zlib.decompress(data), type=cls)


Rescue = Literal["park", "upgrade"]
"""A rescue asks a tree to go on in a new workflow: to park there (park), or to go on there with the workers' current
version (upgrade). The tree answers Moving, or parked if it is; a tree that is told to go on answers going on."""


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    """A tree is about to go on in a new workflow. `run`: that of the workflow which it leaves. `waits_for`: the
    tools and steps whose bodies run: it lets them end."""

    run: str
    waits_for: list[str]


def to_wire(document: msgspec.Struct) -> Any:
    return msgspec.to_builtins(document)


def from_wire(document: Any, type_: type[T]) -> T:
    return msgspec.convert(document, type_)


def plain_of(
    value: Any,
    what: str,
    largest: int = LARGEST_BYTES,
    *,
    exact: bool = False,
    hook: Callable[[Any], Any] | None = None,
) -> Any:
    """Return a value as plain JSON. Raises InvalidInput that names `what`, also for a value that is too large. `exact`
    and `hook` are as for `to_json`."""
    raw = to_json(value, what, exact=exact, hook=hook)
    check_size(raw, what, largest)
    return msgspec.json.decode(raw)


def check_size(raw: msgspec.Raw, what: str, largest: int) -> None:
    """Raise InvalidInput, which says what to do, for a value that is too large."""
    if len(raw) > largest:
        larger = (
            "" if largest > LARGEST_BYTES else ", or name a folder for large payloads (SUPERVISOR_TEMPORAL_PAYLOADS)"
        )
        raise InvalidInput(
            f"{what} has {len(raw)} bytes as JSON, and {largest} at most are kept: put it into a file or an object "
            f"store, and pass its name{larger}"
        )


_ERRORS: Final[Mapping[str, type[SupervisorError]]] = {
    each.__name__: each
    for each in (InvalidInput, UnknownAgent, NotFound, SessionConflict, NotEntitled, LimitExceeded, RunStopping)
}
"""The errors with which a worker refuses a command."""


def raise_error(document: Mapping[str, str]) -> NoReturn:
    """Raise the error that a worker has answered with."""
    raise _ERRORS.get(document["error"], ServerError)(document["text"])


def error_document(error: BaseException) -> Mapping[str, str]:
    return {"error": type(error).__name__, "text": str(error)}
