"""Quiet attempts only wait. They are passivated after a while, and they are no crash loop. A quiet attempt that gets no
further in its replay is blocked (runtime/lifecycle/blocked.py).

Rules
- A run is passivated if it only waits: for people, messages, children, or timers that are not due soon. The plan of
  the append checks that the run is still in the same quiet spell, waits for the same keys, and that none of them is
  answered (R2). A run with a step or a model call in flight does not only wait.
- An approved call that its tool lets wait (ToolSpec.is_ready) waits for nothing that could wake the run. So it does not
  keep a run in memory that waits for something else, and a run that waits for nothing else stays.
- How long it must have waited is in its agent's declaration, or else a setting of the supervisor. An agent whose run
  owns something that ends with the attempt, such as a process, may declare that no wait is long enough.
- A run that has not asked again for all that its journal holds is not passivated: to the rest, an answer may have come
  already, and none would wake it. It stays in memory, and a supervisor that closes suspends it.
- While the supervisor is closing, a run that waits for people is passivated at once. A run with a timer stays, since it
  can go on by itself. An approval's expiry does not count as a timer: the run waits for people.
- A later attempt that waits has shown that it does not end with its process. That is journaled once (R5).
- In a replay, an agent whose only task waits for an entry that the agent does not ask for is blocked (R1), when it has
  neither asked for anything nor been given anything for SETTLED_AFTER_SECONDS. A step that is under way, or a timer
  that fires, may end its wait. If the agent has other tasks, or a deadline of its own (of a scope, of the loop), the
  end of its wait may be outside our sight. So the run is presumed blocked after PRESUMED_AFTER_SECONDS, and blocked
  after the agent's `inactivity_timeout`. An agent that awaits operations alone (of Pydantic AI, of the OpenAI SDK) is
  blocked after PRESUMED_AFTER_SECONDS if it asks for something else: its request follows from calls that it did not
  make again, as when today's schema refuses the arguments that wait.
"""

from collections.abc import Callable, Iterable

import anyio
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.budgets import IN_FLIGHT
from supervisor.core.limits import name_of
from supervisor.core.sessions.state import SessionState
from supervisor.runtime.attempt.attempt import READY, Attempt
from supervisor.runtime.attempt.divergence import path_block
from supervisor.runtime.attempt.host import StopReason
from supervisor.runtime.clock.alarm import Alarm, Appointment
from supervisor.runtime.journal.writer import View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.lifecycle.blocked import Blocked, unblocked

SETTLED_AFTER_SECONDS = 0.1  # seconds of quiet; a shorter quiet may be an accident of scheduling
PRESUMED_AFTER_SECONDS = 5.0  # seconds of silence in a replay after which a run is presumed blocked
STOPPED_ASKING = "the agent asks for nothing more"


