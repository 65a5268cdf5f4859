"""The budgets of the trees that this process runs: what is used, what is reserved, who waits, and who asks.

Theory: one process runs a tree, so what it knows in memory decides. What was spent is in the journals, and is counted
as it is published; so a later process finds the same. What is reserved is in memory only: what a crash cuts off is gone
with it.

Rules
- No overtaking: what waits for a limit lets nothing pass that needs the same limit. What waits below another budget is
  not waited for.
- A person is asked only if what is spent already, and the first that waits, exceed the budget. Otherwise it waits for
  what is in flight. If several budgets are used up, the outermost one is asked about first.
- The runner asks, no attempt does: the question is in the journal of the session whose budget it is, once.
- A run that waits for a decision may leave memory. When the question is over, an entry in its own journal wakes it. A
  process that claims the tree adds those that are missing.
- A run that was told to stop is granted everything: its clean-up asks no person.

The module is longer than 400 lines because what is counted, granted and asked is one state.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from supervisor.core import events as e
from supervisor.core.budgets import (
    A_CALL,
    IN_FLIGHT,
    KEY,
    KINDS,
    NOTICED_AT,
    Budget,
    Scope,
    Used,
    exceeded,
    is_aside,
    key_of,
    raised,
    scope_of,
    used_by,
    used_in,
    used_text,
)
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import printable_text
from supervisor.core.errors import StoreError, UnknownAgent
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.asides import is_of_budget, noticed_as
from supervisor.core.sessions.state import SessionState
from supervisor.core.usage import NOTHING, Spent, Usage, money_text, requests_text, spent_by, sum_of, tokens_text
from supervisor.core.values import Approval
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.reservations import Reservation
from supervisor.runtime.clock.alarm import Appointment
from supervisor.runtime.clock.patience import until_answered
from supervisor.runtime.environment import Environment
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.operations.questions import expiry
from supervisor.runtime.plans.budgets import (
    BY_ITSELF,
    end_run,
    follow_decision,
    limits_now,
    question,
    whose,
    withdraw,
)
from supervisor.system.logs import FactLog

log = FactLog(__name__)

FindAgent = Callable[[e.SessionCreated], AgentSpec[Any, Any]]
_COUNTED: Final = (e.UsageSpent.__name__, e.ToolCallRequested.__name__)
_OF_RUNS: Final = (e.RunStarted.__name__,)
ENDS_A_WAIT: Final = frozenset({e.BudgetRaised, e.ToolCallFinished})
_MOST_TOLD: Final = 8
"""The most lines of a question that say who has spent what."""


class Holder(msgspec.Struct, eq=False):
    """One budget of one session, and what is used of it."""

    session: str
    scope: Scope
    depth: int
    base: Budget
    since: int
    """The position of the last entry that is counted in `used`."""
    used: Used
    expires_in: float | None = None
    reserved: Used = Used()
    largest: Used = Used(requests=1)
    """The largest request so far."""
    limits: Budget = Budget()
    """As it is raised."""
    told: set[str] = set()
    by: dict[tuple[str, str], Spent] = {}
    """What was spent, by agent and model."""
    unknown: bool = False
    """Whether something is not in the sums."""
    is_asking: bool = False
    question: str | None = None

    @property
    def key(self) -> str:
        return key_of(self.session, self.scope)

    @property
    def spent(self) -> Spent:
        return sum_of(self.by.values())

    def add(self, usage: Usage, agent: str) -> None:
        spent = spent_by(usage)
        self.used += used_by(spent)
        times = max(1, spent.requests)
        largest = self.largest
        self.largest = Used(
            usd=max(largest.usd, spent.usd / times), tokens=max(largest.tokens, spent.tokens // times), requests=1
        )
        self.by = {**self.by, (agent, usage.model): self.by.get((agent, usage.model), NOTHING) + spent}
        self.unknown |= bool(spent.uncounted and self.base.tokens is not None)
        self.unknown |= bool(spent.unpriced and self.base.usd is not None)


class _Waiting(Reservation, eq=False):
    """A reservation, with the budgets that bound it, the outermost first."""

    holders: tuple[Holder, ...] = ()


class Budgets:
    """The budgets of a runner. `tree`: the budget of trees that were started without one."""

    def __init__(
        self, attempts: Attempts, environment: Environment, find_agent: FindAgent, tree: Budget | None = None
    ) -> None:
        self._attempts = attempts
        self._journal, self._clock, self._alarm = attempts.journal, attempts.clock, attempts.alarm
        self._environment = environment
        self._find_agent = find_agent
        self._tree = tree
        self.above: dict[str, tuple[Holder, ...]] = {}
        """By session, of the trees with a budget: the budgets that bound it, the outermost first."""
        self._roots: dict[str, str] = {}
        """The root of each of these sessions."""
        self._agents: dict[str, str] = {}
        self._queues: dict[str, list[_Waiting]] = {}
        """By root: what waits, in order."""
        self._expiries: dict[str, Appointment] = {}
        self._number = 0
        """Of the latest reservation that waits."""

    # -- what bounds a run -------------------------------------------------------------------------------------------

    @property
    def counts_calls(self) -> bool:
        """Whether a budget of this process bounds calls."""
        return any(holder.limits.calls is not None for holders in self.above.values() for holder in holders)

    async def bounds(self, attempt: Attempt) -> bool:
        if attempt.is_bounded is None:  # they are found once for each attempt
            find = partial(self._find, attempt.session, attempt.state.facts, attempt.spec)
            attempt.is_bounded = bool(await until_answered(find))
        return attempt.is_bounded

    def _find(self, session: str, facts: e.SessionCreated, spec: AgentSpec[Any, Any] | None) -> tuple[Holder, ...]:
        above = tuple[Holder, ...]()
        if facts.parent is not None:
            parent = self._attempts.live.get(facts.parent)
            if parent is not None and parent.is_bounded is not None:
                above = self.above.get(facts.parent, ())
            else:
                (created,) = self._journal.store.journal(facts.parent, limit=1)
                assert isinstance(created.event, e.SessionCreated)
                above = self._find(facts.parent, created.event, None if parent is None else parent.spec)
        if spec is None:
            spec = self._load(facts)
        own = None if spec is None else spec.budget
        if own is not None and not self._environment.keeps_budget(session, self._journal.look().session(session).runs):
            own = None
        given: list[tuple[Scope, Budget | None]] = [("run", own)]
        if facts.parent is None:
            given.insert(0, ("tree", facts.budget or self._tree))
        known = {(each.session, each.scope) for each in self.above.get(session, ())}
        for scope, budget in given:
            if budget is not None and budget.limits and (session, scope) not in known:
                self._hold(session, scope, budget, None if spec is None else spec.approval_expires_in)
        if above and session not in self.above:
            self.above[session], self._roots[session], self._agents[session] = above, facts.root, facts.path[-1]
        return self.above.get(session, ())

    def _load(self, facts: e.SessionCreated) -> AgentSpec[Any, Any] | None:
        try:
            return self._find_agent(facts)
        except UnknownAgent:  # its run is blocked; what it has is not known
            return None

    def _hold(self, session: str, scope: Scope, budget: Budget, expires_in: float | None) -> None:
        """Begin to keep a budget: count what is used of it so far."""
        state, position = self._journal.look().session(session), self._journal.position
        root, depth = state.facts.root, len(state.facts.path)
        holder = Holder(session, scope, depth, budget, position, Used(), expires_in, limits=budget, told=set(), by={})
        began = 0
        if scope == "run":
            starts = self._journal.store.journal(state.id, only=_OF_RUNS)
            began = max((each.position for each in starts if each.event.again is None), default=0)  # type: ignore[union-attr]
        rows = self._journal.store.find_sessions(root=root)
        for row in rows:
            self._agents[row.id], self._roots[row.id] = row.agent, root
        below = [*_below(session, {row.id: row.parent for row in rows})]
        for each in below:
            for entry in self._journal.store.journal(each, only=_COUNTED):
                if began <= entry.position <= position:
                    self._count((holder,), entry)
        for row in rows:  # nothing is read from here on: the holder is known whole, or not at all
            self.above.setdefault(row.id, self.above.get(row.parent or "", ()))
        for each in below:
            self.above[each] = tuple(sorted((*self.above.get(each, ()), holder), key=_outermost))
        self._know(holder, state)

    def _know(self, holder: Holder, state: SessionState) -> None:
        """Take what a session's journal says of a budget."""
        holder.limits = limits_now(state, holder.base, holder.scope)
        holder.told = set(state.budgeting.noticed)
        holder.question = state.budgeting.pending(holder.scope)
        if holder.question is not None:
            self._expire_later(holder, state)

    # -- reservations ------------------------------------------------------------------------------------------------

    async def reserve(
        self, attempt: Attempt, wants: Used | Usage | None, *, in_operation: bool, may_wait: bool = True
    ) -> Reservation | None:
        holders = self.above.get(attempt.session, ()) if await self.bounds(attempt) else ()
        if not holders or attempt.stop_reason is not None:
            return None
        if not isinstance(wants, Used):
            wants = self._of_request(attempt, wants, holders[0])
        elif wants.requests:
            wants = msgspec.structs.replace(holders[0].largest, calls=wants.calls)
        asked = _Waiting(wants, attempt.wake, holders=holders)
        root = attempt.state.facts.root
        queue = self._queues.setdefault(root, [])
        if not may_wait and self._must_wait(queue, asked):
            return None
        queue.append(asked)
        self._look(root)
        if asked.is_granted:
            return asked
        if not in_operation:
            attempt.begin_operation()
        try:
            await self._until_granted(attempt, asked)
        finally:
            if not in_operation:
                await attempt.end_operation()
        return asked if asked.is_granted else None

    async def _until_granted(self, attempt: Attempt, asked: _Waiting) -> None:
        """Wait until a reservation is granted. It is taken back if the wait ends otherwise: with that of its task, or
        since the run was told to end."""
        self._number += 1
        name = f"budget:{self._number}"
        try:
            while not (asked.is_granted or attempt.is_ending):
                key = asked.key
                await attempt.wait(name, key, partial(_has_changed, attempt, asked, key))
        except BaseException:
            self.release(attempt, asked)
            raise
        if not asked.is_granted:
            self.release(attempt, asked)

    def _must_wait(self, queue: Collection[_Waiting], asked: _Waiting) -> bool:
        full = {
            (holder, kind) for each in queue for holder in each.holders for kind in _lacking(holder, each.wants, ())
        }
        return any([*_lacking(holder, asked.wants, full)] for holder in asked.holders)

    def _of_request(self, attempt: Attempt, reserve: Usage | None, outermost: Holder) -> Used:
        largest = outermost.largest
        if reserve is None:
            return largest
        given = attempt.host.price(reserve)
        found = used_in(given)
        return found if given.usd is not None or not found.requests else msgspec.structs.replace(found, usd=largest.usd)

    def release(self, attempt: Attempt, reservation: Reservation | None) -> None:
        if not isinstance(reservation, _Waiting):
            return
        root = attempt.state.facts.root
        queue = self._queues.get(root, [])
        if reservation in queue:
            queue.remove(reservation)
        elif reservation.is_granted:
            reservation.is_granted = False
            for holder in reservation.holders:
                holder.reserved -= reservation.wants
        self._look(root)

    def stopped(self, attempt: Attempt) -> None:
        """Let what an attempt waits for go on: it was told to stop."""
        if attempt.is_bounded:
            for asked in self._queues.get(attempt.state.facts.root, ()):
                asked.wake(asked.key)

    def _look(self, root: str) -> None:
        """Grant what can be granted, in order; ask a person where that must be."""
        queue = self._queues.get(root)
        if not queue:
            return
        full: set[tuple[Holder, str]] = set()
        for asked in [*queue]:
            lacking = [(holder, kind) for holder in asked.holders for kind in _lacking(holder, asked.wants, full)]
            if not lacking:
                queue.remove(asked)
                asked.is_granted = True
                for holder in asked.holders:
                    holder.reserved += asked.wants
                asked.wake(asked.key)
                continue
            first = [holder for holder, kind in lacking if (holder, kind) not in full]
            full.update(lacking)
            over = next((holder for holder in first if [*exceeded(holder.limits, holder.used + asked.wants)]), None)
            if over is not None:
                self._ask_soon(over)
            waits_for = over or next((holder for holder, _ in lacking if holder.question or holder.is_asking), None)
            key = IN_FLIGHT if waits_for is None else waits_for.key
            if key != asked.key:
                was, asked.key = asked.key, key
                asked.wake(was)

    # -- asking ------------------------------------------------------------------------------------------------------

    def _ask_soon(self, holder: Holder) -> None:
        if holder.question is None and not holder.is_asking:
            holder.is_asking = True
            self._attempts.start_soon(self._ask, holder)

    async def _ask(self, holder: Holder) -> None:
        if (root := self._roots.get(holder.session)) is None:  # the tree has ended
            return
        approval = self._environment.new_approval_id(root)

        def plan(view: View) -> list[Entry]:
            state, now = view.session(holder.session), self._clock.now()
            is_asked = state.budgeting.pending(holder.scope) is not None
            waiting = self._first_waiting(holder)
            if state.phase != "open" or is_asked or waiting is None:
                return []
            if holder.base.on_exhausted == "end":
                used = used_text(holder.limits, holder.used, holder.spent)
                return [*end_run(view, state, BY_ITSELF, f"{whose(state, holder.scope)} is used up ({used})", now)]
            asked = question(
                state,
                holder.scope,
                holder.base,
                holder.used,
                waiting.wants,
                holder.spent,
                _told(holder),
                approval=approval,
                at=now,
                expires_at=expiry(now, holder.expires_in),
            )
            return [(holder.session, asked)]

        try:
            await self._journal.append(plan)
        except StoreError as error:
            self._attempts.suspend_root(root, error)
        finally:
            holder.is_asking = False
        if holder.question is None:  # a run that fell asleep for it meanwhile looks again
            await self._wake_sleepers(root)

    def _first_waiting(self, holder: Holder) -> Reservation | None:
        """Return what still waits for a larger budget."""
        queue = self._queues.get(self._roots.get(holder.session, ""), ())
        waiting = (each for each in queue if holder in each.holders)
        return next((each for each in waiting if [*exceeded(holder.limits, holder.used + each.wants)]), None)

    def _expire_later(self, holder: Holder, state: SessionState) -> None:
        record = state.budgeting.asides[holder.question or ""]
        if record.expires_at is not None:
            due = self._clock.timer(record.expires_at, record.began_at)
            self._alarm.take_back(self._expiries.get(holder.key))
            self._expiries[holder.key] = self._alarm.at(
                due, lambda: self._attempts.start_soon(self._expire, holder.session, holder.question)
            )

    async def _expire(self, session: str, name: str | None) -> None:
        def plan(view: View) -> list[Entry]:
            state, now = view.session(session), self._clock.now()
            record = state.budgeting.asides.get(name or "")
            if record is None or (approval := record.pending_approval) is None:
                return []
            expired = e.ApprovalExpired(at=now, operation=name or "", approval=approval)
            return [(session, expired), *follow_decision(view, state, expired, now)]

        await self._append(session, plan)

    async def _append(self, session: str, plan: Callable[[View], Iterable[Entry]]) -> None:
        try:
            await self._journal.append(plan)
        except StoreError as error:
            log.error("budget.not_journaled", session=session, reason=str(error))

    # -- what is published -------------------------------------------------------------------------------------------

    def published_end(self, row: JournalEntry) -> None:
        """Take a committed entry of a kind in ENDS_A_WAIT, of whichever process."""
        if is_of_budget(row.event):
            self._attempts.start_soon(self._wake_sleepers, row.session)

    def published(self, rows: Collection[JournalEntry]) -> None:
        """Take committed entries, of whichever process, if there is a budget here (`above`)."""
        touched: dict[str, None] = {}
        for row in rows:
            match row.event:
                case e.SessionCreated(parent=str() as parent) if parent in self.above:
                    self.above.setdefault(row.session, self.above[parent])
                    self._roots[row.session], self._agents[row.session] = row.event.root, row.event.path[-1]
                case _ if row.session in self.above:
                    if self._take(row):
                        touched[self._roots[row.session]] = None
                case _:
                    pass
        for root in touched:
            self._look(root)

    def _take(self, row: JournalEntry) -> bool:
        """Take an entry of a tree with a budget; return whether it may let something go on."""
        event, holders = row.event, self.above[row.session]
        own = [holder for holder in holders if holder.session == row.session and row.position > holder.since]
        match event:
            case e.UsageSpent() | e.ToolCallRequested() if not is_aside(event.operation):
                self._count([holder for holder in holders if row.position > holder.since], row)
                for holder in holders:
                    self._notice(holder)
                return True
            case e.RunStarted(again=None):
                for holder in own:
                    if holder.scope == "run":
                        holder.used, holder.limits, holder.by = Used(), holder.base, {}
                return False
            case e.RunFinished() if self._roots[row.session] == row.session:
                self._forget(row.session)
                return False
            case _ if is_of_budget(event) or isinstance(event, e.ToolCallFinished):
                for holder in own:
                    self._move(holder, event)
                return True
            case _:
                return False

    def _move(self, holder: Holder, event: Any) -> None:
        """Take an entry about a budget itself."""
        match event:
            case e.BudgetRaised() if event.scope in (None, holder.scope):
                given = {kind: limit for kind in KINDS if (limit := getattr(event, kind)) is not None}
                holder.limits, holder.told = raised(holder.limits, given), set()
            case e.ToolCallRequested() if scope_of(event.operation) == holder.scope:
                holder.question = event.operation
                self._attempts.start_soon(self._plan_expiry, holder)
            case e.ToolCallFinished() if holder.question == event.operation:
                holder.question = None
                self._alarm.take_back(self._expiries.pop(holder.key, None))
            case _:
                pass

    async def _plan_expiry(self, holder: Holder) -> None:
        if holder.expires_in is not None and holder.question is not None:
            self._expire_later(holder, self._journal.look().session(holder.session))

    def _count(self, holders: Iterable[Holder], row: JournalEntry) -> None:
        match row.event:
            case e.UsageSpent(usage=usage):
                for holder in holders:
                    holder.add(usage, self._agents.get(row.session, ""))
            case e.ToolCallRequested(operation=operation) if not is_aside(operation):
                for holder in holders:
                    holder.used += A_CALL
            case _:
                pass

    def _forget(self, root: str) -> None:
        """Drop a tree whose run has ended; a later turn counts it again."""
        gone = [session for session, of in self._roots.items() if of == root]
        for session in gone:
            for holder in self.above.pop(session, ()):
                self._alarm.take_back(self._expiries.pop(holder.key, None))
            self._agents.pop(session, None)
            del self._roots[session]
        self._queues.pop(root, None)

    # -- notices -----------------------------------------------------------------------------------------------------

    def _notice(self, holder: Holder) -> None:
        """Tell people once that much of a budget is used, and once that something is not in its sums."""
        limits = holder.limits
        is_near = any(
            getattr(holder.used, kind) >= NOTICED_AT * limit for kind, limit in limits.limits.items() if limit
        )
        for is_meant, is_unknown in ((is_near, False), (holder.unknown, True)):
            name = noticed_as(holder.scope, is_unknown=is_unknown)
            if is_meant and name not in holder.told:
                holder.told.add(name)
                self._attempts.start_soon(self._tell, holder, name, is_unknown)

    async def _tell(self, holder: Holder, name: str, is_unknown: bool) -> None:  # start_soon takes no keywords
        def plan(view: View) -> list[Entry]:
            state = view.session(holder.session)
            if not state.is_open or name in state.budgeting.noticed:
                return []
            text = f"{whose(state, holder.scope)}: {used_text(holder.limits, holder.used, holder.spent)} used"
            if is_unknown:
                total = holder.spent
                text = (
                    f"{whose(state, holder.scope)} does not count everything: {money_text(total)}, {tokens_text(total)}"
                )
            noticed = e.BudgetNoticed(
                at=self._clock.now(), scope=holder.scope, text=printable_text(text), is_unknown=is_unknown
            )
            return [(holder.session, noticed)]

        await self._append(holder.session, plan)

    # -- sleepers ----------------------------------------------------------------------------------------------------

    def recover(self, trees: Mapping[str, Sequence[Approval]]) -> None:
        """Look at the questions of trees that this process has claimed: today's budgets may be larger, or gone."""
        sessions = {each.session for asked in trees.values() for each in asked if is_aside(each.operation)}
        if sessions:
            self._attempts.start_soon(self._look_again, sorted(sessions))

    def wake(self, root: str) -> None:
        """Wake the runs of a tree that this process has claimed, and that sleep for a budget that was decided."""
        self._attempts.start_soon(self._wake_sleepers, root)

    async def _look_again(self, sessions: Sequence[str]) -> None:
        for session in sessions:
            try:
                await until_answered(self._find_anew, session)
            except StoreError as error:  # the launcher reports it, too
                log.error("budget.unreadable", session=session, reason=str(error))
            else:
                await self._withdraw_if_enough(session)

    def _find_anew(self, session: str) -> None:
        self._find(session, self._journal.look().session(session).facts, None)

    async def _withdraw_if_enough(self, session: str) -> None:
        """Withdraw a question whose budget is large enough by now: the configuration has another one."""
        holders = {each.scope: each for each in self.above.get(session, ()) if each.session == session}

        def plan(view: View) -> Iterator[Entry]:
            state = view.session(session)
            for name, record in state.budgeting.asides.items():
                if record.pending_approval is None or state.phase != "open":
                    continue
                holder = holders.get(scope_of(name))
                one = Used(requests=1, calls=1)
                if holder is None or not [*exceeded(limits_now(state, holder.base, holder.scope), holder.used + one)]:
                    yield from withdraw(state, name, "the configured budget is larger now", self._clock.now())

        await self._append(session, lambda view: list(plan(view)))

    async def _wake_sleepers(self, session: str) -> None:
        """Journal in each run of the session's tree that sleeps for a budget that its question is over, as far as it
        is."""
        store = self._journal.store
        row = await until_answered(store.get_session, session)
        if row is None or not store.owns(root := row.root):
            return
        rows = await until_answered(store.find_sessions, root=root, is_open=True)
        sleepers = [row.id for row in rows if row.waits_for_budget]

        def plan(view: View) -> Iterator[Entry]:
            for session in sleepers:
                state = view.session(session)
                for key in state.waiting_for or ():
                    if key.startswith(KEY) and state.phase == "open" and not _is_asked(view, key):
                        yield session, e.BudgetAnswered(at=self._clock.now(), key=key)
                        break

        if sleepers:
            await self._append(root, lambda view: list(plan(view)))


