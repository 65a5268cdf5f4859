"""Values that people and agents get: decisions, approvals, results and outcomes. Frozen, with no behaviour but reading.

A decision is a value, not a boolean: it names the person and may carry a scope, arguments or a reason. Kinds are plain
strings, because they are written to disk, to JSON and to models unchanged.

The module is longer than 400 lines because all values that people and programs get are in one place.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from supervisor.core.blocking import Block
from supervisor.core.errors import InvalidInput, RunAbandoned, RunCancelled, RunError, RunFailed, RunStalled
from supervisor.core.limits import LimitWait
from supervisor.core.usage import NOTHING, Spent

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

OutcomeKind = Literal["succeeded", "failed", "cancelled", "stalled", "abandoned"]
ResultKind = Literal["ok", "error", "denied", "interrupted"]
Policy = Literal["allow", "ask", "deny"]
"""What happens to a call: it runs, a person is asked, or it is denied."""
ApprovalStatus = Literal["pending", "approved", "denied", "answered", "expired", "withdrawn"]
EvidenceKind = Literal["text", "table", "diff", "claim"]
Urgency = Literal["low", "normal", "high"]
URGENCIES: Final[tuple[Urgency, ...]] = get_args(Urgency)
"""How soon people hear of an approval again, the lowest first."""
ReportKind = Literal["text", "thought", "plan", "call", "result"]
"""What an agent reports of itself: what it said, thought and plans, and the calls that it made and their results."""
Scope = Literal["once", "session", "always"]
"""How far a decision goes: this call, the root session's tree, or everything in the store."""
HOW_LONG: Final[dict[Scope, str]] = {"once": "once", "session": "for the session", "always": "always"}
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
SessionStatus = Literal["active", "waiting_approval", "blocked", "completed", "error"]
"""`blocked` has precedence over `waiting_approval`, and shows on every session above the blocked one (R1)."""

LOST: Final = "[tool execution lost — session was interrupted]"
"""The synthesised result of a call that was executing when its process died (T2)."""

NOT_ASKED_AGAIN: Final = "not_asked_again"
"""The reason in the result of an approved call for which the program that asked for it has not asked again."""


class Approve(msgspec.Struct, frozen=True, kw_only=True):
    """Yes to one call. `arguments` replaces all of the call's arguments; they are validated again (A8).

    `scope`: this call only; or, from now on, the calls that `pattern` covers in the root session's tree, or everywhere.
    Scope and pattern must have been offered (`Approval.options`); None: the exact pattern. Edited arguments were not
    offered: once only.

    `uses`, `until`, `minutes`: only so many later calls run without asking, or only those that are asked for before an
    instant, or within so many minutes from the decision on. The scope is then `session`, unless it is `always`.
    """

    by: str
    arguments: Mapping[str, Any] | None = None
    scope: Scope = "once"
    pattern: str | None = None
    seen: str | None = None
    """Of edited arguments of a call with a preview: the code of the evidence of them that the person has seen
    (`DecisionResult.seen`). Without it nothing is decided, and the result has the evidence (A18)."""
    uses: int | None = None
    until: datetime | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.scope == "once" and (self.uses, self.until, self.minutes) != (None, None, None):
            msgspec.structs.force_setattr(self, "scope", "session")


