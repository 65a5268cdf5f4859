"""The index of a store: which sessions and approvals there are, as it follows from the events.

Every store uses this one mechanism: `touched` says which entries a batch may change, `Draft.take` changes them, and the
store writes those that differ. What people see of an entry is put together from it and from the bodies of the events
that it points to, so that nothing an agent or a person wrote is kept twice.

Rules
- An entry holds positions and states, never payload. All of it can be computed again from the events.
- A passivated session sleeps here for as long as its journal says so: the tables that decide it are the core's.
- An event that this program cannot read is nobody's entry: it stops no list, and its session says so when it is read.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from supervisor.abc import Row, SessionRow
from supervisor.core import events as e
from supervisor.core.errors import StoreUnreadable
from supervisor.core.machine import next_approval_status
from supervisor.core.masking import mask
from supervisor.core.rows import EncodedRow
from supervisor.core.rules import offer
from supervisor.core.session import WAKING
from supervisor.core.standing import RULES
from supervisor.core.values import Approval, Outcome

E = TypeVar("E")

UNREADABLE: Final = "(unreadable)"
"""Stands where an entry points to an event that this program cannot read."""

_MOVING: Final = {e.RunStarted, e.ImportStarted, *e.SLEEPING, *WAKING, *e.ANSWERS}
"""What changes a session's entry."""
_DECIDING: Final = (e.QuestionAnswered, e.ApprovalDecided, e.ApprovalExpired, e.ApprovalWithdrawn)
"""What ends an approval and names it."""
BEGUN: Final = "?"
"""Before the name of a channel that was about to post a card, and has not said what became of it."""
_INDEXED: Final = {
    e.SessionCreated,
    e.ToolCallRequested,
    e.QuestionAsked,
    *_DECIDING,
    e.OperationAbandoned,
    e.CardBegun,
    e.CardPosted,
    e.CardFailed,
    e.CardRetired,
    e.ApprovalReminded,
}
"""What begins an entry, or changes one of an approval."""
ROUGHLY: Final = timedelta(hours=1)
"""How well an entry knows when something happened last: writing it down each time would be a third of a decision."""
_NEVER: Final = datetime.fromtimestamp(0, UTC)


class _Session(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag="SessionCreated"):
    """What lists show of a SessionCreated, and its defaults where that cannot be read: decoding all of it, a hundred
    thousand times, would take half as long again."""

    at: datetime = _NEVER
    agent: str = UNREADABLE
    path: tuple[str, ...] = (UNREADABLE,)
    root: str = UNREADABLE
    requester: str = UNREADABLE
    cwd: str = UNREADABLE
    parent: str | None = None


class _Request(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag="ToolCallRequested"):
    """What lists show of a ToolCallRequested, and its defaults where that cannot be read."""

    at: datetime = _NEVER
    tool: str = UNREADABLE
    arguments: msgspec.Raw = msgspec.Raw(b"null")
    digest: str = UNREADABLE
    patterns: tuple[str | None, ...] | None = ()
    """None: nothing can be granted, not even once."""
    expires_at: datetime | None = None
    secret: tuple[str, ...] = ()


class _Question(msgspec.Struct, frozen=True, gc=False, tag_field="event", tag="QuestionAsked"):
    """What lists show of a QuestionAsked, and what stands there where a call has more."""

    tool: ClassVar[str] = ""
    arguments: ClassVar[msgspec.Raw] = msgspec.Raw(b"null")
    patterns: ClassVar[None] = None
    secret: ClassVar[tuple[str, ...]] = ()
    question: str
    digest: str
    at: datetime = _NEVER
    choices: tuple[str, ...] | None = None
    schema: dict[str, Any] | None = None
    expires_at: datetime | None = None


_read_session: Final = msgspec.json.Decoder(_Session).decode
_read_request: Final = msgspec.json.Decoder(_Request | _Question).decode
_read_finished: Final = msgspec.json.Decoder(e.RunFinished | e.ImportStarted).decode
_read_json: Final = msgspec.json.Decoder().decode
_NO_SESSION: Final = _Session()
_NO_REQUEST: Final = _Request(patterns=None)


class SessionEntry(msgspec.Struct, frozen=True, gc=False):
    """A session in the index. `created` and `finished` (an import has finished when it starts) are positions; what it
    waits for, and until when, is set only while it is asleep."""

    id: str
    root: str
    created: int
    last_at: datetime
    waiting_for: tuple[str, ...] | None = None
    due_at: datetime | None = None
    finished: int | None = None


class ApprovalEntry(msgspec.Struct, frozen=True, gc=False):
    """An approval in the index. `asked`, `decided` and `reminded` are positions; `decided` also where it was
    withdrawn, `reminded` the last one. `shown`: names of channels, behind BEGUN where a card may be there."""

    id: str
    session: str
    operation: str
    asked: int
    status: str = "pending"
    decided: int | None = None
    shown: tuple[str, ...] = ()
    reminded: int | None = None


class Touched(NamedTuple):
    """What a batch of entries is about: ids, and the calls (session, operation) whose approval is not named."""

    sessions: set[str]
    approvals: set[str]
    calls: set[tuple[str, str]]


