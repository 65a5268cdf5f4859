"""The runner is the host of attempts. It runs them, tells them about committed entries, and composes the other parts.

attempts.py holds the state that the parts share. launch.py begins attempts, passivate.py passivates them, blocked.py
keeps the runs that their code cannot follow, and finish.py writes outcomes.

Rules
- A session has at most one attempt in memory.
- Only our own cancellations reach an attempt. If an agent raises a cancellation of none of its scopes, only that run
  fails.
- An attempt that has not ended `stop_timeout` after it was told to is abandoned, with an error in the log (W13).

The module is longer than 400 lines because it is one interface: what attempts and the other parts ask of their host.
"""

import os
from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio
import msgspec

from supervisor.core import events as e
from supervisor.core.approvals.state import ASKS, PENDING, ends_approval
from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import StoreError, StoreUnreadable, Suspended
from supervisor.core.ids import RULES, SCHEDULES
from supervisor.core.limits import Limit, named_limits
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.state import SAYS, SessionState
from supervisor.core.usage import Usage
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.bodies import GRACE_SECONDS, Bodies
from supervisor.runtime.attempt.host import StopReason
from supervisor.runtime.attempt.jobs import Jobs, NoJobs
from supervisor.runtime.attempt.native_cancellation import is_own_doing, take_pending
from supervisor.runtime.attempt.settling import own_tasks
from supervisor.runtime.clock.alarm import Alarm
from supervisor.runtime.clock.clock import Clock
from supervisor.runtime.clock.watchdog import Watchdog
from supervisor.runtime.environment import Environment
from supervisor.runtime.journal.hub import ASKED, INBOX, INBOX_EVENTS, Hub, end_key
from supervisor.runtime.journal.signals import Signal
from supervisor.runtime.journal.writer import Entry, Journal
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.lifecycle.blocked import BLOCKING, Blocked, Replayed
from supervisor.runtime.lifecycle.budgets import ENDS_A_WAIT, Budgets
from supervisor.runtime.lifecycle.claim import Claims
from supervisor.runtime.lifecycle.classify import ending_of, wait_for_children
from supervisor.runtime.lifecycle.finish import Finishing
from supervisor.runtime.lifecycle.launch import Launcher
from supervisor.runtime.lifecycle.limits import Limits
from supervisor.runtime.lifecycle.orphans import OrphanedProcesses
from supervisor.runtime.lifecycle.passivate import Passivation
from supervisor.runtime.lifecycle.restart import restart_or_end
from supervisor.runtime.operations.context import LocalContext
from supervisor.runtime.plans.end import Ending, cancel_cause
from supervisor.runtime.plans.results import denial
from supervisor.runtime.plans.rules import Ruling
from supervisor.seam.store import Store
from supervisor.system.forks import end_copy
from supervisor.system.loading import load_recorded
from supervisor.system.logs import FactLog
from supervisor.system.prices import Prices, genai_price, priced

log = FactLog(__name__)

FEW: Final = 100  # above this number of attempts, listing all tasks at the start of a replay would cost too much


class Raised:
    """The exception that a run's agent raised, kept in the process in which it ran."""

    error: BaseException | None = None


def _why_left(attempt: Attempt) -> str | None:
    return None if attempt.stop_reason is None else attempt.stop_reason.kind


def _find_agent(created: e.SessionCreated) -> AgentSpec[Any, Any]:
    return load_recorded(created.agent, created.file, created.path[-1])