def _is_asked(view: View, key: str) -> bool:
    """Whether the question for which a run sleeps waits for a person."""
    session, _, scope = key.removeprefix(KEY).rpartition(":")
    found = view.find_session(session)
    return found is not None and found.budgeting.pending("tree" if scope == "tree" else "run") is not None


def _below(top: str, parents: dict[str, str | None]) -> Iterator[str]:
    """Yield a session and all below it: each stands after its parent."""
    found = {top}
    for session, parent in parents.items():
        if session == top or parent in found:
            found.add(session)
            yield session


def _outermost(holder: Holder) -> tuple[int, bool]:
    return holder.depth, holder.scope == "run"


def _lacking(holder: Holder, wants: Used, full: Collection[tuple[Holder, str]]) -> Iterator[str]:
    """Yield the kinds of which a budget has not enough left, or for which something waits before."""
    over = {*exceeded(holder.limits, holder.used)}
    short = {*exceeded(holder.limits, holder.used + holder.reserved + wants)}
    for kind in holder.limits.limits:
        if kind in over or (getattr(wants, kind) and (kind in short or (holder, kind) in full)):
            yield kind


def _has_changed(attempt: Attempt, asked: Reservation, key: str) -> bool:
    return asked.is_granted or asked.key != key or attempt.is_ending


def _told(holder: Holder) -> Iterator[str]:
    """Yield lines that say which agent has spent what on which model, the most expensive first."""
    found = sorted(holder.by.items(), key=lambda each: (-each[1].usd, -each[1].tokens, each[0]))
    for (agent, model), spent in found[:_MOST_TOLD]:
        yield f"{agent}, {model or 'unknown model'}: {money_text(spent)}, {requests_text(spent)}, {tokens_text(spent)}"
    if len(found) > _MOST_TOLD:
        yield f"and {len(found) - _MOST_TOLD} more; supervisor usage {holder.session} lists all"
