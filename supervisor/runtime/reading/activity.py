"""The activity of sessions: what the sessions of some trees are doing, for a caller that looks repeatedly.

Theory: for a session that runs here, the attempt itself is read. For any other session the journal is replayed once,
and new entries are applied to that state. Facts that no journal holds (steps, model calls, budgets of another process)
are unknown. Between two looks this costs nothing: attempts are read, and do not report.

Rules
- A look is bounded: it reads the new entries, and at most READ_AT_ONCE journals for the first time. Sessions that were
  not read yet are listed with an unknown activity.
- A session whose journal cannot be read is listed, too.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import msgspec

from supervisor.abc import ActivityWatch, JournalEntry, SessionRow
from supervisor.core import events as e
from supervisor.core.activity import Activity, Clock, Doing
from supervisor.core.cursors import make_cursor, read_cursor
from supervisor.core.errors import IllegalEvent, NotFound, StoreError
from supervisor.core.masking import mask
from supervisor.core.session import Operation, SessionState, replay
from supervisor.core.values import OutcomeKind
from supervisor.handles import Page
from supervisor.runtime.attempt.attempt import Attempt

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner

READ_AT_ONCE: Final = 500
WRITTEN: Final = 400
"""Characters of a text that is being written, as much as a line on a screen can show."""
_UNKNOWN: Final = (Doing(kind="unknown"),)


class _Known(msgspec.Struct):
    """The known facts of a session. `state`: only for an open session that does not run here, once it was read."""

    position: int
    id: str
    parent: str | None
    root: str
    path: tuple[str, ...]
    created_at: datetime
    heard_at: datetime
    outcome: OutcomeKind | None = None
    cause: str | None = None
    state: SessionState | None = None
    doing: tuple[Doing, ...] | None = None
    """Its activity according to `state`; None if that must be derived again."""


class LocalActivityWatch(ActivityWatch):
    """Watches the tree of a session, or every tree that is open or begins during the watch."""

    def __init__(self, runner: "Runner", session: str | None) -> None:
        self._runner = runner
        self._store = runner.journal.store
        self._session = session
        self._is_all = session is None
        self._known: dict[str, _Known] = {}
        """In the order of their positions, unless `_is_sorted` is false."""
        self._is_sorted = True
        self._cursor = 0
        self._roots: set[str] = set()

    async def __aenter__(self) -> Self:
        await anyio.lowlevel.checkpoint()
        self._cursor = self._store.last_position()
        if self._session is None:
            for root in dict.fromkeys(row.root for row in self._store.find_sessions(is_open=True)):
                self._watch(root)
        elif (row := self._store.get_session(self._session)) is not None:
            self._watch(row.root)
        else:
            raise NotFound(f"there is no session {self._session} in {self._store.name}")
        return self

    async def look(self, *, after: str | None = None, limit: int | None = 1000, wholly: bool = False) -> Page[Activity]:
        await anyio.lowlevel.checkpoint()
        start = 0 if after is None else read_cursor(after, self._store.id, self._store.last_position())
        if self._store.last_position() > self._cursor:
            for row in self._store.rows(self._cursor):
                self._cursor = row.position
                self._take(row)
        owners = {root: self._store.get_owner(root) for root in self._roots}
        names = {root: None if owner is None else str(owner) for root, owner in owners.items()}
        if not self._is_sorted:
            self._known = {each.id: each for each in sorted(self._known.values(), key=_position)}
            self._is_sorted = True
        later = [each for each in self._known.values() if each.position > start]
        some = later[:limit]
        budget = len(some) if wholly else READ_AT_ONCE
        found = []
        for known in some:
            attempt = self._runner.attempts.live.get(known.id)
            if known.outcome is None and attempt is None and known.state is None and known.doing is None and budget:
                budget -= 1
                self._read(known)
            found.append(self._activity(known, attempt, names.get(known.root)))
        last = make_cursor(self._store.id, some[-1].position) if len(some) < len(later) else None
        return Page(tuple(found), last, make_cursor(self._store.id, self._cursor))

    def _watch(self, root: str) -> None:
        self._roots.add(root)
        for row in self._store.find_sessions(root=root):
            self._known.setdefault(row.id, _known(row))
        self._is_sorted = False

    def _take(self, row: JournalEntry) -> None:
        event = row.event
        if isinstance(event, e.SessionCreated) and (event.root in self._roots or self._is_all):
            self._roots.add(event.root)
            facts = event.parent, event.root, event.path, event.at, event.at
            self._known[row.session] = _Known(row.position, row.session, *facts)
        if self._is_all and isinstance(event, e.RunStarted) and row.session not in self._known:
            self._take_turn(row.session)
        if (known := self._known.get(row.session)) is None:
            return
        known.heard_at = event.at
        known.doing = None
        if isinstance(event, e.RunFinished):
            known.outcome, known.cause, known.state = event.kind, event.cause, None
        elif isinstance(event, e.ImportStarted):
            known.outcome, known.cause = "succeeded", event.cause
        elif isinstance(event, e.RunStarted):
            known.outcome = known.cause = known.state = None
        elif known.state is not None:
            self._fold(known, row)

    def _take_turn(self, session: str) -> None:
        """Watch an idle tree in which a turn has begun."""
        if (row := self._store.get_session(session)) is not None:
            self._watch(row.root)

    def _fold(self, known: _Known, row: JournalEntry) -> None:
        """Apply an entry to a session that was read. Drop the state of a session that now runs here."""
        assert known.state is not None
        try:
            known.state.apply(row.event)
        except IllegalEvent:  # an entry in between could not be read; reading the whole journal will fail
            known.state = None
        if known.id in self._runner.attempts.live:
            known.state = None

    def _read(self, known: _Known) -> None:
        try:
            rows = [row for row in self._store.journal(known.id) if row.position <= self._cursor]
            if rows:  # it may have begun in another process just after the cursor
                known.state = replay(known.id, [row.event for row in rows])
                known.heard_at = rows[-1].event.at
        except StoreError:
            known.doing = _UNKNOWN

    def _activity(self, known: _Known, attempt: Attempt | None, owner: str | None) -> Activity:
        clock: Clock = "unknown"
        budget: tuple[float, float] | None = None
        doing: tuple[Doing, ...] = ()
        heard_at = known.heard_at
        if known.outcome is None and attempt is not None:
            doing = tuple(self._doing_here(attempt))
            budget = attempt.watch.left()
            clock = "paused" if budget is None else "running"
            heard_at = max(heard_at, self._runner.hub.signs.get(known.id, heard_at))
        elif known.outcome is None:
            if known.doing is None and known.state is not None:
                known.doing = tuple(self._doing_by_journal(known.state)) or _UNKNOWN
            doing = _UNKNOWN if known.doing is None else known.doing
            clock = "asleep" if known.state is not None and known.state.waiting_for is not None else "unknown"
        return Activity(
            session=known.id,
            parent=known.parent,
            root=known.root,
            path=known.path,
            created_at=known.created_at,
            heard_at=heard_at,
            outcome=known.outcome,
            cause=known.cause,
            owner=owner,
            doing=doing,
            writing="" if attempt is None else self._runner.hub.texts.get_end(known.id, WRITTEN),
            clock=clock,
            budget=None if budget is None else budget[1],
            budget_left=None if budget is None else budget[0],
        )

    def _doing_here(self, attempt: Attempt) -> Iterator[Doing]:
        """Yield what an attempt in this process is doing. The attempt is read, since its journal does not hold all."""
        state = attempt.state
        for key in attempt.waiting:
            if (record := state.operations.get(key)) is not None:
                yield from self._operation(state, record)
        for reason, kind in attempt.watch.inactivity.pauses.items():
            record = state.operations.get(reason.removeprefix("call:"))
            if kind == "call" and record is not None:
                yield from self._operation(state, record)
        now, instant = self._runner.clock.now(), self._runner.watchdog.now()
        for work in attempt.watch.work:
            since = now - timedelta(seconds=max(0.0, instant - work.since))
            yield Doing(kind="step" if work.name else "model_call", name=work.name, since=since)
        yield from self._waits(state, attempt.waiting)

    def _doing_by_journal(self, state: SessionState) -> Iterator[Doing]:
        """Yield what a session is doing by its journal, which holds calls, questions and timers from their start."""
        if state.blocked is not None:
            yield Doing(kind="blocked", name=state.blocked.cause)
        if state.back_off_until is not None:
            yield Doing(kind="back_off", until=state.back_off_until)
            return
        for record in state.operations.values():
            if record.is_open:
                yield from self._operation(state, record)
        yield from self._waits(state, state.waiting_for or ())

    def _operation(self, state: SessionState, record: Operation) -> Iterator[Doing]:
        request = record.request
        if (asked := record.pending_approval) is not None:
            approval = self._store.get_approval(asked)
            yield Doing(kind="approval", approval=approval, since=None if approval is None else approval.created_at)
        elif isinstance(request, e.ToolCallRequested):
            since = request.at if record.started is None else record.started.at
            arguments = _arguments(record)
            yield Doing(kind="call", name=request.tool, arguments=arguments, command=request.command, since=since)
        elif isinstance(request, e.OperationStarted) and request.kind == "sleep":
            yield Doing(kind="timer", since=request.at, until=request.due_at)

    def _waits(self, state: SessionState, keys: Collection[str]) -> Iterator[Doing]:
        """Yield the waits that have no start in the journal: for messages, and for sub-agents."""
        if e.MESSAGE in keys:
            yield Doing(kind="message")
        children = [key for key in keys if key in state.children]
        if children:
            known = self._known.get(children[0])
            name = known.path[-1] if known is not None and len(children) == 1 else ""
            yield Doing(kind="children", name=name, count=len(children))


def _position(known: _Known) -> int:
    return known.position


def _known(row: SessionRow) -> _Known:
    outcome = row.outcome
    heard_at = row.ended_at or row.last_at
    known = _Known(row.position, row.id, row.parent, row.root, row.path, row.created_at, heard_at)
    if outcome is not None:
        known.outcome, known.cause = outcome.kind, outcome.cause
    return known


def _arguments(record: Operation) -> Any:
    """Return the arguments of a call with its secrets masked."""
    assert isinstance(record.request, e.ToolCallRequested)
    return mask(msgspec.json.decode(record.arguments), record.request.secret)