class _Acting(AbstractContextManager[None]):
    """Counts the work that a graceful stop waits for. Each call enters it twice, and a generator takes longer."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        self._attempts.note_change()


class Runner:
    """Runs the attempts of this process, and is their host.

    `passivate_after`: None keeps each attempt in memory as long as it waits, for a process that no run outlives.
    `find_agent` loads the agent of a session. `jobs` makes the part that watches background jobs. `replayed` is passed
    if attempts are only replayed (supervisor/wiring/checking.py): the runner calls it with the result of each, and
    nothing new begins. `environment` gives time, ids and randomness, and runs bodies; None stands for this process.
    `limits` bound what runs at once (L1).
    `prices` says what requests to models cost. `budget` is that of trees that are started without one.
    """

    def __init__(
        self,
        store: Store,
        passivate_after: float | None = 60.0,
        *,
        rules: Sequence[Rule] = (),
        orphans: OrphanedProcesses | None = None,
        jobs: Callable[[Journal, Clock], Jobs] | None = None,
        find_agent: Callable[[e.SessionCreated], AgentSpec[Any, Any]] = _find_agent,
        replayed: Replayed | None = None,
        environment: Environment | None = None,
        limits: Sequence[Limit] = (),
        prices: Prices = genai_price,
        budget: Budget | None = None,
    ) -> None:
        self.environment = environment or Environment()
        self._prices = prices
        self.clock = self.environment.clock
        if store.is_shared:
            self.clock.skew = store.skew
        self.alarm = Alarm()
        self.watchdog = Watchdog(self.alarm, is_on=not self.environment.runs_elsewhere)
        self.hub = Hub()
        self.attempts = Attempts(store, self._published, self.clock, self.alarm, self.hub)
        self.bodies = Bodies(self.attempts.start_apart)
        self.journal = self.attempts.journal
        self.rules = Ruling(rules)
        self.asking: MutableMapping[str, Callable[[msgspec.Raw], None]] = {}
        for kept, fact in ((RULES, "rules.unreadable"), (SCHEDULES, "schedules.unreadable")):
            try:
                self.journal.keep(kept)
            except StoreUnreadable as error:
                log.error(fact, store=store.name, reason=str(error))
        self.jobs = NoJobs() if jobs is None else jobs(self.journal, self.clock)
        self.find_agent = find_agent
        self.orphans = orphans or OrphanedProcesses()
        self.blocked = Blocked(self.attempts, replayed)
        self.finishing = Finishing(self.attempts, self.orphans)
        self.launcher = Launcher(
            self.attempts,
            self.blocked,
            self.finishing,
            self.orphans,
            find_agent=find_agent,
            agent_to_begin=self.environment.agent_to_begin,
            begin=self.begin,
        )
        self.launcher.claimed.connect(self.jobs.recover)
        self.claims = Claims(self.attempts, self.launcher, self.jobs)
        self.limits = Limits(self.attempts, named_limits(limits))
        self.launcher.sleeps_for_limit.connect(self.limits.recover)
        self.budgets = Budgets(self.attempts, self.environment, find_agent, budget)
        self.launcher.claimed.connect(self.budgets.recover)
        self.launcher.sleeps_for_budget.connect(self.budgets.wake)
        self.passivation = Passivation(self.attempts, self.blocked, passivate_after)
        self.came_for_unowned = Signal[str]()
        """An entry for a session without an attempt was committed, in the tree of another or of no process."""
        self.published: list[Callable[[Sequence[JournalEntry]], object]] = []
        """Called with the entries of each commit, here or by another process."""
        self.began_elsewhere = Signal[str]()
        """A session or an attempt of it has begun in another process."""
        self.raised: WeakValueDictionary[tuple[str, int], Raised] = WeakValueDictionary()
        """The exceptions of runs (session, number), each for as long as a program holds the run's handle."""
        self._opener = anyio.get_current_task()
        self.acting = _Acting(self.attempts)
        self.only_replays = self.blocked.only_replays
        self.start_soon = self.attempts.start_soon
        self.expect, self.forget = self.attempts.expect, self.attempts.forget
        self._listeners: dict[object, list[Callable[[JournalEntry], object]]] = {}
        self.listen(BLOCKING, self.blocked.published)
        self.listen(ENDS_A_WAIT, self.budgets.published_end)
        self.listen(SAYS, self.hub.texts.published)
        self.listen(_ENDING, self._ended)
        self.listen(INBOX_EVENTS, lambda row: self.hub.publish(INBOX))
        self.listen(ASKS, lambda row: self.hub.publish(ASKED))

    @property
    def is_idle(self) -> bool:
        """Whether only a person can let a run continue: no task is at work, and no timer will wake a run of ours."""
        return not (self.attempts.has_tasks or self.launcher.has_timers() or self.limits.has_sleepers)

    @property
    def calls_under_way(self) -> int:
        """How many tool calls are under way, from the commit of `executing` to that of the result."""
        return self.acting.count

    def listen(self, kinds: Collection[object], listener: Callable[[JournalEntry], object]) -> None:
        """Call `listener` with each entry of these kinds that is committed, here or by another process."""
        for kind in kinds:
            self._listeners.setdefault(kind, []).append(listener)

    # -- the host of attempts ----------------------------------------------------------------------------------------

    @property
    def is_draining(self) -> bool:
        return self.attempts.is_draining

    @property
    def is_closed(self) -> bool:
        return self.attempts.is_closed

    @property
    def may_be_left(self) -> bool:
        """Whether the supervisor is closed, or may be about to be: the task that opened it has just been cancelled."""
        return self.is_closed or self._opener.has_pending_cancellation()

    def price(self, usage: Usage) -> Usage:
        """Return a usage with its price, which is the one of now."""
        return priced(usage, self._prices)

    def begin(self, session: str, spec: AgentSpec[Any, Any]) -> None:
        """Run an attempt whose AttemptStarted is committed."""
        self.attempts.preparing.discard(session)
        self.attempts.again.discard(session)
        self.attempts.endings.pop(session, None)  # of an earlier attempt
        attempt = self.attempts.live[session] = Attempt(self, session, spec)
        self.attempts.start_entered(self._run, attempt)
        if (cancel := attempt.state.cancel) is not None:
            attempt.stop(StopReason("cancelled", cancel_cause(cancel)))
        elif self.is_closed:
            attempt.stop(StopReason("suspended", "the supervisor was stopped"))

    def grew_quiet(self, attempt: Attempt) -> None:
        self.limits.grew_quiet(attempt)
        self.passivation.look_at(attempt)

    def waits_for_replay(self, attempt: Attempt) -> None:
        self.passivation.look_for_divergence(attempt)

    def follows(self, attempt: Attempt) -> None:
        if attempt.state.blocked is not None:
            self.blocked.look_for_end(attempt)

    def stopped(self, attempt: Attempt) -> None:
        assert attempt.stop_reason is not None
        log.debug(
            "run.stopped", session=attempt.session, kind=attempt.stop_reason.kind, cause=attempt.stop_reason.cause
        )
        self.limits.stopped(attempt)
        self.budgets.stopped(attempt)
        due = anyio.current_time() + attempt.spec.stop_timeout
        attempt.overdue = self.alarm.at(due, partial(self._overdue, attempt))

    def suspend_tree(self, attempt: Attempt, error: StoreError) -> None:
        """Suspend the tree of an attempt whose entries the store refuses, unless its session has left memory since. No
        run of it fails; all can be resumed."""
        if (state := self.journal.states.get(attempt.session)) is not None:
            self.attempts.suspend_root(state.facts.root, error)

    def begin_again(self, attempt: Attempt, why: StoreError) -> None:
        """Let another attempt follow at once."""
        attempt.stop(StopReason("suspended", str(why)))
        self.launcher.launch(attempt.session)

    def follow(self, state: SessionState, decided: e.AnyEvent) -> Iterator[Entry]:
        """Yield the entry that is journaled with a decision: a denial is the result of a call that waits here.

        `executing` is not journaled with an approval: if this process died before the call began, the call would be
        interrupted although it never ran.
        """
        attempt = self.attempts.live.get(state.id)
        if not ends_approval(decided) or (said := PENDING.apply(decided)).status != "denied":
            return
        is_waiting = attempt is not None and attempt.stop_reason is None and decided.operation in attempt.waiting
        if is_waiting and state.cancel is None and state.operations[decided.operation].is_call:
            yield state.id, denial(decided.operation, said, self.clock.now(), is_former=self.environment.is_former)

    # -- committed entries -------------------------------------------------------------------------------------------

    def _published(self, rows: list[JournalEntry]) -> None:
        sleepers: dict[str, e.AnyEvent] = {}  # each is told once: one batch may end a thousand children of a parent
        for row in rows:
            session, event = row.session, row.event
            kind = type(event)
            attempt = self.attempts.live.get(session)
            if attempt is not None:
                self._tell(attempt, event)
            elif kind in _WAKING and not isinstance(sleepers.get(session), e.CancelRequested):
                sleepers[session] = event
            elif kind in _BEGINNING and session not in self.attempts.preparing:
                self.began_elsewhere.send(session)
            for listener in self._listeners.get(kind, ()):
                listener(row)
            self.hub.publish(session)
        if self.budgets.above:
            self.budgets.published(rows)
        for session, event in sleepers.items():
            self.attempts.ask(self._tell_sleeper, session, event)
        for hear in self.published:
            hear(rows)
        self.attempts.note_change()

    def _ended(self, row: JournalEntry) -> None:
        session = row.session
        self.limits.ended(session)
        if isinstance(row.event, e.RunFinished):
            self.attempts.endings.pop(session, None)
            self.orphans.forget(session)
            self.hub.publish(end_key(session))
            if session not in self.attempts.live:
                self.attempts.let_go(session)

    def _tell(self, attempt: Attempt, event: e.AnyEvent) -> None:
        if (key := e.answers(event)) is not None:
            attempt.wake(key)
        match event:
            case e.RunPassivated():
                attempt.stop(StopReason("passivated"))
            case e.CancelRequested():
                attempt.stop(StopReason("cancelled", cancel_cause(event)))
            case _:
                pass

    def _tell_sleeper(self, session: str, event: e.AnyEvent) -> None:
        """Act on an entry for a session that is not in memory, if this process owns its tree (R2)."""
        if isinstance(event, e.CancelRequested) and event.origin != session:
            return
        row = self.journal.store.get_session(session)
        if row is None or row.outcome is not None or self.is_closed:
            return
        if not self.journal.store.owns(row.root):
            self.came_for_unowned.send(row.root)
        elif isinstance(event, e.CancelRequested):
            self.start_soon(self.finishing.end_tree, session)
        else:
            self.launcher.launch(session)

    # -- one attempt -------------------------------------------------------------------------------------------------

    async def _run(self, attempt: Attempt) -> None:
        with self.attempts, self.environment.attempting(attempt.session, lambda: _why_left(attempt)):
            returned: list[Any] = []
            raised: BaseException | None = None
            attempt.task, attempt.deadline = anyio.get_current_task().id, anyio.current_effective_deadline()
            if attempt.replay.is_replaying and len(self.attempts.live) <= FEW:
                attempt.strangers = frozenset(task.id for task in anyio.get_running_tasks() if task.parent_id is None)
            try:
                with attempt.external, attempt.inner:
                    await attempt.wait_for_turn()
                    own_tasks(attempt.settling)
                    attempt.settling.begin()
                    given = attempt.read(None, lambda: attempt.spec.decode_input(attempt.state.input))
                    if not attempt.replay.is_replaying:
                        self.follows(attempt)
                    process = os.getpid()
                    try:
                        returned.append(await attempt.spec.invoke(LocalContext(attempt), *given))
                    finally:
                        end_copy(process)
                    await wait_for_children(attempt)
            except BaseException as error:  # noqa: BLE001 # ending_of raises it again unless it is the agent's own
                raised = error
            if raised is not None and not isinstance(raised, Exception):
                await is_own_doing(attempt)
            task = anyio.get_current_task()
            await take_pending(task)
            await self._end(attempt, returned, raised)
            await take_pending(task)

    async def _end(self, attempt: Attempt, returned: list[Any], raised: BaseException | None) -> None:
        sleeps = False
        try:
            ending, failed = ending_of(attempt, returned, raised)
            attempt.watch.disarm()
            if self.only_replays:
                self.blocked.note_replayed(attempt)
            elif ending is None:
                sleeps = attempt.stop_reason is not None and attempt.stop_reason.kind in ("passivated", "blocked")
                if attempt.block is not None:
                    await self.blocked.settle(attempt.session, attempt.block, attempt.run)
                else:
                    await self.finishing.settle(attempt)
            elif not attempt.has_ended:
                self.alarm.take_back(attempt.overdue)
                ending = await restart_or_end(attempt, ending, failed)
                sleeps = ending is None
                if ending is not None:
                    if (kept := self.raised.get((attempt.session, attempt.run))) is not None:
                        kept.error = ending.error
                    await self.finishing.finish(attempt, ending)
        except Suspended as error:
            self.attempts.refuse(attempt.session, str(error))
        except StoreError as error:
            self.attempts.refuse_for(attempt.session, error)
        finally:
            self._leave(attempt, sleeps=sleeps)

    def _overdue(self, attempt: Attempt, *, may_wait: bool = True) -> None:
        """Abandon an attempt that was told to end and has not, and log an error (W13). It gets the grace more, once, if
        it waits for a body: that is left then (runtime/attempt/bodies.py)."""
        if attempt.has_ended or attempt.session in self.attempts.endings or attempt.stop_reason is None:
            return
        if may_wait and self.bodies.is_ending(attempt.session):
            due = anyio.current_time() + GRACE_SECONDS
            attempt.overdue = self.alarm.at(due, partial(self._overdue, attempt, may_wait=False))
            return
        log.error("run.overdue", session=attempt.session, stop_timeout=attempt.spec.stop_timeout)
        attempt.seal()
        if not attempt.stop_reason.is_pause:
            cause = f"it did not end within {attempt.spec.stop_timeout:g} s of being stopped ({attempt.stop_reason})"
            attempt.has_ended = True
            ending = Ending(kind="abandoned", cause=cause)
            self.attempts.endings[attempt.session] = ending  # set before its task ends, so that its state stays
            self.start_soon(self.finishing.finish, attempt, ending)

    def _leave(self, attempt: Attempt, *, sleeps: bool) -> None:
        """Drop an attempt whose task has ended from memory. Launch the next one at once if an entry came meanwhile."""
        session = attempt.session
        state = attempt.state
        del self.attempts.live[session]
        self.hub.signs.pop(session, None)
        self.hub.texts.drop(session)
        self.alarm.take_back(attempt.overdue)
        self.alarm.take_back(attempt.written_at)
        self.passivation.forget(attempt)
        self.limits.left(attempt)
        attempt.has_ended = True
        attempt.seal()  # a timer that fires just now may still wait for its turn
        if not state.is_open or session not in self.attempts.endings:
            self.attempts.endings.pop(session, None)
            self.journal.unpin(session)
        is_wanted = session in self.attempts.again
        self.attempts.again.discard(session)
        if state.is_open and (is_wanted or state.runs != attempt.run):
            self.launcher.launch(session)
        elif state.is_open and sleeps and not self.is_closed:
            if state.cancel is not None and state.cancel.origin == session:
                self.start_soon(self.finishing.end_tree, session)
            elif state.cancel is None and state.waiting_for is None:
                self.launcher.launch(session)
            else:
                self.attempts.ask(self._wake_when_due, session)
        self.attempts.note_change()

    def _wake_when_due(self, session: str) -> None:
        """Wake a session that left memory at its next timer: only now, since a live attempt cannot be woken, and by the
        instant on disk, since a note that came after the passivation is dropped with the attempt."""
        row = self.journal.store.get_session(session)
        if row is not None and row.due_at is not None and session not in self.attempts.live:
            self.launcher.wake_at(session, self.clock.timer(row.due_at, row.last_at))


_BEGINNING: Final = {e.AttemptStarted, e.SessionCreated}

_ENDING: Final = {e.CancelRequested, e.RunFinished}

_WAKING: Final = {*e.ANSWERS, e.CancelRequested}
"""Events that may let a session continue that is not in memory. They include messages, which begin turns."""
