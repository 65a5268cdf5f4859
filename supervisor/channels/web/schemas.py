"""The types of requests and answers over HTTP. The documents in answers are those of core/documents.py. Their schemas
are derived from the values, so a field that is added to a value is in its schema, too.

The module has more than 400 lines because it has every body and every query.
"""

import inspect
import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, fields

from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.rows import Counts, Owner
from supervisor.core.schedules import ScheduleView
from supervisor.core.sessions.activity import Activity, Doing
from supervisor.core.usage import LARGEST, LARGEST_USD, UsageKind, UsageReport
from supervisor.core.values import (
    MOST_MINUTES,
    MOST_USES,
    AgentView,
    Approval,
    DecisionResult,
    Fork,
    HushedBy,
    JobView,
    LaterCall,
    Message,
    Option,
    OutcomeKind,
    Policy,
    Scope,
    SendResult,
    SessionStatus,
    SessionView,
    Vote,
)
from supervisor.seam.commands import MOST_HUSHED

SessionId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
ChannelName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_. -]{0,63}$")]
Limit = Annotated[int, Meta(ge=1, le=1000)]
MOST_ENTRIES: Final = 5000
"""An answer with a tree reads no further journal once it has this many entries."""
Cursor = Annotated[str, Meta(max_length=100)]
Instant = Annotated[datetime, Meta(tz=True)]
"""A time in UTC. Its schema says that it is one."""
_RULES: Final = r" \([A-Z]\d+\)"
"""Codes of guarantees in docstrings, which readers of the API do not know."""


class RequestFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query or the body of a request. An unknown field is an error."""


class BudgetBody(RequestFields, frozen=True, kw_only=True):
    """What a session and everything below it may spend before a person is asked: dollars, tokens, requests to models,
    calls of tools. null: no limit. `on_exhausted`: ask a person, or end the run."""

    usd: Annotated[float, Meta(ge=0, le=LARGEST_USD)] | None = None
    tokens: Annotated[int, Meta(ge=0, le=LARGEST)] | None = None
    requests: Annotated[int, Meta(ge=0, le=LARGEST)] | None = None
    calls: Annotated[int, Meta(ge=0, le=LARGEST)] | None = None
    on_exhausted: Literal["ask", "end"] = "ask"

    def made(self) -> Budget:
        return Budget(**asdict(self))


class StartBody(RequestFields, frozen=True, kw_only=True):
    """Start an agent. `session`: the id of the new session; if that session exists, nothing is started and the answer
    is 200. `input`: the agent gets its default if this is left out.
    `budget`: of the session and everything below it, over all its turns."""

    agent: str
    input: Any = msgspec.UNSET
    session: SessionId | None = None
    budget: BudgetBody | None = None


class Started(msgspec.Struct, frozen=True):
    """A run of a session: the session's id and the number of the run, from 1."""

    id: str
    run: int


class ForkBody(RequestFields, frozen=True, kw_only=True):
    """Fork a tree. `before`: the number of an entry in the session's journal, from 1. `session`: the id of the new
    root; a repeated request with the same id makes one fork. `version`: the version of the root's code; null: the
    current one.
    """

    before: Annotated[int, Meta(ge=1, le=2**53)]
    session: SessionId | None = None
    version: str | None = None


MessageId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")]


class MessageBody(RequestFields, frozen=True, kw_only=True):
    """A message to a session. If the whole message is a chat word, it decides. A chat word without an id decides only
    approvals that were shown before `shown_before`, the time when the client last looked (default: now). With `decides`
    false, the text is sent even if it is a chat word. `message`: an id of the client's own. The same message again
    under it arrives once, and decides nothing anew; another one under it is a conflict.

    `shown`: the ids of the approvals that the client itself has shown; only those count that this server has given to
    the person. `channel`: where the person writes, for the audit trail. Then only cards that were posted there count,
    and the text may answer a question that was shown there."""

    text: Annotated[str, Meta(min_length=1)]
    decides: bool = True
    shown_before: Instant | None = None
    shown: list[str] | None = None
    channel: ChannelName | None = None
    message: MessageId | None = None


