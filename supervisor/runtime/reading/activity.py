"""The activity of sessions: what the sessions of some trees are doing, for a caller that looks repeatedly.

Theory: for a session that runs here, the attempt itself is read. For any other session the journal is replayed once,
and new entries are applied to that state. Facts that no journal holds (steps, model calls, budgets of another process)
are unknown. Between two looks this costs nothing: attempts are read, and do not report.

Rules
- A look is bounded: it reads the new entries, and at most READ_AT_ONCE journals for the first time. Sessions that were
  not read yet are listed with an unknown activity.
- A session whose journal cannot be read is listed, too.
- Everything is read in pieces (runtime/reading/pieces.py). A look that is cancelled between two of them loses nothing:
  the cursor passes an entry only once the entry has been applied.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Self

import anyio
import msgspec

from supervisor.core import events as e
from supervisor.core.budgets import KEY
from supervisor.core.cursors import make_cursor, read_cursor
from supervisor.core.errors import IllegalEvent, NotFound, StoreError
from supervisor.core.events.kinds import kind_of
from supervisor.core.limits import LimitWait, name_of, shown_name
from supervisor.core.rows import JournalEntry, Owner, SessionRow
from supervisor.core.sessions.activity import Activity, Clock, Doing
from supervisor.core.sessions.state import Operation, SessionState
from supervisor.core.text.masks import hide, mask_arguments
from supervisor.core.usage import NOTHING, Spent
from supervisor.core.values import OutcomeKind, as_of
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.journal.pages import pages_of, parts_of
from supervisor.runtime.reading.pieces import PIECE, Pieces, read_pieces
from supervisor.seam.runs import ActivityWatch, Page

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner

READ_AT_ONCE: Final = 500
WRITTEN_CHARACTERS: Final = 400
"""Characters of a text that is being written, as much as a line on a screen can show."""
_MOVE_MANY: Final = e.BEGINS_RUN | {e.StateSaved, e.RunRestarted}
"""The events that change other operations than one of their own."""
_UNKNOWN: Final = (Doing(kind="unknown"),)
_POSITION: Final = attrgetter("position")


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
    open: dict[str, None] | None = None
    """The open operations of `state`, in its order; None if they must be searched for."""
    has_spent: bool = False
    """Whether it, or a session below it, has spent anything on models."""
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
        self._in_order: list[_Known] = []
        """The known sessions in the order of their positions."""
        self._cursor = 0
        self._roots: set[str] = set()
        """The trees whose sessions are all known."""
        self._piece = 0
        """How much was read since the loop had its turn."""
        self._looking = anyio.Lock()

    async def __aenter__(self) -> Self:
        await read_pieces(self._store, self._begin())
        return self

    async def look(self, *, after: str | None = None, limit: int | None = 1000, wholly: bool = False) -> Page[Activity]:
        async with self._looking:
            return await read_pieces(self._store, self._look(after, limit, wholly=wholly))

    def _begin(self) -> Pieces[None]:
        self._cursor = last = self._store.last_position()
        if self._session is not None:
            if (row := self._store.get_session(self._session)) is None:
                raise NotFound(f"there is no session {self._session} in {self._store.name}")
            yield from self._watch(row.root)
            return
        for rows in pages_of(self._store.find_sessions, PIECE, is_open=True):
            yield from self._has_read(len(rows))
            for row in rows:
                if row.position <= last:
                    yield from self._watch(row.root)

    def _look(self, after: str | None, limit: int | None, *, wholly: bool) -> Pieces[Page[Activity]]:
        start = 0 if after is None else read_cursor(after, self._store.id, self._store.last_position())
        yield from self._catch_up()
        first = bisect_right(self._in_order, start, key=_POSITION)
        some = self._in_order[first:][:limit]
        budget = len(some) if wholly else READ_AT_ONCE
        found = list[Activity]()
        for piece in parts_of(some, PIECE):
            owners = self._store.get_owners(list({known.root for known in piece}))
            spent = self._spent(piece)
            for known in piece:
                if budget and self._is_unread(known):
                    budget -= 1
                    yield from self._read(known)
                found.append(self._activity(known, self._attempt_of(known), owners.get(known.root), spent))
                yield from self._has_read(1)
        is_all = first + len(some) == len(self._in_order)
        last = None if is_all else make_cursor(self._store.id, some[-1].position)
        return Page(tuple(found), last, make_cursor(self._store.id, self._cursor))

    def _spent(self, some: Sequence[_Known]) -> Mapping[str, Spent]:
        """Return what sessions and all below them have spent; those that have spent nothing are not looked up."""
        rows = self._store.get_sessions([known.id for known in some if known.has_spent])
        return {row.id: row.spent + row.spent_below for row in rows}

    def _note_spent(self, known: _Known | None) -> None:
        while known is not None and not known.has_spent:
            known.has_spent = True
            known = self._known.get(known.parent or "")

    def _catch_up(self) -> Pieces[None]:
        """Apply the entries that were written since the last look."""
        end = self._store.last_position()
        while self._cursor < end:
            start, to = self._cursor, min(self._cursor + PIECE, end)
            for row in self._store.rows(self._cursor, to):
                yield from self._take(row)
                self._cursor = row.position
            yield from self._has_read(to - start)
            self._cursor = to

    def _has_read(self, count: int) -> Pieces[None]:
        self._piece += count
        if self._piece >= PIECE:
            self._piece = 0
            yield

    def _watch(self, root: str) -> Pieces[None]:
        if root in self._roots:
            return
        for rows in pages_of(self._store.find_sessions, PIECE, root=root):
            for row in rows:
                self._add(_known(row))
            yield from self._has_read(len(rows))
        self._roots.add(root)

    def _add(self, known: _Known) -> None:
        if (old := self._known.get(known.id)) is not None:
            if old.position == known.position:
                return
            self._in_order.remove(old)  # it was deleted, and another one has its id
        self._known[known.id] = known
        insort(self._in_order, known, key=_POSITION)

    def _take(self, row: JournalEntry) -> Pieces[None]:
        event = row.event
        if self._is_all and isinstance(event, e.SessionCreated) and event.parent is None:
            self._roots.add(event.root)
        elif self._is_all and isinstance(event, e.SessionCreated | e.RunStarted):
            yield from self._watch_tree_of(row.session)
        if isinstance(event, e.SessionCreated) and event.root in self._roots:
            facts = event.parent, event.root, event.path, event.at, event.at
            self._add(_Known(row.position, row.session, *facts))
        if (known := self._known.get(row.session)) is None:
            return
        known.heard_at = event.at
        known.doing = None
        if isinstance(event, e.UsageSpent):
            self._note_spent(known)
        if isinstance(event, e.RunFinished):
            known.outcome, known.cause, known.state = event.kind, event.cause, None
        elif isinstance(event, e.ImportStarted):
            known.outcome, known.cause = "succeeded", event.cause
        elif isinstance(event, e.RunStarted):
            known.outcome = known.cause = known.state = None
        elif known.state is not None:
            self._fold(known, row)

    def _watch_tree_of(self, session: str) -> Pieces[None]:
        """Watch a tree that was not open when the watch began, such as an idle one in which a turn has begun."""
        if (known := self._known.get(session)) is not None and known.root in self._roots:
            return
        if (row := self._store.get_session(session)) is not None:
            yield from self._watch(row.root)

    def _fold(self, known: _Known, row: JournalEntry) -> None:
        """Apply an entry to a session that was read. Drop the state of a session that now runs here."""
        assert known.state is not None
        try:
            known.state.apply(row.event)
        except IllegalEvent:  # an entry in between could not be read; reading the whole journal will fail
            known.state = None
        if known.id in self._runner.attempts.live:
            known.state = None
        if known.state is None or known.open is None or type(row.event) in _MOVE_MANY:
            known.open = None
        elif (operation := getattr(row.event, "operation", None)) is not None:
            record = known.state.operations.get(operation)
            if record is None or not record.is_open:
                known.open.pop(operation, None)
            else:
                known.open[operation] = None

    def _attempt_of(self, known: _Known) -> Attempt | None:
        return self._runner.attempts.live.get(known.id)

    def _is_unread(self, known: _Known) -> bool:
        """Return whether only the journal tells what a session is doing, and it has not been read yet."""
        is_known = known.outcome is not None or known.state is not None or known.doing is not None
        return not is_known and self._attempt_of(known) is None

    def _read(self, known: _Known) -> Pieces[None]:
        state, heard_at = SessionState(id=known.id), known.heard_at
        try:
            for rows in pages_of(self._store.journal, PIECE, session=known.id):
                for row in rows:
                    if row.position <= self._cursor:
                        state.apply(row.event)
                        heard_at = row.event.at
                yield from self._has_read(len(rows))
        except (StoreError, IllegalEvent):
            known.doing = _UNKNOWN
            return
        if state.length:  # it may have begun in another process just after the cursor
            known.state, known.heard_at, known.open = state, heard_at, None

    def _activity(
        self, known: _Known, attempt: Attempt | None, owner: Owner | None, spent: Mapping[str, Spent]
    ) -> Activity:
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
                if known.open is None:
                    known.open = {name: None for name, record in known.state.operations.items() if record.is_open}
                doing = tuple(self._doing_by_journal(known.state, known.open)) or _UNKNOWN
                known.doing = None if any(each.kind == "limit" for each in doing) else doing  # its place moves
            else:
                doing = _UNKNOWN if known.doing is None else known.doing
            clock = "asleep" if known.state is not None and known.state.waiting_for is not None else "unknown"
        if self._runner.bodies.left:
            doing = (*doing, *self._left(known.id))
        return Activity(
            session=known.id,
            parent=known.parent,
            root=known.root,
            path=known.path,
            created_at=known.created_at,
            heard_at=heard_at,
            outcome=known.outcome,
            cause=known.cause,
            owner=None if owner is None else str(owner),
            doing=doing,
            writing="" if attempt is None else self._runner.hub.texts.get_end(known.id, WRITTEN_CHARACTERS),
            clock=clock,
            budget=None if budget is None else budget[1],
            budget_left=None if budget is None else budget[0],
            usage=spent.get(known.id, NOTHING),
        )

    def _left(self, session: str) -> Iterator[Doing]:
        """Yield the functions of a session that still run here, although their calls and steps have ended (T3)."""
        now, instant = self._runner.clock.now(), anyio.current_time()
        for body in self._runner.bodies.left:
            if body.session == session:
                yield Doing(kind="left", name=body.name, since=now - timedelta(seconds=instant - body.left_at))

    def _doing_here(self, attempt: Attempt) -> Iterator[Doing]:
        """Yield what an attempt in this process is doing. The attempt is read, since its journal does not hold all."""
        state = attempt.state
        yield from self._asides(state)
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

    def _doing_by_journal(self, state: SessionState, open_operations: Collection[str]) -> Iterator[Doing]:
        """Yield what a session is doing by its journal, which holds calls, questions and timers from their start."""
        if state.blocked is not None:
            yield Doing(kind="blocked", name=state.blocked.cause)
        if state.back_off is not None:
            yield Doing(kind="back_off", until=state.back_off.due_at)
            return
        yield from self._asides(state)
        for name in open_operations:
            yield from self._operation(state, state.operations[name])
        yield from self._waits(state, state.waiting_for or ())

    def _asides(self, state: SessionState) -> Iterator[Doing]:
        """Yield the questions about its budgets that wait for a person."""
        for record in state.budgeting.asides.values():
            if record.pending_approval is not None:
                yield from self._operation(state, record)

    def _operation(self, state: SessionState, record: Operation) -> Iterator[Doing]:
        request = record.request
        if (asked := record.pending_approval) is not None:
            approval = self._store.get_approval(asked)
            approval = None if approval is None else as_of(approval, self._runner.clock.has_passed)
            yield Doing(kind="approval", approval=approval, since=None if approval is None else approval.created_at)
        elif isinstance(request, e.ToolCallRequested):
            since = request.at if record.started is None else record.started.at
            arguments = hide(mask_arguments(msgspec.json.decode(record.arguments), request.secret))
            yield Doing(kind="call", name=request.tool, arguments=arguments, command=request.command, since=since)
        elif isinstance(request, e.OperationStarted) and kind_of(request.kind).lane == "timer":
            yield Doing(kind="timer", since=request.at, until=request.due_at)

    def _waits(self, state: SessionState, keys: Collection[str]) -> Iterator[Doing]:
        """Yield the waits that have no start in the journal: for messages, and for sub-agents."""
        if e.MESSAGE in keys:
            yield Doing(kind="message")
        if any(key.startswith(KEY) for key in keys):
            yield Doing(kind="budget")
        for key in keys:
            if (name := name_of(key)) is not None:
                found = self._runner.limits.find_waits([state.id], name).get(state.id)
                wait = found or LimitWait(name=shown_name(name))
                yield Doing(kind="limit", name=wait.name, since=wait.since, place=wait.place, count=wait.count)
        children = [key for key in keys if key in state.children]
        if children:
            known = self._known.get(children[0])
            name = known.path[-1] if known is not None and len(children) == 1 else ""
            yield Doing(kind="children", name=name, count=len(children))


def _known(row: SessionRow) -> _Known:
    outcome = row.outcome
    heard_at = row.ended_at or row.last_at
    known = _Known(row.position, row.id, row.parent, row.root, row.path, row.created_at, heard_at)
    known.has_spent = (row.spent, row.spent_below) != (NOTHING, NOTHING)
    if outcome is not None:
        known.outcome, known.cause = outcome.kind, hide(outcome.cause)
    return known