def touched(rows: Iterable[Row]) -> Touched:
    """Return what has to be read before these rows can be taken."""
    found = Touched(set(), set(), set())
    made: set[str] = set()
    for row in rows:
        event = row.event
        if row.session != RULES:
            found.sessions.add(row.session)
        if type(event) not in _INDEXED:
            continue
        match event:
            case e.SessionCreated():
                made.add(row.session)
            case e.ToolCallRequested(approval=str(approval)) | e.QuestionAsked(approval=approval):
                made.add(approval)
            case _ if isinstance(event, _DECIDING):
                found.approvals.add(event.approval)
            case e.ApprovalReminded() | e.CardBegun() | e.CardPosted() | e.CardFailed() | e.CardRetired():
                found.approvals.add(event.approval)
            case e.OperationAbandoned(kind="call" | "ask"):
                found.calls.add((row.session, event.operation))
            case _:
                pass
    return Touched(found.sessions - made, found.approvals - made, found.calls)


class Draft:
    """The entries that a batch touches: as they were, and as it leaves them."""

    def __init__(self, sessions: Iterable[SessionEntry] = (), approvals: Iterable[ApprovalEntry] = ()) -> None:
        self.sessions = {entry.id: entry for entry in sessions}
        self.approvals = {entry.id: entry for entry in approvals}
        # A later run of the session may use the name of a call again; at most one such call is pending.
        pending = [entry for entry in self.approvals.values() if entry.status == "pending"]
        self._calls = {(entry.session, entry.operation): entry.id for entry in pending}
        self._old_sessions = self.sessions.copy()
        self._old_approvals = self.approvals.copy()

    def take(self, row: Row) -> None:
        """Take one journal entry in."""
        event = row.event
        if type(event) in _INDEXED:
            self._index(row, event)
        if type(event) in _MOVING:
            self._move(row)

    def _index(self, row: Row, event: e.AnyEvent) -> None:
        match event:
            case e.SessionCreated():
                self.sessions[row.session] = SessionEntry(row.session, event.root, row.position, event.at)
            case e.ToolCallRequested(approval=str(approval)) | e.QuestionAsked(approval=approval):
                self.approvals[approval] = ApprovalEntry(approval, row.session, event.operation, row.position)
                self._calls[row.session, event.operation] = approval
            case _ if isinstance(event, _DECIDING):
                self._decide(event.approval, row)
            case e.OperationAbandoned():
                self._decide(self._calls.get((row.session, event.operation)), row)
            case e.CardBegun() | e.CardPosted() | e.CardFailed() | e.CardRetired():
                self._show(event)
            case e.ApprovalReminded():
                self._remind(row, event)
            case _:
                pass

    def new_sessions(self) -> list[SessionEntry]:
        return [entry for entry in self.sessions.values() if entry.id not in self._old_sessions]

    def changed_sessions(self) -> list[SessionEntry]:
        return [self.sessions[old.id] for old in self._old_sessions.values() if self.sessions[old.id] is not old]

    def new_approvals(self) -> list[ApprovalEntry]:
        return [entry for entry in self.approvals.values() if entry.id not in self._old_approvals]

    def changed_approvals(self) -> list[ApprovalEntry]:
        return [self.approvals[old.id] for old in self._old_approvals.values() if self.approvals[old.id] is not old]

    def _move(self, row: Row) -> None:
        """As in the fold of a session: what it does not wait for lets it sleep."""
        event, old = row.event, self.sessions.get(row.session)
        if old is None:
            return
        waiting_for, due_at, finished = old.waiting_for, old.due_at, old.finished
        if isinstance(event, e.SLEEPING):
            waiting_for, due_at = event.waiting_for, event.due_at
        elif waiting_for is not None and (isinstance(event, WAKING) or e.answers(event) in waiting_for):
            waiting_for = due_at = None
        if isinstance(event, e.RunStarted):
            finished = None
        elif isinstance(event, e.RunFinished | e.ImportStarted):
            finished = row.position
        if (waiting_for, due_at, finished) != (old.waiting_for, old.due_at, old.finished) or not (
            old.last_at <= event.at < old.last_at + ROUGHLY
        ):
            self.sessions[row.session] = replace(
                old, last_at=event.at, waiting_for=waiting_for, due_at=due_at, finished=finished
            )

    def _decide(self, approval: str | None, row: Row) -> None:
        old = self.approvals.get(approval) if approval is not None else None
        if old is not None and (status := next_approval_status(old.status, row.event)) != old.status:
            self.approvals[old.id] = replace(old, status=status, decided=row.position)

    def _remind(self, row: Row, event: e.ApprovalReminded) -> None:
        old = self.approvals.get(event.approval)
        if old is not None:
            self.approvals[old.id] = replace(old, reminded=row.position)

    def _show(self, event: e.CardBegun | e.CardPosted | e.CardFailed | e.CardRetired) -> None:
        old = self.approvals.get(event.approval)
        if old is None:
            return
        begun, held = f"{BEGUN}{event.channel}", event.channel
        gone = (begun,) if isinstance(event, e.CardBegun | e.CardFailed) else (begun, held)
        now = {e.CardBegun: (begun,), e.CardPosted: (held,)}.get(type(event), ())
        shown = (*(each for each in old.shown if each not in gone), *now)
        if shown != old.shown:
            self.approvals[old.id] = replace(old, shown=shown)