class Passivation:
    def __init__(self, attempts: Attempts, blocked: Blocked, passivate_after: float | None) -> None:
        self._attempts = attempts
        self._alarm, self._clock = attempts.alarm, attempts.clock
        self._blocked = blocked
        self._passivate_after = passivate_after
        self.is_leaving = False
        self._unsettled = _Queue(self._alarm, self._settle_soon, SETTLED_AFTER_SECONDS)
        self._asleep_next: dict[float, _Queue] = {}
        """By the seconds of quiet: agents share a few durations."""

    def leave(self) -> None:
        """Passivate at once, from now on, each run that only waits for people."""
        self.is_leaving = True
        for attempt in self._attempts.live.values():
            if attempt.is_quiet:
                self.look_at(attempt)

    def _after(self, attempt: Attempt) -> float | None:
        """Return the seconds of quiet after which an attempt is passivated; None: after none."""
        if self.is_leaving:
            return SETTLED_AFTER_SECONDS
        own = attempt.spec.passivate_after
        return self._passivate_after if own == "default" else own

    def look_at(self, attempt: Attempt) -> None:
        """Look again at an attempt that has become quiet: after SETTLED_AFTER_SECONDS, and when it could be
        passivated."""
        if self._passivate_after is None:
            return
        if attempt.state.barren:
            self._unsettled.put(attempt)
        if (after := self._after(attempt)) is not None:
            if (queue := self._asleep_next.get(after)) is None:
                queue = self._asleep_next[after] = _Queue(self._alarm, self._passivate_soon, after)
            queue.put(attempt)

    def forget(self, attempt: Attempt) -> None:
        """Drop an attempt that leaves memory."""
        self._unsettled.remove(attempt)
        for queue in self._asleep_next.values():
            queue.remove(attempt)

    def _passivate_soon(self, attempt: Attempt) -> None:
        if not attempt.is_quiet or not self._may_sleep(attempt):
            return
        if not attempt.replay.is_replaying or attempt.replay.oldest_unclaimed(attempt.state) is None:
            self._attempts.start_soon(self._passivate, attempt, attempt.rest)
        elif self.is_leaving:  # it sleeps for nothing: the next process begins with it at once
            attempt.stop(StopReason("suspended", "the supervisor was left while it replayed"))

    def _settle_soon(self, attempt: Attempt) -> None:
        if attempt.is_quiet and attempt.state.barren:
            self._attempts.start_soon(self._settle, attempt)

    def _may_sleep(self, attempt: Attempt) -> bool:
        if IN_FLIGHT in attempt.waiting:  # that ends soon, and no entry would wake the run
            return False
        if self.is_leaving and any(name_of(key) is not None for key in attempt.waiting):  # it goes on by itself
            return False
        if not attempt.timers:
            return True
        if self.is_leaving:
            return all(attempt.state.operations[timer].is_asking for timer in attempt.timers)
        due_in, after = (min(attempt.timers.values()) - self._clock.now()).total_seconds(), self._after(attempt)
        return after is not None and due_in > after

    async def _passivate(self, attempt: Attempt, rest: tuple[int, tuple[str, ...]]) -> None:
        keys = tuple(key for key in rest[1] if not key.startswith(READY))

        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            is_same = attempt.is_quiet and attempt.rest == rest
            if not is_same or not keys or state.cancel is not None or any(state.is_answered(key) for key in keys):
                return []
            now = self._clock.now()
            began = [(due_at, attempt.state.operations[timer].began_at) for timer, due_at in attempt.timers.items()]
            due_at = self._clock.first_due(began)
            return [*unblocked(attempt, state, now), e.RunPassivated(at=now, waiting_for=keys, due_at=due_at)]

        await attempt.append_if_live(plan)

    async def _settle(self, attempt: Attempt) -> None:
        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            return [e.AttemptSettled(at=self._clock.now())] if state.barren and attempt.is_quiet else []

        await attempt.append_if_live(plan)

    def look_for_divergence(self, attempt: Attempt) -> None:
        """Check, as long as an attempt replays, whether it gets any further (R1).

        A model call in flight is no block, since it has its own budget. A blocked loop is none either, so silence is
        measured on the alarm's clock, which subtracts the lag.
        """
        if attempt.is_looked_at:
            return
        attempt.is_looked_at = True
        alarm, budget = self._alarm, attempt.spec.inactivity_timeout
        presumed_after = min(PRESUMED_AFTER_SECONDS, budget)

        def look() -> None:
            if attempt.stop_reason is not None or attempt.has_ended or not attempt.replay.is_replaying:
                attempt.is_looked_at = False
                return
            silent_for = alarm.now() - attempt.moved_at if stands_still(attempt) else 0.0
            if attempt.replay.has_followed:
                self._blocked.note_replayed(attempt)
            elif silent_for >= (presumed_after if asks_for_another(attempt) else budget) or (
                silent_for >= SETTLED_AFTER_SECONDS and is_alone(attempt)
            ):
                attempt.stop_blocked(path_block(attempt, STOPPED_ASKING))
            elif silent_for >= presumed_after:
                block = replace(path_block(attempt, STOPPED_ASKING), is_presumed=True)
                self._attempts.start_soon(self._blocked.presume, attempt, block)
            stages = SETTLED_AFTER_SECONDS, presumed_after, budget
            due = next((stage for stage in stages if stage > silent_for), budget)
            alarm.at(anyio.current_time() + max(due - silent_for, SETTLED_AFTER_SECONDS), look)

        alarm.at(anyio.current_time() + SETTLED_AFTER_SECONDS, look)


def stands_still(attempt: Attempt) -> bool:
    """Whether the attempt waits in operations alone, and nothing of ours lets one of them go on."""
    return attempt.in_flight > 0 and attempt.only_waits and not (attempt.watch.is_at_work or attempt.awaits_turn)


def asks_for_another(attempt: Attempt) -> bool:
    """Whether the attempt waits with an operation that its journal does not have, and can do nothing else meanwhile."""
    return attempt.spec.asks_all_it_awaits and bool(attempt.instead)


def is_alone(attempt: Attempt) -> bool:
    """Whether the attempt has a single task, and nothing but the replay ends its wait."""
    if attempt.in_flight != 1 or attempt.timers or attempt.bounded or attempt.strangers is None:
        return False
    tasks = anyio.get_running_tasks()
    may_be_its_own = {task.id for task in tasks if task.parent_id is None} - attempt.strangers
    is_one = not may_be_its_own and all(task.parent_id != attempt.task for task in tasks)
    return is_one and not attempt.settling.may_be_timed


class _Queue:
    """Quiet attempts, in the order in which they became quiet. `look` is called for each when it has been quiet for
    `after` seconds. One appointment serves them all, and each takes one entry of a dict, since many attempts wait."""

    def __init__(self, alarm: Alarm, look: Callable[[Attempt], None], after: float) -> None:
        self._alarm = alarm
        self._look = look
        self._after = after
        self._attempts: dict[Attempt, None] = {}
        self._next: Appointment | None = None

    def put(self, attempt: Attempt) -> None:
        """Add an attempt that has become quiet, at the end."""
        self._attempts.pop(attempt, None)
        self._attempts[attempt] = None
        if self._next is None:
            self._plan()

    def remove(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt, None)

    def _plan(self) -> None:
        self._alarm.take_back(self._next)
        first = next(iter(self._attempts), None)
        self._next = None if first is None else self._alarm.at(first.quiet_since + self._after, self._come_due)

    def _come_due(self) -> None:
        # Instants are compared, not durations: with a rounded duration a virtual clock could call this for ever.
        now, due = anyio.current_time(), list[Attempt]()
        for attempt in self._attempts:
            if attempt.quiet_since + self._after > now:
                break
            due.append(attempt)
        for attempt in due:
            del self._attempts[attempt]
        self._plan()
        for attempt in due:
            self._look(attempt)
