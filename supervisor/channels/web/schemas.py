"""What goes in and out over HTTP, as types. Documents are those of core/documents.py; their schemas are made from the
values themselves, so that a field added there is in the schema, too.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import fields

from supervisor.core.activity import Activity, Doing
from supervisor.core.chat_words import ChatResult
from supervisor.core.rows import Counts, Owner
from supervisor.core.rules import Rule
from supervisor.core.values import (
    AgentView,
    Approval,
    DecisionResult,
    Fork,
    JobView,
    Message,
    OutcomeKind,
    Policy,
    Scope,
    SendResult,
    SessionStatus,
    SessionView,
)

SessionId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Limit = Annotated[int, Meta(ge=1, le=1000)]
MOST_ENTRIES: Final = 5000
"""Entries of one tree after which no further journal is read for an answer."""
Cursor = Annotated[str, Meta(max_length=100)]


class In(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request's query or body: an unknown field is an error."""


class StartBody(In, frozen=True, kw_only=True):
    """Start an agent. With `session`, again and again is once: 200 if that session was there. `input`: left out, the
    agent's default."""

    agent: str
    input: Any = msgspec.UNSET
    session: SessionId | None = None


class Started(msgspec.Struct, frozen=True):
    """A run of a session, counted from 1."""

    id: str
    run: int


class ForkBody(In, frozen=True, kw_only=True):
    """`before`: the number of an entry in the journal of the session, from 1. `session`: the id of the new root; with
    it, again and again is once. `version`: of the root's code; null: the current one."""

    before: Annotated[int, Meta(ge=1, le=2**53)]
    session: SessionId | None = None
    version: str | None = None


class MessageBody(In, frozen=True, kw_only=True):
    """Say something. A chat word decides, as the whole message; a bare one only what was shown before `shown_before`
    (default: now), which is when the client last looked. `decides`: false: it is sent, whatever it says."""

    text: Annotated[str, Meta(min_length=1)]
    decides: bool = True
    shown_before: Annotated[datetime, Meta(tz=True)] | None = None


class DecisionBody(In, frozen=True, kw_only=True):
    """One person's answer. Of an approval: `scope` and `pattern`, one of its `options`, and `arguments`, which
    replace all of the call's. Of a denial: `reason`, which the agent sees. Of an answer to a question: `value`."""

    decision: Literal["approve", "deny", "answer"]
    scope: Scope = "once"
    pattern: str | None = None
    arguments: dict[str, Any] | None = None
    reason: str | None = None
    value: Any = msgspec.UNSET


class ApproveBody(In, frozen=True, kw_only=True):
    """Approve what is pending in a session. `approval`: which, where several are, or you have not looked at it."""

    approval: str | None = None
    scope: Scope = "once"
    pattern: str | None = None
    arguments: dict[str, Any] | None = None


class CancelBody(In, frozen=True, kw_only=True):
    reason: str | None = None


class RuleBody(In, frozen=True, kw_only=True):
    """A standing decision. `session`: for its whole tree; null: everywhere. `unreviewed`: allow a prefix that
    that is not reviewed, too."""

    kind: Policy
    tool: str
    pattern: str | None = None
    session: str | None = None
    unreviewed: bool = False


class SessionQuery(In, frozen=True, kw_only=True):
    """`after`: the `next` of the page before. `newest`: the newest session first."""

    status: SessionStatus | None = None
    agent: str | None = None
    root: str | None = None
    open: bool | None = None
    newest: bool = False
    limit: Limit = 100
    after: Cursor | None = None


class ApprovalQuery(In, frozen=True, kw_only=True):
    """`status`: pending ones, or all. `session`: asked by it or below it."""

    status: Literal["pending", "all"] = "pending"
    session: str | None = None
    limit: Limit = 100
    after: Cursor | None = None


class JournalQuery(In, frozen=True, kw_only=True):
    """`tree`: the journals of all sessions below it, too."""

    tree: bool = False
    limit: Limit = 100
    after: Cursor | None = None


