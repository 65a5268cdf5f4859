"""Launch the later attempts of runs: when this process claims a tree, and when a session's wait is answered.

Rules
- A session that was told to end gets no further attempt; its end is written instead. A passivated session gets none
  until one of its waits is answered or one of its timers is due.
- After three attempts in a row that append nothing new, the run is abandoned (R5).
- Runs at their last chance begin one after the other. The next one begins when the one before has appended an entry or
  waits. They all died with the same process, and perhaps one of them killed it.
- Calls that an earlier process left executing come first: their orphaned processes are ended, and the calls answered as
  interrupted (R1, T2, T9).
- A session whose agent cannot be imported is blocked. The launcher tries the import again every LOOK_AGAIN_SECONDS.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import Any, Literal

import anyio

from supervisor.core import events as e
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import StoreError, UnknownAgent
from supervisor.core.rows import RunnableSession
from supervisor.core.sessions.state import SessionState
from supervisor.core.values import Approval
from supervisor.runtime.clock.alarm import Appointment
from supervisor.runtime.clock.patience import PAUSE_SECONDS
from supervisor.runtime.journal.pages import pages_in
from supervisor.runtime.journal.signals import Signal
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.lifecycle.blocked import Blocked
from supervisor.runtime.lifecycle.finish import Finishing
from supervisor.runtime.lifecycle.orphans import OrphanedProcesses
from supervisor.runtime.plans.end import Ending, cancel_children
from supervisor.runtime.plans.interrupted import lost_calls
from supervisor.seam.store import StoreAway
from supervisor.system.identity import attempt_started

BARREN_ATTEMPTS = 3  # attempts in a row that append nothing new, before the run is abandoned (R5)
PAGE = 1000  # the most approvals that are read at once
LOOK_AGAIN_SECONDS = 60.0  # seconds until an agent that could not be imported is tried again
INNOCENT_AFTER_SECONDS = 5.0  # seconds: if an attempt at its last chance still lives then, the next one may begin


class Launcher:
    """`find_agent` loads the agent of a session, `agent_to_begin` returns it at the version with which a new run begins
    (Environment.agent_to_begin), and `begin` runs an attempt whose AttemptStarted is committed."""

    def __init__(
        self,
        attempts: Attempts,
        blocked: Blocked,
        finishing: Finishing,
        orphans: OrphanedProcesses,
        *,
        find_agent: Callable[[e.SessionCreated], AgentSpec[Any, Any]],
        agent_to_begin: Callable[[AgentSpec[Any, Any], str, int], AgentSpec[Any, Any]],
        begin: Callable[[str, AgentSpec[Any, Any]], None],
    ) -> None:
        self._attempts = attempts
        self._journal, self._clock, self._alarm = attempts.journal, attempts.clock, attempts.alarm
        self._blocked = blocked
        self._finishing = finishing
        self._orphans = orphans
        self._find_agent = find_agent
        self._agent_to_begin = agent_to_begin
        self._begin = begin
        self.claimed = Signal[Mapping[str, Sequence[Approval]]]()
        """This process has claimed trees, in which this is pending."""
        self.sleeps_for_budget = Signal[str]()
        """Runs of a claimed tree sleep until a budget is decided."""
        self.sleeps_for_limit = Signal[str]()
        """A run of a claimed tree sleeps until it has a place of a limit."""
        self.sleepers: dict[str, Appointment] = {}
        """Passivated sessions that a timer will wake."""
        self._last_chance = anyio.Lock()
        self._on_trial, self._on_trial_until = "", -inf
        """The session that was the last to begin an attempt at its last chance, and when the next one may begin even if
        that attempt is still barren, on the loop's clock."""

    def recover(self, *roots: str, rows: Sequence[RunnableSession] | None = None) -> None:
        """Launch each open session that can go on, in trees that this process owns. A timer wakes the others. Nothing
        is awaited here, so no cancellation comes between a claim and this. `rows`: the open sessions of these trees, if
        they were read when the trees were claimed."""
        asked, waiting = self._pending_in(roots), dict[str, None]()
        if rows is None:
            rows = self._journal.store.find_open_in(roots)
        for root in roots:
            self._attempts.refusals.pop(root, None)
        self.claimed.send({root: asked.get(root, []) for root in roots})
        for row in rows:
            if row.waits_for_budget:
                waiting[row.root] = None
            if row.waits_for_limit:
                self.sleeps_for_limit.send(row.id)
            if row.blocked is not None:
                self._blocked.found(row.id)
            if not row.is_asleep or row.blocked is not None:
                self.launch(row.id)
            elif row.due_at is not None:
                self.wake_at(row.id, self._clock.timer(row.due_at, row.last_at))
        for root in waiting:
            self.sleeps_for_budget.send(root)

    def _pending_in(self, roots: Sequence[str]) -> dict[str, list[Approval]]:
        """Return what is pending in trees, by root."""
        found = dict[str, list[Approval]]()
        for page in pages_in(roots, self._journal.store.find_asked_in, PAGE, attrgetter("root_session")):
            for approval in page:
                found.setdefault(approval.root_session, []).append(approval)
        return found

    def wake_at(self, session: str, deadline: float) -> None:
        """Launch a passivated session at an instant of the loop's clock."""
        self._alarm.take_back(self.sleepers.get(session))
        self.sleepers[session] = self._alarm.at(deadline, lambda: self._come_due(session))

    def has_timers(self) -> bool:
        """Whether a timer will wake a passivated session. An approval's expiry does not count: its session waits for a
        person."""
        store = self._journal.store
        try:
            due = dict(store.next_due()) if self.sleepers else {}
            for session in self.sleepers.keys() & due.keys():
                expiries = [approval.expires_at for approval in store.find_approvals(session=session)]
                if all(instant is None or instant > due[session] for instant in expiries):
                    return True
        except StoreAway:  # it is not known, and asked again
            self._alarm.at(anyio.current_time() + PAUSE_SECONDS, self._attempts.note_change)
            return True
        return False

    def _come_due(self, session: str) -> None:
        self.sleepers.pop(session, None)
        self.launch(session)
        self._attempts.note_change()

    def launch(self, session: str) -> None:
        """Begin another attempt, if the session can go on."""
        if self._attempts.is_closed or self._blocked.stands(session):
            return
        if session in self._attempts.preparing:
            self._attempts.again.add(session)  # the launch under way may not have seen the newest entry
            return
        if (attempt := self._attempts.live.get(session)) is not None:
            if attempt.stop_reason is not None and (attempt.stop_reason.is_pause or attempt.has_ended):
                self._attempts.again.add(session)
            return
        self._attempts.refusals.pop(session, None)
        self._attempts.preparing.add(session)
        self._attempts.start_soon(self._launch, session)

    async def _launch(self, session: str) -> None:
        try:
            with anyio.CancelScope(shield=True):
                spec = await self._prepare(session)
                if spec is not None:
                    await self._begin_in_turn(session, spec)
        except UnknownAgent as error:
            await self._block(session, f"its agent cannot be run here: {error}")
        except StoreAway:
            self._alarm.at(anyio.current_time() + PAUSE_SECONDS, lambda: self.launch(session))
        except StoreError as error:
            self._attempts.refuse_for(session, error)
        finally:
            self._attempts.preparing.discard(session)
            is_wanted = session in self._attempts.again
            self._attempts.again.discard(session)
            if session not in self._attempts.live:
                self._journal.unpin(session)
                if is_wanted:
                    self.launch(session)
            self._attempts.note_change()

    async def _block(self, session: str, reason: str) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self._blocked.fail_to_load(session, reason)
        except StoreError as error:
            self._attempts.refuse_for(session, error)
        else:
            self._alarm.at(anyio.current_time() + LOOK_AGAIN_SECONDS, lambda: self._look_again(session))

    def _look_again(self, session: str) -> None:
        row = self._journal.store.get_session(session)
        if row is not None and row.blocked is not None and self._journal.store.owns(row.root):
            self._blocked.tried.discard(session)
            self.launch(session)

    async def _prepare(self, session: str) -> AgentSpec[Any, Any] | None:
        """Load a session and its agent. Return None if the session has ended, or is to end: then its end is written."""
        self._journal.pinned.add(session)
        state = await self._journal.append_with_answer(lambda view: ((), view.session(session)))
        await self._orphans.end(state)
        if state.cancel is not None and state.is_open:
            if state.cancel.origin == session or state.facts.parent is None:
                self._attempts.start_soon(self._finishing.end_tree, session)
            return None
        if not state.is_open:
            return None
        spec = self._find_agent(state.facts)
        if state.version is None:
            return self._agent_to_begin(spec, session, state.runs)
        return spec.at_version(state.version)

    async def _begin_in_turn(self, session: str, spec: AgentSpec[Any, Any]) -> None:
        """Begin another attempt. Attempts at their last chance begin one after the other: so a run that kills the
        process is the only one at its last chance, and its neighbours are not abandoned for it."""
        if self._journal.states[session].barren < BARREN_ATTEMPTS - 1:
            await self._begin_again(session, spec)
            return
        async with self._last_chance:
            # Before this attempt begins, not after: a launch that has begun an attempt is over, since the session may
            # be launched again at once.
            with anyio.move_on_after(self._on_trial_until - anyio.current_time()):
                await self._attempts.wait_until(lambda: self._is_past(self._on_trial))
            await self._begin_again(session, spec)
            self._on_trial, self._on_trial_until = session, anyio.current_time() + INNOCENT_AFTER_SECONDS

    def _is_past(self, session: str) -> bool:
        """Whether the attempt of a session is over, or is no longer barren."""
        attempt = self._attempts.live.get(session)
        return attempt is None or not attempt.state.barren

    async def _begin_again(self, session: str, spec: AgentSpec[Any, Any]) -> None:
        def plan(view: View) -> tuple[list[Entry], Literal["begun", "not begun"] | Ending]:
            state = view.session(session)
            now = self._clock.now()
            if self._attempts.is_closed or not state.is_open or state.cancel is not None:
                return [], "not begun"
            if not self._blocked.only_replays and self._must_sleep(session, state):
                return [], "not begun"
            if state.barren >= BARREN_ATTEMPTS:
                cause = f"{state.barren} attempts in a row made no progress: the process ended during each"
                return list(cancel_children(view, session, now)), Ending(kind="abandoned", cause=cause)
            lost = [(session, event) for event in lost_calls(state, self._orphans.found, now)]
            return [*lost, (session, attempt_started(spec.version, now))], "begun"

        became = await self._journal.append_with_answer(plan)
        if isinstance(became, Ending):
            self._attempts.endings[session] = became
            self._attempts.start_soon(self._finishing.end_tree, session)
        elif became == "begun":
            self._alarm.take_back(self.sleepers.pop(session, None))
            self._begin(session, spec)

    def _must_sleep(self, session: str, state: SessionState) -> bool:
        """Whether a passivated run still waits: none of its waits is answered, and none of its timers is due. Sets the
        timer that wakes it."""
        deadline = min((self._clock.timer(*timer) for timer in state.timers), default=inf)
        if state.waiting_for is None or deadline <= anyio.current_time():
            return False
        if deadline < inf:
            self.wake_at(session, deadline)
        return True