Uses = Annotated[int, Meta(ge=1, le=MOST_USES)]
Minutes = Annotated[float, Meta(gt=0, le=MOST_MINUTES)]


class SaidDecision(RequestFields, frozen=True, kw_only=True):
    """The decision of one person, as its request says it."""

    decision: Literal["approve", "deny", "answer"]
    scope: Scope = "once"
    pattern: str | None = None
    uses: Uses | None = None
    until: Instant | None = None
    minutes: Minutes | None = None
    arguments: dict[str, Any] | None = None
    seen: str | None = None
    reason: str | None = None
    value: Any = msgspec.UNSET


ApprovalIds = Annotated[list[str], Meta(min_length=1, max_length=MOST_HUSHED)]


class AcknowledgeBody(RequestFields, frozen=True, kw_only=True):
    """The person is on these approvals. `channel`: where the person says so, for the audit trail."""

    approvals: ApprovalIds
    channel: ChannelName = "web"


class SnoozeBody(RequestFields, frozen=True, kw_only=True):
    """The person hears nothing of these approvals until an instant."""

    approvals: ApprovalIds
    until: Instant
    channel: ChannelName = "web"


class Hushed(msgspec.Struct, frozen=True):
    """The ids of those that wait and that the person may decide."""

    approvals: tuple[str, ...]


class DecisionBody(SaidDecision, frozen=True, kw_only=True):
    """The decision of one person. `approve` takes `scope` and `pattern`, which are one of the approval's `options`, and
    `arguments`, which replace all arguments of the call, with `seen`: the code of their evidence, which the result
    `unseen` of the same decision names. `uses` ends what it allows after so many later calls, `until` at an instant,
    and `minutes` so many minutes after the decision; the scope is then `session`, unless it is `always`. `deny` takes a
    `reason`, which the agent sees; and `scope` and `pattern`, for later calls. `answer` takes the `value` that answers
    the question. `channel`: where the person decides, for the audit trail."""

    channel: ChannelName = "web"


class BatchedDecision(SaidDecision, frozen=True, kw_only=True):
    """A decision in a batch. `approval`: its id. `digest`: that of the approval as you were shown it; one with another
    digest stays pending."""

    approval: str
    digest: str | None = None


class BatchBody(RequestFields, frozen=True, kw_only=True):
    """Decisions of one person on several calls. Each counts by itself. `batch`: its id, for the audit trail; null: a
    new one. `channel`: where the person decides, for the audit trail."""

    decisions: Annotated[list[BatchedDecision], Meta(max_length=1000)]
    channel: ChannelName = "web"
    batch: Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9._-]{0,63}$")] | None = None


class RevealBody(RequestFields, frozen=True, kw_only=True):
    """Ask to see the credentials of a call. `channel`: where they are shown, for the audit trail."""

    channel: ChannelName = "web"


class Revealed(msgspec.Struct, frozen=True):
    """The arguments of a call, with credentials; arguments that the tool declares secret are masked."""

    arguments: Any


class ApproveBody(RequestFields, frozen=True, kw_only=True):
    """Approve the pending approval of a session. `approval`: its id; needed if several are pending, or if you were not
    shown it before."""

    approval: str | None = None
    scope: Scope = "once"
    pattern: str | None = None
    uses: Uses | None = None
    until: Instant | None = None
    minutes: Minutes | None = None
    arguments: dict[str, Any] | None = None
    seen: str | None = None


class CancelBody(RequestFields, frozen=True, kw_only=True):
    """Cancel a session. `run`: do nothing unless the run with this number, from 1, is the open one; null: whichever is
    open."""

    reason: str | None = None
    run: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class RuleBody(RequestFields, frozen=True, kw_only=True):
    """A standing decision. `session`: the rule holds in the tree of this session; null: in the whole store.
    `unreviewed`: also allow a prefix that is not among the reviewed ones. `pending`: it also decides the calls that
    wait and that it covers. `uses` and `until`: an allow ends after so many calls, or at this instant."""

    kind: Policy
    tool: str
    pattern: str | None = None
    session: str | None = None
    unreviewed: bool = False
    pending: bool = False
    uses: Uses | None = None
    until: Instant | None = None