class Deny(msgspec.Struct, frozen=True, kw_only=True):
    """No to one call, or no answer to a question. The agent sees `reason` as the call's result (A8).

    `scope`: this call only; or, from now on, the calls that `pattern` covers in the root session's tree, or everywhere:
    they are denied without asking. None: exactly this call. A question can be denied only once.
    """

    by: str
    reason: str | None = None
    scope: Scope = "once"
    pattern: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question: one of its choices, a value that fits its schema, or text."""

    value: Any
    by: str


Decision = Approve | Deny | Answer


class DecisionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a decision (A3): whether it counts, and if not, which decision stands."""

    kind: Literal["accepted", "already", "conflict", "closed", "unknown", "recorded", "refused", "counted", "unseen"]
    """counted: a vote that is on disk; the approval waits for `missing` more people. refused: in a batch only, where it
    stops no other; `why` says what to do instead. unseen: of edited arguments, whose `evidence` is to be seen first;
    the same decision with `seen` counts."""
    approval: str
    status: ApprovalStatus | None = None
    by: str | None = None
    decided_at: datetime | None = None
    rule: str | None = None
    """The id of the rule that the standing decision made, or found already in place."""
    rules: tuple[str, ...] = ()
    """The ids of all of them, if there are several: one for each line of the pattern. Each is revoked by itself."""
    released: tuple[str, ...] = ()
    """Other approvals of the same tree that the rule has decided, too."""
    running: bool = False
    """Whether a process runs the tree now. If not, a decision that counts is kept until a process does."""
    blocked: bool = False
    """Today's code cannot follow the session that asked (R1): the decision counts, and takes effect when code can."""
    batch: str | None = None
    """The id of the batch in which it was decided; the audit trail has it, too."""
    missing: int = 0
    """How many other people must decide the same, after a vote that was counted."""
    why: str = ""
    """Why the decision was not taken although the approval waits."""
    evidence: "Evidence | None" = None
    """Of edited arguments: what their preview has found out. None: it is not there yet; decide again."""
    seen: str = ""
    """The code of that evidence, for `Approve.seen`."""

    @property
    def is_accepted(self) -> bool:
        """Whether the decision counts: it was the first, repeats the first, or was recorded to take effect later."""
        return self.kind in ("accepted", "already", "recorded")


class Option(msgspec.Struct, frozen=True, gc=False):
    """One way in which an approval may be granted."""

    scope: Scope
    pattern: str | None = None


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """What is offered first: to allow so many later calls that `pattern` covers, or those of so many minutes, in the
    tree of the root session."""

    pattern: str
    uses: int | None = None
    minutes: int | None = None


class HushedBy(msgspec.Struct, frozen=True):
    """A person who is on an approval, or wants to hear nothing of it, until an instant."""

    by: str
    until: datetime