def session_row(entry: SessionEntry, created: bytes, finished: bytes | None) -> SessionRow:
    """Put together what an entry and the bodies that it points to say."""
    facts = _read(_read_session, created) or _NO_SESSION
    end = None if finished is None else _read(_read_finished, finished)
    return SessionRow(
        id=entry.id,
        parent=facts.parent,
        root=entry.root,
        agent=facts.path[-1],
        path=facts.path,
        requester=facts.requester,
        cwd=facts.cwd,
        created_at=facts.at,
        is_asleep=entry.waiting_for is not None,
        due_at=entry.due_at,
        last_at=entry.last_at,
        outcome=None if entry.finished is None else _outcome(end),
        ended_at=None if entry.finished is None else (end.at if end else entry.last_at),
        position=entry.created,
    )


def approval_row(
    entry: ApprovalEntry, created: bytes, asked: bytes, decided: bytes | None, reminded: bytes | None
) -> Approval:
    """Put together what an entry and the bodies that it points to say."""
    facts = _read(_read_session, created) or _NO_SESSION
    request = _read(_read_request, asked) or _NO_REQUEST
    arguments = _read_json(request.arguments)
    found = Approval(
        id=entry.id,
        session=entry.session,
        root_session=facts.root,
        path=facts.path,
        agent=facts.path[-1],
        operation=entry.operation,
        tool=request.tool,
        arguments=mask(arguments, request.secret) if request.secret else arguments,
        options=() if request.patterns is None else offer(request.patterns, arguments),
        secret=request.secret,
        digest=request.digest,
        cwd=facts.cwd,
        requester=facts.requester,
        status=entry.status,  # type: ignore[arg-type] # the table in core.machine holds no other word
        created_at=request.at,
        expires_at=request.expires_at,
        shown=tuple(name for name in entry.shown if not name.startswith(BEGUN)),
        position=entry.asked,
    )
    if isinstance(request, _Question):
        asked_for = {"question": request.question, "choices": request.choices, "schema": request.schema}
        found = replace(found, kind="question", **asked_for)
    if decided is not None:
        found = _decided(found, request, _read(e.decode_event, decided))
    if reminded is not None:
        reminder = _read(e.decode_event, reminded)
        found = replace(found, reminded_at=reminder and reminder.at, escalated_to=getattr(reminder, "escalated_to", ()))
    return found


def _decided(asked: Approval, request: _Request | _Question, answer: e.AnyEvent | None) -> Approval:
    """Add what ended an approval; None is an event that this program cannot read."""
    if answer is None:
        return replace(asked, reason=UNREADABLE)
    found = replace(asked, reason=getattr(answer, "reason", None), decided_at=answer.at)
    if isinstance(answer, e.QuestionAnswered):
        return replace(found, decision="answer", answer=_read_json(answer.value), by=answer.by)
    if isinstance(answer, e.ApprovalDecided):
        if answer.edited is not None and isinstance(request, _Request):
            found = replace(found, arguments=mask(_read_json(answer.edited), request.secret))
        scope = answer.scope if answer.decision == "approve" else None
        kind, rule = answer.decision, answer.rule
        found = replace(found, decision=kind, by=answer.by, scope=scope, pattern=answer.pattern, rule=rule)
    return found


def body_of(row: Row) -> bytes:
    """Return an entry as it is written."""
    return row.body if isinstance(row, EncodedRow) else e.encode_event(row.event)


def read_rows(rows: Sequence[tuple[int, str, bytes]]) -> list[Row]:
    """Decode journal entries; raises StoreUnreadable at the first that cannot be read."""
    return [Row(position, session, e.decode_event(body)) for position, session, body in rows]


def read_known_rows(rows: Sequence[tuple[int, str, bytes]], unreadable: dict[str, str]) -> list[Row]:
    """Decode journal entries; those that cannot be read are left out, and `unreadable` says whose they were."""
    found = []
    for position, session, body in rows:
        try:
            found.append(Row(position, session, e.decode_event(body)))
        except StoreUnreadable as error:
            unreadable[session] = str(error)
    return found


def _outcome(end: e.RunFinished | e.ImportStarted | None) -> Outcome[Any]:
    if end is None:
        return Outcome(kind="abandoned", cause="its outcome cannot be read: a newer program wrote it, or it is damaged")
    if isinstance(end, e.ImportStarted):
        return Outcome(kind="succeeded", cause=end.cause)
    return Outcome(
        kind=end.kind,
        cause=end.cause,
        partial=_read_json(end.partial),
        returned=_read_json(end.value),
    )


def _read(decode: Callable[[bytes], E], body: bytes) -> E | None:
    try:
        return decode(body)
    except (msgspec.MsgspecError, StoreUnreadable):
        return None