class PageQuery(In, frozen=True, kw_only=True):
    limit: Limit = 100
    after: Cursor | None = None


class TreeQuery(In, frozen=True, kw_only=True):
    """`entries`: the session's own journal is there as a whole; those below it follow until there are so many."""

    entries: Annotated[int, Meta(ge=0, le=MOST_ENTRIES)] = MOST_ENTRIES


class JobQuery(In, frozen=True, kw_only=True):
    """`running`: false: those that have ended, too."""

    running: bool = True


class ActivityQuery(In, frozen=True, kw_only=True):
    """`session`: of whose tree; without one, every open tree. `wholly`: all of it now, however much that is."""

    session: str | None = None
    limit: Limit = 1000
    wholly: bool = False


class InboxQuery(In, frozen=True, kw_only=True):
    """`after`: as the header Last-Event-ID, for clients that cannot set one the first time. `session` and `run`: only
    what this run asks while it lasts; then an event `end` comes."""

    after: Cursor | None = None
    session: str | None = None
    run: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class StreamQuery(In, frozen=True, kw_only=True):
    """`after`: as the header Last-Event-ID, for clients that cannot set one the first time. `stay`: false: an event
    `end` comes when the run has ended."""

    after: Cursor | None = None
    stay: bool = True


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """Who serves what to whom. `cursor`: of now; `now`: the server's time."""

    api: int
    version: str
    store: str
    person: str
    roles: tuple[str, ...]
    now: datetime
    cursor: str


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok", "starting", "stopping", "broken"]
    detail: str | None = None


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 9457. `code` is what programs look at: an exception's name in snake case, or the status's."""

    type: str
    title: str
    status: int
    code: str
    detail: str


def _document(kind: type[msgspec.Struct], **changed: Any) -> Any:
    """Return the type of a value's document: its fields, all of them always there, but for those that are changed."""
    made = [
        (field.name, changed.get(field.name, field.type))
        for field in fields(kind)
        if changed.get(field.name) is not ...
    ]
    return msgspec.defstruct(kind.__name__, made, kw_only=True, frozen=True)


def list_of(kind: Any) -> Any:
    """Return the type of a list of documents, whose type is made here and unknown to a type checker."""
    return list[kind]


ApprovalDocument = _document(Approval, position=...)
SessionDocument = _document(SessionView, pending_approvals=list_of(ApprovalDocument), position=...)
SendResultDocument = _document(SendResult, waiting_for=list_of(ApprovalDocument))
DecisionResultDocument = _document(DecisionResult)
RuleDocument = _document(Rule)
ChatResultDocument = _document(
    ChatResult,
    sent=SendResultDocument | None,
    approvals=list_of(ApprovalDocument),
    results=list_of(DecisionResultDocument),
    rules=list_of(RuleDocument),
    not_shown=list_of(ApprovalDocument),
)
MessageDocument = _document(Message)
AgentDocument = _document(AgentView)
JobDocument = _document(JobView)
OwnerDocument = _document(Owner)
CountsDocument = _document(Counts)
DoingDocument = _document(Doing, approval=ApprovalDocument | None)
ActivityDocument = _document(Activity, doing=list_of(DoingDocument))
ForkDocument = _document(Fork)
OutcomeDocument: Any = msgspec.defstruct(
    "Outcome",
    [("kind", OutcomeKind), ("cause", str | None), ("partial", Any), ("value", Any)],
    kw_only=True,
    frozen=True,
)
RunDocument: Any = msgspec.defstruct(
    "Run", [("session", str), ("run", int), ("outcome", OutcomeDocument | None)], kw_only=True, frozen=True
)


class EventDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A journal entry; what else it has depends on `event`."""

    position: int
    session: str
    event: str
    at: str


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
    """Return the type of a page. `next`: what to give as `after` for the next one, null on the last; `cursor`: the
    instant at which it was read, for an event stream that goes on from there."""
    return msgspec.defstruct(
        name, [("items", list_of(kind)), ("next", str | None), ("cursor", str)], kw_only=True, frozen=True
    )