class SessionQuery(RequestFields, frozen=True, kw_only=True):
    """`after`: `next` of the previous page. `newest`: list the newest session first."""

    status: SessionStatus | None = None
    agent: str | None = None
    root: str | None = None
    open: bool | None = None
    newest: bool = False
    limit: Limit = 100
    after: Cursor | None = None


class ApprovalQuery(RequestFields, frozen=True, kw_only=True):
    """`status`: all approvals, those that have ended, or those of one status; if it is not given, pending ones, or all
    that a search finds. `session`: only approvals of this session and of sessions below it. `text`: its words, or
    longer ones that begin so, stand in what was asked. `by`: who decided. `before`: asked before this instant.
    `newest`: list the newest first."""

    status: Literal["all", "ended", "pending", "approved", "denied", "answered", "expired", "withdrawn"] | None = None
    session: str | None = None
    text: str | None = None
    by: str | None = None
    tool: str | None = None
    agent: str | None = None
    before: Instant | None = None
    newest: bool = False
    limit: Limit = 100
    after: Cursor | None = None


class JournalQuery(RequestFields, frozen=True, kw_only=True):
    """`tree`: also list the journals of all sessions below it."""

    tree: bool = False
    limit: Limit = 100
    after: Cursor | None = None


class PageQuery(RequestFields, frozen=True, kw_only=True):
    """`after`: `next` of the previous page."""

    limit: Limit = 100
    after: Cursor | None = None


class TreeQuery(RequestFields, frozen=True, kw_only=True):
    """`entries`: the session's own journal is always complete; journals below it follow until the answer has this many
    entries."""

    entries: Annotated[int, Meta(ge=0, le=MOST_ENTRIES)] = MOST_ENTRIES


class JobQuery(RequestFields, frozen=True, kw_only=True):
    """`running`: only jobs that run; with false, also those that have ended."""

    running: bool = True


class UsageQuery(RequestFields, frozen=True, kw_only=True):
    """`session`: only what this session and everything below it has spent. `by`: what the parts are of."""

    session: SessionId | None = None
    by: UsageKind = "agent"


class ActivityQuery(RequestFields, frozen=True, kw_only=True):
    """`session`: only the tree of this session; without it, every open tree. `wholly`: read all of it for this answer,
    even if that takes long."""

    session: str | None = None
    after: Cursor | None = None
    limit: Limit = 1000
    wholly: bool = False


class InboxQuery(RequestFields, frozen=True, kw_only=True):
    """`after`: like the header Last-Event-ID, for clients that cannot set it on their first request. `session` and
    `run`: only approvals of this run; an event `end` follows when the run has ended. `brief`: an event has only `id`,
    `status`, `digest`, `votes` and `acknowledged`; it shows nothing of what would run."""

    after: Cursor | None = None
    session: str | None = None
    run: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    brief: bool = False


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a client that has an approval has to know of its change: whether to read it again."""

    id: str
    status: str
    digest: str
    votes: tuple[Vote, ...]
    acknowledged: HushedBy | None


class StreamQuery(RequestFields, frozen=True, kw_only=True):
    """`after`: like the header Last-Event-ID, for clients that cannot set it on their first request. `stay`: with
    false, an event `end` follows when the run has ended. `shows`: the journal, the text that the agent is writing
    (events `text`, the whole text each time, empty once the agent has said it; without an id), or both."""

    after: Cursor | None = None
    stay: bool = True
    shows: Literal["journal", "text", "all"] = "journal"


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The API and its version, the store, and the person of the token. `cursor`: the position of this instant, for an
    event stream; `now`: the server's time."""

    api: int
    version: str
    store: str
    person: str
    roles: tuple[str, ...]
    now: Instant
    cursor: str


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok", "starting", "stopping", "broken"]
    detail: str | None = None
    held: bool | None = None
    """Whether the system keeps the commands of agents on this machine from deciding; with what that means in `note`."""
    note: str | None = None


