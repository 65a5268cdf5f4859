"""Runs attempts: launches them, watches what is committed, ends them, and puts them to sleep.

All attempts live in one flat task group inside a shielded host task; the tree is data. Nobody's cancellation but ours
reaches them, and a stray cancellation out of one agent fails that run alone.

Rules
- A session has at most one attempt in memory. Which one begins, and when, is runtime/launching.py's.
- How the ending of an attempt becomes an outcome is runtime/concluding.py's.
- An attempt that ignores its end is abandoned after `stop_timeout`, loudly (W13).

The module is longer than 400 lines because it implements all that an attempt needs of its host.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from supervisor.abc import JournalEntry, Store
from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.blocking import Block
from supervisor.core.errors import StoreError, StoreRefused, Suspended
from supervisor.core.session import SessionState
from supervisor.logs import FactLog
from supervisor.runtime.agents import load_agent
from supervisor.runtime.alarm import Alarm
from supervisor.runtime.attempt import Attempt
from supervisor.runtime.background import Jobs, NoJobs
from supervisor.runtime.bell import Bell
from supervisor.runtime.blocked import Blocked
from supervisor.runtime.clock import Clock
from supervisor.runtime.concluding import Concluding
from supervisor.runtime.context import LocalContext
from supervisor.runtime.ending import Ending, cancel_cause
from supervisor.runtime.execution import ending_of, wait_for_children
from supervisor.runtime.host import Fate
from supervisor.runtime.hub import INBOX, INBOX_EVENTS, Hub, end_key
from supervisor.runtime.journal import Entry, Journal
from supervisor.runtime.launching import Launcher
from supervisor.runtime.lost import Survivors
from supervisor.runtime.quiet import Quiet
from supervisor.runtime.restarting import restart_or_end
from supervisor.runtime.results import denial
from supervisor.runtime.ruling import Ruling
from supervisor.runtime.settling import disowned, own
from supervisor.runtime.stray import is_own_doing
from supervisor.runtime.watchdog import Watchdog

log = FactLog(__name__)

FEW: Final = 100  # attempts in memory up to which it is worth looking at all tasks when another one replays


class Raised:
    """What the agent of a run raised, in the process in which it ran."""

    error: BaseException | None = None


class Runner:
    """The attempts of this process. Implements what an Attempt needs of its host."""

    def __init__(self, store: Store, passivate_after: float) -> None:
        self.clock = Clock()
        self.alarm = Alarm()
        self.watchdog = Watchdog(self.alarm)
        self.hub = Hub()
        self.journal = Journal(store, self._published, self._stop_unreadable, self._die)
        self.quiet = Quiet(self, passivate_after)
        self.live: dict[str, Attempt] = {}
        self.launcher = Launcher(self)
        self.blocked = Blocked(self)
        self.concluding = Concluding(self)
        self.refusals: dict[str, str] = {}
        """Why sessions of ours are not running: their agent is unknown, or the store refused them."""
        self.is_draining = False
        self.rules = Ruling(self.journal)
        self.is_closed = False
        self._opener = anyio.get_current_task()
        self.took_up: Callable[[str], None] = lambda root: None
        """Called when a tree has become ours to run."""
        self.came_for_nobody: Callable[[str], None] = lambda root: None
        """Called when something has come for a tree that is not ours."""
        self.jobs: Jobs = NoJobs()
        self.survivors = Survivors()
        self.find_agent: Callable[[e.SessionCreated], AgentSpec[Any, Any]] = _find_agent
        self.replayed: Callable[[str, Block | None], object] | None = None
        """Set where attempts are only replayed (supervisor/checking.py): what came of each. Then nothing new begins."""
        self.raised: WeakValueDictionary[tuple[str, int], Raised] = WeakValueDictionary()
        """Where the exception of a run (session, number) is kept for as long as a program holds the run's handle."""
        self._running = 0
        self._acting = 0
        self._changed = Bell()
        self._tasks: TaskGroup | None = None

    # -- tasks -------------------------------------------------------------------------------------------------------

    def serve_in(self, tasks: TaskGroup) -> None:
        """From now on attempts run in this task group, which nobody else cancels."""
        self._tasks = tasks

    def start_soon(self, fn: Callable[..., Awaitable[Any]], /, *args: Any) -> None:
        self._start(self._count, fn, *args)

    def _start(self, task: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start a task that enters the runner."""
        assert self._tasks is not None, "the runner has not been opened"
        self._running += 1
        with disowned():  # whichever agent's task this is
            self._tasks.start_soon(task, *args)

    async def _count(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> None:
        with self:
            await fn(*args)

    def __enter__(self) -> None:
        """Around each of the runner's tasks."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, anyio.get_cancelled_exc_class()):
            self.suspend_all("the supervisor fell")  # before the task group cancels those that did nothing wrong
        self._running -= 1
        self.note_change()

    @property
    def only_replays(self) -> bool:
        return self.replayed is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing can go on without a person: no task is at work, and no timer will wake a run of ours."""
        return not self._running and not self.launcher.has_timers()

    @property
    def is_empty(self) -> bool:
        """Whether no attempt is in memory, nor about to be."""
        return not self.live and not self.launcher.under_way

    @property
    def may_be_left(self) -> bool:
        """Whether we are being left, or who opened us was cancelled just now, and may be about to."""
        return self.is_closed or self._opener.has_pending_cancellation()

    @property
    def is_executing(self) -> bool:
        """Whether a tool call is under way, from the commit of `executing` to that of its result."""
        return self._acting > 0

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Surround what a graceful stop lets end (R8)."""
        self._acting += 1
        try:
            yield
        finally:
            self._acting -= 1
            if not self._acting:
                self.note_change()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until something about the attempts is so."""
        while not condition():
            await self._changed.wait()

    def note_change(self) -> None:
        self._changed.ring()

    # -- what an attempt needs of its host ---------------------------------------------------------------------------

    def expect(self, session: str) -> None:
        """A plan makes this session; until `begin`, or `forget` if it came to nothing, nobody else launches it."""
        self.journal.pinned.add(session)
        self.launcher.under_way.add(session)

    def forget(self, session: str) -> None:
        """What was expected did not come to be."""
        self.launcher.under_way.discard(session)
        self.journal.unpin(session)

    def begin(self, session: str, spec: AgentSpec[Any, Any]) -> None:
        """Run an attempt whose beginning is committed."""
        self.launcher.under_way.discard(session)
        self.launcher.again.discard(session)
        self.concluding.endings.pop(session, None)  # of an earlier attempt
        attempt = self.live[session] = Attempt(self, session, spec)
        self._start(self._run, attempt)
        if (cancel := attempt.state.cancel) is not None:
            attempt.stop(Fate("cancelled", cancel_cause(cancel)))
        elif self.is_closed:
            attempt.stop(Fate("suspended", "the supervisor was stopped"))

    def grew_quiet(self, attempt: Attempt) -> None:
        self.quiet.look_at(attempt)

    def waits_for_replay(self, attempt: Attempt) -> None:
        self.quiet.look_for_parting(attempt)

    def follows(self, attempt: Attempt) -> None:
        if attempt.state.blocked is not None:
            self.blocked.look_for_end(attempt)

    def stopped(self, attempt: Attempt) -> None:
        assert attempt.fate is not None
        log.debug("run.stopped", session=attempt.session, kind=attempt.fate.kind, cause=attempt.fate.cause)
        due = anyio.current_time() + attempt.spec.stop_timeout
        attempt.overdue = self.alarm.at(due, partial(self._overdue, attempt))

    def suspend_tree(self, attempt: Attempt, error: StoreError) -> None:
        """The store cannot take what an attempt appends: nothing of its tree fails, all of it can be resumed."""
        self.suspend_root(attempt.state.facts.root, error)

    def suspend_root(self, root: str, error: StoreError) -> None:
        """As `suspend_tree`, for whatever else a tree cannot go on without."""
        self.refusals[root] = str(error)
        for other in list(self.live.values()):
            if other.state.facts.root == root:
                other.stop(Fate("suspended", str(error)))
        self.hub.publish_all()

    def suspend_all(self, reason: str) -> None:
        """Stop every attempt so that it can be resumed."""
        self.is_closed = True
        for attempt in list(self.live.values()):
            attempt.stop(Fate("suspended", reason))

    def waits_of(self, session: str) -> Collection[str]:
        """Return what the attempt of a session waits for now; nothing if it has none here."""
        attempt = self.live.get(session)
        return attempt.waiting if attempt is not None else ()

    def _stop_unreadable(self, session: str, reason: str) -> None:
        """A newer program wrote into a journal of ours: that session stops, and only that one."""
        attempt = self.live.get(session)
        if attempt is not None and attempt.fate is None:
            attempt.stop(Fate("suspended", reason))
            self.refuse(session, reason)

    def refuse(self, session: str, reason: str) -> None:
        log.error("session.refused", session=session, reason=reason)
        self.refusals[session] = reason
        self.hub.publish(session)
        self.hub.publish(end_key(session))

    def refuse_for(self, session: str, error: StoreError) -> None:
        """What the store does not take of one session holds up its tree: whoever waits for the root is told, too."""
        self.refuse(session, str(error))
        if isinstance(error, StoreRefused) and (row := self.journal.store.get_session(session)) is not None:
            self.suspend_root(row.root, error)

    def follow(self, state: SessionState, decided: e.AnyEvent) -> Iterator[Entry]:
        """Return what is journaled with a decision: a denial is the result of the call, where that waits here.

        Not `executing` with an approval: if we died in between, a call that has not begun would be lost.
        """
        attempt = self.live.get(state.id)
        if not isinstance(decided, e.ApprovalDecided) or decided.decision != "deny":
            return
        is_waiting = attempt is not None and attempt.fate is None and decided.operation in attempt.waiting
        if is_waiting and state.cancel is None and state.operations[decided.operation].kind == "call":
            yield state.id, denial(decided, self.clock.now())

    # -- facts come up -----------------------------------------------------------------------------------------------

    def _published(self, rows: list[JournalEntry]) -> None:
        sleepers: dict[str, e.AnyEvent] = {}  # each is told once: a parent may hear of a thousand children in one batch
        for row in rows:
            attempt = self.live.get(row.session)
            if attempt is not None:
                self._tell(attempt, row.event)
            elif type(row.event) in _WAKING and not isinstance(sleepers.get(row.session), e.CancelRequested):
                sleepers[row.session] = row.event
            self.blocked.published(row.session, row.event)
            if isinstance(row.event, e.RunFinished):
                self.concluding.endings.pop(row.session, None)
                self.survivors.forget(row.session)
                self.hub.publish(end_key(row.session))
                if attempt is None and row.session not in self.launcher.under_way:
                    self.journal.unpin(row.session)
            self.hub.publish(row.session)
            if type(row.event) in INBOX_EVENTS:
                self.hub.publish(INBOX)
        for session, event in sleepers.items():
            self._tell_sleeper(session, event)
        self.note_change()

    def _tell(self, attempt: Attempt, event: e.AnyEvent) -> None:
        if (key := e.answers(event)) is not None:
            attempt.wake(key)
        match event:
            case e.RunPassivated():
                attempt.stop(Fate("passivated"))
            case e.CancelRequested():
                attempt.stop(Fate("cancelled", cancel_cause(event)))
            case _:
                pass

    def _tell_sleeper(self, session: str, event: e.AnyEvent) -> None:
        """Something came for a session that is not in memory: it is ours to see to if we own its tree (R2)."""
        if isinstance(event, e.CancelRequested) and event.origin != session:
            return
        row = self.journal.store.get_session(session)
        if row is None or row.outcome is not None or self.is_closed:
            return
        if not self.journal.store.owns(row.root):
            self.came_for_nobody(row.root)
        elif isinstance(event, e.CancelRequested):
            self.start_soon(self.concluding.end_tree, session)
        else:
            self.launcher.launch(session)

    def _die(self) -> None:
        for attempt in list(self.live.values()):
            attempt.stop(Fate("suspended", "the store has died"))
        self.hub.publish_all()
        self.note_change()

    # -- one attempt -------------------------------------------------------------------------------------------------

    async def _run(self, attempt: Attempt) -> None:
        with self:
            returned: list[Any] = []
            raised: BaseException | None = None
            attempt.task = anyio.get_current_task().id
            if attempt.memory.is_replaying and len(self.live) <= FEW:
                attempt.strangers = frozenset(task.id for task in anyio.get_running_tasks() if task.parent_id is None)
            try:
                with attempt.external, attempt.inner:
                    own(attempt.settling)
                    attempt.settling.begin()
                    given = attempt.read(None, lambda: attempt.spec.decode_input(attempt.state.input))
                    if not attempt.memory.is_replaying:
                        self.follows(attempt)
                    returned.append(await attempt.spec.fn(LocalContext(attempt), *given))
                    await wait_for_children(attempt)
            except BaseException as error:  # noqa: BLE001 # it is looked at next, and raised again if it is not the agent's
                raised = error
            if raised is not None and not isinstance(raised, Exception):
                await is_own_doing(attempt)
            await self._end(attempt, returned, raised)

    async def _end(self, attempt: Attempt, returned: list[Any], raised: BaseException | None) -> None:
        sleeps = False
        try:
            ending, failed = ending_of(attempt, returned, raised)
            attempt.watch.disarm()
            if self.replayed is not None:
                self.note_replayed(attempt)
            elif ending is None:
                sleeps = attempt.fate is not None and attempt.fate.kind in ("passivated", "blocked")
                if attempt.block is not None:
                    await self.blocked.settle(attempt, attempt.block)
                else:
                    await self.concluding.settle(attempt)
            elif not attempt.has_ended:
                self.alarm.take_back(attempt.overdue)
                ending = await restart_or_end(attempt, ending, failed)
                sleeps = ending is None
                if ending is not None:
                    if (kept := self.raised.get((attempt.session, attempt.run))) is not None:
                        kept.error = ending.error
                    await self.concluding.conclude(attempt, ending)
        except Suspended as error:
            self.refuse(attempt.session, str(error))
        except StoreError as error:
            self.refuse_for(attempt.session, error)
        finally:
            self._leave(attempt, sleeps=sleeps)

    def note_replayed(self, attempt: Attempt) -> None:
        """Say what came of an attempt that was only to be replayed: it is blocked, or has followed its journal."""
        if self.replayed is not None and (attempt.block is not None or attempt.memory.has_followed):
            self.replayed(attempt.session, attempt.block)
            attempt.stop(Fate("suspended", "it was only to be replayed"))
            self.note_change()

    def _overdue(self, attempt: Attempt) -> None:
        """An attempt was told to end, and has not: give it up, loudly (W13)."""
        if attempt.has_ended or attempt.session in self.concluding.endings or attempt.fate is None:
            return
        log.error("run.overdue", session=attempt.session, stop_timeout=attempt.spec.stop_timeout)
        attempt.seal()
        if not attempt.fate.is_pause:
            cause = (
                f"it ignored its end for {attempt.spec.stop_timeout:g} s ({attempt.fate.kind}: {attempt.fate.cause})"
            )
            attempt.has_ended = True
            ending = Ending(kind="abandoned", cause=cause)
            self.concluding.endings[attempt.session] = ending  # known before its task ends: then its state stays
            self.start_soon(self.concluding.conclude, attempt, ending)

    def _leave(self, attempt: Attempt, *, sleeps: bool) -> None:
        """The attempt's task has ended: it leaves memory, and goes on at once if something came meanwhile."""
        session = attempt.session
        state = attempt.state
        del self.live[session]
        self.hub.signs.pop(session, None)
        self.alarm.take_back(attempt.overdue)
        self.quiet.forget(attempt)
        attempt.has_ended = True
        if not state.is_open or session not in self.concluding.endings:
            self.concluding.endings.pop(session, None)
            self.journal.unpin(session)
        is_wanted = session in self.launcher.again
        self.launcher.again.discard(session)
        if state.is_open and (is_wanted or state.runs != attempt.run):
            self.launcher.launch(session)
        elif state.is_open and sleeps and not self.is_closed:
            if state.cancel is not None and state.cancel.origin == session:
                self.start_soon(self.concluding.end_tree, session)
            elif state.cancel is None and state.waiting_for is None:
                self.launcher.launch(session)
            elif (row := self.journal.store.get_session(session)) is not None and row.due_at is not None:
                # Not before it has left, since a live attempt cannot be woken; and by what is on disk, since a note
                # that came after the passivation goes with the attempt.
                self.launcher.wake_at(session, self.clock.timer(row.due_at))
        self.note_change()


def _find_agent(created: e.SessionCreated) -> AgentSpec[Any, Any]:
    return load_agent(created.agent, created.file)


_WAKING: Final = {*e.ANSWERS, e.CancelRequested}
"""What may let a session go on that is not in memory; a turn begins with a message, too."""