class Vote(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One person's yes to a call that needs several people. `digest`: of what would run and for how long; that of the
    approval for the call as it was asked. `quorum`: how many people must say yes to the same."""

    by: str
    digest: str
    quorum: int


def code_of_evidence(digest: str, taken_at: datetime) -> str:
    """Return the code by which a person says which evidence they have seen: of these arguments, of this instant."""
    return f"{digest[:6]}-{int(taken_at.timestamp() * 1_000_000) % 16**7:07x}"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the preview of a call has found out (A18), or, as a claim, what the agent says that the call would do.
    `digest`: of the arguments of which it was taken. `failure`: why there is no text; people may decide all the
    same."""

    digest: str
    taken_at: datetime
    kind: EvidenceKind = "text"
    text: str = ""
    failure: str = ""

    @property
    def code(self) -> str:
        """What a person says who has seen it, and no other evidence (`Approve.seen`)."""
        return code_of_evidence(self.digest, self.taken_at)


class Approval(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a person is asked, about one call or by an agent in its own right, and its state. Every surface shows these
    fields; they are a JSON contract."""

    id: str
    session: str
    root_session: str
    path: tuple[str, ...]
    """Names of the agents from the root to the one that asks."""
    agent: str
    operation: str
    tool: str
    """Empty for a question, as `arguments` is null for it."""
    arguments: Any
    """The call's arguments with defaults filled in, or as the approver edited them."""
    digest: str
    """Of the arguments as they are shown."""
    cwd: str
    options: tuple[Option, ...]
    requester: str
    requester_roles: tuple[str, ...] = ()
    """The roles that the requester had when the session was started, where the program knew people and their roles."""
    status: ApprovalStatus
    created_at: datetime
    expires_at: datetime | None = None
    kind: Literal["call", "question"] = "call"
    question: str | None = None
    choices: tuple[str, ...] | None = None
    """One of them is the answer; null if the answer is a value that fits `schema`, or free text."""
    schema: dict[str, Any] | None = None
    """JSON schema of the answer. Of a call that may be edited: schemas of its arguments (`properties`), as far as their
    types say more than their values do: the others are texts and bools. Other arguments must fit them."""
    answer: Any = None
    """The answer to the question."""
    decision: Literal["approve", "deny", "answer"] | None = None
    by: str | None = None
    reason: str | None = None
    scope: Scope | None = None
    """How far the approval counts; with `pattern`, and the id of the `rule`, if that is more than once."""
    pattern: str | None = None
    rule: str | None = None
    rules: tuple[str, ...] = ()
    """The ids of all its rules, one for each line of the pattern; empty if there is one at most."""
    uses: int | None = None
    until: datetime | None = None
    """How many later calls the approval allows, and until when; null: without such an end."""
    allowances: tuple[Allowance, ...] = ()
    """Of `options`, those that surfaces offer first, each with an end of its own."""
    through: str | None = None
    """The approval whose decision made the rule that decided this one, too; `by` made that decision."""
    channel: str | None = None
    """Where it was decided; null: by a program, or not yet."""
    decided_at: datetime | None = None
    edited: bool = False
    """Whether it was approved with other arguments than were asked; `arguments` are those that run."""
    shown: tuple[str, ...] = ()
    """Channels that show a card of it; empty while no card could be posted (A11)."""
    secret: tuple[str, ...] = ()
    """Names of the arguments whose values are masked."""
    masked: tuple[str, ...] = ()
    """Names of the arguments in which credentials are masked: texts of well-known forms, such as tokens. The effect has
    them, and an operator may ask to see them."""
    editable: bool = True
    """Whether it may be approved with other arguments; false for a question."""
    arguments_schema: dict[str, Any] | None = None
    """JSON schema that other arguments must fit, in the words that this package checks, if the tool came with one."""
    command: str | None = None
    """The name of the argument that is a shell command."""
    claims: tuple[str, ...] = ()
    """Names of the arguments that are the agent's own words about the call: rules do not see them."""
    defaults: tuple[str, ...] = ()
    """Names of the arguments that have the default value of the tool's parameter. Cards show them last."""
    default_values: dict[str, Any] | None = None
    """The default values of other arguments. An edit may leave out an argument that has a default value."""
    why: str = ""
    """Why a person is asked, in our words: the rule that asks, or what no rule could allow."""
    note: str = ""
    """What the person should know, in our words: that the same call was denied just before."""
    because: str = ""
    """The caller's own words to the person who decides: a claim, which rules do not see."""
    urgency: Urgency | None = None
    """The most urgency that the agent claims. It lowers what rules and the configuration say, and never raises it."""
    inputs: tuple[str, ...] = ()
    """The inputs of the sub-agents at the end of `path`, each as text: agents of one name are told apart by them."""
    reminded_at: datetime | None = None
    """When people were last reminded of it."""
    escalated_to: tuple[str, ...] = ()
    """People who may decide it, too, since it stayed undecided for so long (A10)."""
    step: int = 0
    """The last step of the escalation that came; 0: none."""
    told_in: tuple[str, ...] = ()
    """Where that step tells people of it, next to the conversations that have its card."""
    acknowledged: HushedBy | None = None
    """Who is on it: until then no step comes."""
    snoozed: tuple[HushedBy, ...] = ()
    """People who hear nothing of it, each until an instant."""
    votes: tuple[Vote, ...] = ()
    """Who has said yes so far, while it needs more people; each person has one vote (A17)."""
    with_votes_of: tuple[str, ...] = ()
    """The people whose votes made the decision together with that of `by`."""
    evidence: tuple[Evidence, ...] = ()
    """What the call's preview has found out, while it is pending: of the arguments as they were asked, and as people
    would edit them."""
    evidence_due: datetime | None = None
    """Until when cards wait for the first of it; null: the call has no preview."""
    position: int = 0
    """Its position in the store; approvals are ordered by it. 0 over HTTP."""
    blocked: bool = False
    """Today's code cannot follow the session that asks, as far as this process knows (R1): a decision counts, and takes
    effect when code can."""


def unchanged(names: tuple[str, ...], asked: Any, edited: Any) -> tuple[str, ...]:
    """Return those of `names` whose arguments an edit leaves as they were asked."""
    if not (names and isinstance(asked, dict) and isinstance(edited, dict)):
        return ()
    encode = msgspec.json.encode  # so that 1 is not true
    return tuple(name for name in names if name in edited and encode(edited[name]) == encode(asked.get(name)))


HasPassed = Callable[[datetime], bool]
"""Whether an instant has passed, by the clock that counts."""


def as_of(approval: Approval, has_passed: HasPassed) -> Approval:
    """Return an approval as it is by a clock: from its expiry on it has expired, even if no process has journaled that
    yet (A10). `has_passed`: whether an instant has passed."""
    if approval.status != "pending" or approval.expires_at is None or not has_passed(approval.expires_at):
        return approval
    return replace(approval, status="expired", decided_at=approval.expires_at)


def filled_arguments(approval: Approval, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return edited arguments with the default values of those that they leave out."""
    found = dict(arguments)
    if isinstance(approval.arguments, Mapping):
        found = {name: approval.arguments[name] for name in approval.defaults if name in approval.arguments} | found
    return (approval.default_values or {}) | found


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call as a model emits it, for `Context.call`.

    `tool` is the name of one of the agent's `tools`. `arguments`: an object, or its JSON text, as most models emit it.
    Ids may repeat: each use is a call of its own.
    """

    id: str
    tool: str
    arguments: Mapping[str, Any] | str


class ToolResult(msgspec.Struct, Generic[T_co], frozen=True, kw_only=True):
    """The one answer to a tool call. `content` is text for people and models, `value` the typed value of an ok result.

    `details` always has `reason` (str or None) and `effect` (none, maybe, done), and what the tool adds (T8).
    """

    kind: ResultKind
    content: str
    value: T_co | None = None
    details: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def is_error(self) -> bool:
        """Whether it is not ok: a failure, a denial, or an interruption."""
        return self.kind != "ok"


class Outcome(msgspec.Struct, Generic[T_co], frozen=True, kw_only=True):
    """How a run ended. It never raises: `result()` of the run does.

    For a session that was imported and has not gone on since, `cause` says so.
    """

    kind: OutcomeKind
    cause: str | None = None
    """One sentence; None for a success."""
    partial: Any = None
    """The partial output of the run, as plain JSON values: what its agent gave to `save` last."""
    said: str = ""
    """The last 10,000 characters of what the agent has said by `send`, `report` and `stream`; empty for a success."""
    value: T_co | None = None
    """What the agent returned; None unless the run succeeded."""


def result_of(outcome: Outcome[T]) -> T:
    """Return the value of a run that succeeded; raises the RunError of its kind for every other run."""
    if outcome.kind != "succeeded":
        raise _FAILURES[outcome.kind](outcome.kind, outcome.cause, outcome.partial, outcome.said)
    return outcome.value  # type: ignore[return-value] # None is a value of T where the agent returns None


_FAILURES: Final[dict[str, type[RunError]]] = {
    "failed": RunFailed,
    "stalled": RunStalled,
    "cancelled": RunCancelled,
    "abandoned": RunAbandoned,
}


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a session's transcript: a message to it or from it, or a question to people with its answer.

    Only imported sessions have `call` and `result`: what another program ran; `text` is arguments, or the content. An
    approval of a call has the name of its `tool`, and its operation as `call`.
    """

    kind: Literal["received", "sent", "approval", "question", "call", "result"]
    text: str
    at: datetime
    """When it was said; for an imported message, as far as its file tells."""
    by: str | None = None
    """Who said it, or who decided; None for the session itself, for what is still pending, and for imported messages,
    whose author is not known."""
    approval: str | None = None
    imported: bool = False
    """It comes from another program: nothing of it ran here, and no person decided it here."""
    tool: str | None = None
    call: str | None = None
    is_error: bool = False


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a message that was sent to a session (R7)."""

    kind: Literal["delivered", "kept", "begun"]
    """delivered: the agent was waiting for it; begun: a turn begins with it; kept: it is delivered later."""
    message: str
    session: str
    waiting_for: tuple[Approval, ...] = ()
    """What the session waits for before it reads the message: the oldest ones, 100 at most."""
    running: bool = True
    """False: no process runs the tree now; the message is kept until one does."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A background job (T6). The fields are a JSON contract."""

    job: str
    session: str
    state: Literal["running", "exited", "ended", "failed", "lost"]
    """ended: the supervisor ended it; failed: it could not begin; lost: it is gone, and how it ended is not known."""
    command: str
    host: str
    process: int
    """Its process id on `host`. With the start time, in seconds, it identifies one process and no later one."""
    process_started_at: float | None
    guard: int
    """The process that watches over everything that the job starts."""
    guard_started_at: float | None
    log: str
    """The path of the file that gets its output."""
    began_at: datetime
    exit_code: int | None = None
    signal: int | None = None
    duration: float | None = None
    """Seconds from its beginning to its end."""
    by: str | None = None
    """Who ended it."""
    keep: bool = False
    """Whether it outlives its session."""


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be started by its name. The fields are a JSON contract."""

    name: str
    description: str
    """The docstring of its declaration; empty if there is none."""
    input: dict[str, Any] | None
    """JSON schema of its input; null for an agent without an input. An empty schema accepts anything."""


class LaterCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a session that began after the place of a fork, or had no result by then: its effects remain, and the
    fork may repeat them."""

    session: str
    entry: int
    """The number, in its session, of the entry that requested it."""
    tool: str
    arguments: Any
    """As JSON values, with secrets masked."""
    started_at: datetime
    command: str | None = None
    """The name of the argument that is a shell command."""
    result: ResultKind | None = None
    """None: it has none, or the agent abandoned the call."""


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A new tree that begins with a copy of another one (R10)."""

    session: str
    """The id of its root."""
    source: str
    """The id of the root that was copied."""
    before: int
    """The first entry of the source's root that was not copied."""
    later_calls: tuple[LaterCall, ...] = ()
    """In the order in which they began."""


class SessionView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session as its users see it. `status` is derived; `pending_approvals` are its own and those below it."""

    id: str
    parent: str | None
    root: str
    agent: str
    path: tuple[str, ...]
    status: SessionStatus
    outcome: dict[str, Any] | None
    pending_approvals: tuple[Approval, ...]
    created_at: datetime
    ended_at: datetime | None
    owner: str | None = None
    """The process that runs its tree now, as "pid 12 on host since ..."; None if no process does."""
    running: bool = False
    """Whether it is open, and a process runs its tree now. An open session that none runs gets no further until one
    does (R2), also after a decision."""
    position: int = 0
    """The position of its first entry in the store; sessions are ordered by it. 0 over HTTP."""
    run: int = 1
    """The number of its latest run, from 1."""
    blocked: Block | None = None
    """Why today's code cannot follow this session itself; a session above it only has the status."""
    usage: Spent = NOTHING
    """What the session and everything below it have spent on models, in all its runs (B1)."""
    own_usage: Spent = NOTHING
    """What it has spent itself."""
    limit: LimitWait | None = None
    """The place of a limit that it waits for, as far as this process or the journal knows (L3)."""


def decider_of(decision: Decision) -> str:
    """Return the name of the person who decides. Raises InvalidInput for what is no decision, or has no name (A4)."""
    if not isinstance(decision, Approve | Deny | Answer):
        raise InvalidInput(
            f"{decision!r:.100} is no decision, so nothing is decided: give Approve(by=...), Deny(by=...) or "
            "Answer(by=..., value=...)"
        )
    if isinstance(decision, Approve):
        check_bounds(decision.uses, decision.until, decision.minutes)
    texts = {"by": decision.by}
    if not isinstance(decision, Answer):
        texts |= {"scope": decision.scope, "pattern": decision.pattern or ""}
    if isinstance(decision, Deny):
        texts["reason"] = decision.reason or ""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise InvalidInput(f"{name} of a decision is a text, not {text!r:.100}")
    if not isinstance(decision, Answer) and decision.scope not in SCOPES:
        raise InvalidInput(f"{decision.scope!r} is no scope of a decision: it is one of {', '.join(SCOPES)}")
    return check_identity(decision.by)


MOST_USES: Final = 1000
MOST_MINUTES: Final = 366 * 24 * 60


def check_bounds(uses: object, until: object, minutes: object = None) -> None:
    """Raise InvalidInput for an end of an allowance that is none."""
    if uses is not None and (type(uses) is not int or not 1 <= uses <= MOST_USES):
        raise InvalidInput(f"uses={uses!r:.40}: give a whole number of calls, from 1 to {MOST_USES}")
    if until is not None and (not isinstance(until, datetime) or until.tzinfo is None):
        raise InvalidInput(f"until={until!r:.60}: give an instant with its time zone, such as datetime.now(UTC) + ...")
    if minutes is None:
        return
    if until is not None:
        raise InvalidInput("until and minutes both say when an allowance ends: give one of them")
    if type(minutes) not in (int, float) or not 0 < minutes <= MOST_MINUTES:  # type: ignore[operator] # a number
        raise InvalidInput(f"minutes={minutes!r:.40}: give a number above 0, and {MOST_MINUTES} at most")


def check_word(what: str, text: str) -> str:
    """Return a text for an entry of the journal. Raises InvalidInput for another value: no process could read it."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is a text, not {text!r:.40}")
    return text


def check_identity(by: str) -> str:
    """Return the identity of a person who decides; raises InvalidInput for an empty one (A4)."""
    if not check_word("the name of a person", by).strip():
        raise InvalidInput("a decision needs the name of the person who makes it: by=... must not be empty")
    return by