class Readiness(Health, frozen=True):
    """`channels_down`: the channels on which people cannot be reached now; the log says why. They do not change the
    status."""

    channels_down: tuple[str, ...] = ()


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An error (RFC 9457). `code` is for programs: the name of the exception in snake case, else that of the status."""

    type: str
    title: str
    status: int
    code: str
    detail: str


_TIMES: Final[dict[Any, Any]] = {datetime: Instant, datetime | None: Instant | None}
"""Types of fields, and those of documents."""


def _document(kind: type[msgspec.Struct], **changed: Any) -> Any:
    """Return the type of a value's document. Every field is required; `changed` gives fields another type, or ... to
    leave them out."""
    made = [
        (field.name, changed.get(field.name, _TIMES.get(field.type, field.type)))
        for field in fields(kind)
        if changed.get(field.name) is not ...
    ]
    about = {"__doc__": re.sub(_RULES, "", inspect.cleandoc(kind.__doc__ or ""))}
    return msgspec.defstruct(kind.__name__, made, kw_only=True, frozen=True, namespace=about)


def list_of(kind: Any) -> Any:
    """Return the type of a list of documents. Their type is made at run time, so a type checker does not know it."""
    return list[kind]


class SessionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How the last run of a session ended. `value`: what the agent returned. `cause`: why, null for a success."""

    kind: OutcomeKind
    value: Any
    cause: str | None


ApprovalDocument = _document(Approval, options=list_of(_document(Option)), votes=list_of(_document(Vote)), position=...)
SessionDocument = _document(
    SessionView,
    pending_approvals=list_of(ApprovalDocument),
    outcome=SessionOutcome | None,
    position=...,
)
SendResultDocument = _document(SendResult, waiting_for=list_of(ApprovalDocument))
DecisionResultDocument = _document(DecisionResult)
Batch: Any = msgspec.defstruct("Batch", [("results", list_of(DecisionResultDocument))], kw_only=True, frozen=True)
"""The results of a batch, in the order of its decisions."""
RuleDocument = _document(Rule)
ScheduleDocument = _document(ScheduleView)
ChatResultDocument = _document(
    ChatResult,
    sent=SendResultDocument | None,
    approvals=list_of(ApprovalDocument),
    results=list_of(DecisionResultDocument),
    rules=list_of(RuleDocument),
    not_shown=list_of(ApprovalDocument),
    once=list_of(ApprovalDocument),
)
MessageDocument = _document(Message)
AgentDocument = _document(AgentView)
JobDocument = _document(JobView)
OwnerDocument = _document(Owner)
CountsDocument = _document(Counts)
UsageDocument = _document(UsageReport)
DoingDocument = _document(Doing, approval=ApprovalDocument | None)
ActivityDocument = _document(Activity, doing=list_of(DoingDocument))
ForkDocument = _document(Fork, later_calls=list_of(_document(LaterCall)))
OutcomeDocument: Any = msgspec.defstruct(
    "Outcome",
    [("kind", OutcomeKind), ("cause", str | None), ("partial", Any), ("said", str), ("value", Any)],
    kw_only=True,
    frozen=True,
)
RunDocument: Any = msgspec.defstruct(
    "Run", [("session", str), ("run", int), ("outcome", OutcomeDocument | None)], kw_only=True, frozen=True
)


class EventDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A journal entry. Its further fields depend on `event`."""

    position: int
    session: str
    event: str
    at: Instant


TreeDocument: Any = msgspec.defstruct(
    "Tree",
    [
        ("sessions", list_of(SessionDocument)),
        ("entries", list[EventDocument]),
        ("cursor", str),
        ("left_out", int),
    ],
    kw_only=True,
    frozen=True,
)


def page_of(kind: Any, name: str) -> Any:
    """Return the type of a page. `next`: the value of `after` for the next page, null on the last page. `cursor`: the
    position at which the page was read, from which an event stream can continue."""
    return msgspec.defstruct(
        name, [("items", list_of(kind)), ("next", str | None), ("cursor", str)], kw_only=True, frozen=True
    )
