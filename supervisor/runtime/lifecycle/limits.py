"""The queues of limits in this process: who holds a place, who waits, and who is woken for one.

What a queue serves next is in core/limits.py, with the proof that nothing deadlocks; who asks is in
runtime/attempt/places.py.

Rules
- `at_once` of agents and tools is that of all processes of the store: a place is one of the store's, too
  (Store.take_place), which ends with its process. Nothing tells of a place that another process gives back, so it is
  looked for every LOOK_SECONDS while one is waited for.
- `at_once` of model calls, and `per_minute`, are those of this process.
- A run that waits may leave memory, and keeps its place in the order. When its turn comes, an entry in its journal
  wakes it, and it has LOAD_SECONDS to load; then the place is another's, and it asks anew.
- While a supervisor stops, what gets a place begins nothing, except the clean-up of runs that were told to end.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from math import inf
from typing import Final

import anyio

from supervisor.core import events as e
from supervisor.core.errors import StoreError
from supervisor.core.limits import OWN, Limit, LimitWait, Queue, Ticket, checked_seconds, key_of, name_of, shown_name
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.clock.alarm import Appointment
from supervisor.runtime.clock.patience import until_answered
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.system.logs import FactLog

log = FactLog(__name__)

LOOK_SECONDS: Final = 0.5
LOAD_SECONDS: Final = 10.0


class _Asked(Ticket, eq=False, kw_only=True):
    """A ticket of an attempt. `tell`: called when it has a place."""

    tell: Callable[[], None]
    slot: int | None = None
    """Its place among all processes."""


class Limits:
    """The limits of a runner, by their names."""

    def __init__(self, attempts: Attempts, limits: Mapping[str, Limit]) -> None:
        self._attempts = attempts
        self._store, self._clock, self._alarm = attempts.journal.store, attempts.clock, attempts.alarm
        self._limits = limits
        self._queues: dict[str, Queue] = {}
        self._looks: dict[str, Appointment] = {}
        self._unreturned: dict[str, list[int]] = {}
        """Places of all processes that no ticket has and that the store did not take back yet, by limit."""
        self._number = 0
        """Of the latest ticket."""
        self._unknown: set[str] = set()
        self._sleeping: dict[str, list[_Asked]] = {}
        """By session, the tickets of runs that have left memory, in the order of coming."""

    # -- asking ------------------------------------------------------------------------------------------------------

    async def take(
        self,
        attempt: Attempt,
        name: str,
        *,
        in_operation: bool,
        is_shared: bool = False,
        counts: bool = True,
        number: int = 0,
        is_again: bool = False,
    ) -> Ticket:
        key = key_of(name)
        ticket = self._ask(attempt, name, partial(attempt.wake, key), is_shared=is_shared, counts=counts, number=number)
        if ticket.is_held:
            return ticket
        if not in_operation:
            attempt.begin_operation()
        try:
            goes_on = partial(_goes_on, attempt, ticket, is_again)
            await attempt.wait(f"{key}#{ticket.number}", key, goes_on, is_refused=False)
            await attempt.hold()
            if not ticket.is_held:
                self.release(ticket)
        except BaseException:
            self._drop(attempt, ticket)
            raise
        finally:
            if not in_operation:
                attempt.past_operation()
        return ticket

    def ask_turn(self, attempt: Attempt) -> bool:
        name = attempt.spec.limit or ""
        if attempt.turn is None:
            state, key = attempt.state, key_of(name)
            has_begun = state.attempts > 1 or bool(state.operations)
            attempt.turn = ticket = self._ask(
                attempt, name, _tell_none, is_shared=True, counts=not has_begun, has_begun=has_begun
            )
            if not ticket.is_held:
                ticket.tell = partial(attempt.end_turn_wait, key)
                attempt.begin_turn_wait(key)
        return attempt.turn.is_held

    def _ask(
        self,
        attempt: Attempt,
        name: str,
        tell: Callable[[], None],
        *,
        is_shared: bool,
        counts: bool,
        number: int = 0,
        has_begun: bool = True,
    ) -> "_Asked":
        if (sleeping := self._wake_up(attempt.session, name)) is not None:
            if not sleeping.is_held or sleeping.is_shared == is_shared:
                sleeping.is_shared, sleeping.tell = is_shared, tell
                return sleeping
            number = sleeping.number
            self.release(sleeping)  # a later process did not know what it waits with
        self._number += 1
        ticket = _Asked(
            name=name,
            session=attempt.session,
            since=self._clock.now(),
            counts=counts,
            is_shared=is_shared,
            has_begun=has_begun,
            is_ending=attempt.stop_reason is not None,
            number=number,
            tell=tell,
        )
        self._queue(name).come(ticket, self._number)
        self._look(name)
        return ticket

    def _queue(self, name: str) -> Queue:
        if (queue := self._queues.get(name)) is None:
            limit = self._limits.get(name)
            queue = self._queues[name] = Queue(limit)
            if limit is None and self._limits and not name.startswith(OWN) and name not in self._unknown:
                self._unknown.add(name)
                log.warning("limit.unknown", limit=name, hint=f"nothing bounds it: declare it in [limits.{name}]")
        return queue

    # -- giving ------------------------------------------------------------------------------------------------------

    def release(self, ticket: Ticket | None) -> None:
        if isinstance(ticket, _Asked):
            self._take_out(ticket)
            self._look(ticket.name)

    def _take_out(self, ticket: _Asked) -> None:
        self._queue(ticket.name).leave(ticket)
        slot, ticket.slot = ticket.slot, None
        if slot is not None:
            self._unreturned.setdefault(ticket.name, []).append(slot)
            self._give_back(ticket.name)

    def _give_back(self, name: str) -> bool:
        """Give the places back that no ticket has any more. Return False if the store does not answer: it is asked
        again, or the next ticket has them."""
        slots = self._unreturned.get(name, [])
        try:
            while slots:
                self._store.give_place_back(name, slots[-1])
                slots.pop()
        except (StoreError, OSError) as error:
            log.warning("limit.not_given_back", limit=name, reason=str(error))
        return not slots

    def close(self, name: str, seconds: float) -> None:
        self._queue(name).close(anyio.current_time() + checked_seconds(seconds))
        log.info("limit.closed", limit=name, seconds=round(seconds, 3))
        self._look(name)

    def _look(self, name: str) -> None:
        """Give the places that can be given, in order, and look again when that may change by itself."""
        queue, now = self._queue(name), anyio.current_time()
        look_at = inf
        while (ticket := queue.first(now)) is not None:
            assert isinstance(ticket, _Asked)
            if not self._take_slot(queue, ticket):
                look_at = now + LOOK_SECONDS
                break
            queue.hold(ticket, now)
            ticket.tell()
        if not self._give_back(name):
            look_at = now + LOOK_SECONDS
        self._alarm.take_back(self._looks.pop(name, None))
        look_at = min(look_at, queue.due(now))
        if queue.limit is None and queue.is_idle and now < queue.closed_until:
            look_at = queue.closed_until  # to forget it
        if look_at < inf:
            self._looks[name] = self._alarm.at(look_at, partial(self._look, name))
        elif queue.is_idle and queue.limit is None and now >= queue.closed_until and self._queues.get(name) is queue:
            del self._queues[name]

    def _take_slot(self, queue: Queue, ticket: _Asked) -> bool:
        """Take one of the places of all processes, if the ticket needs one."""
        if ticket.is_shared and queue.limit is not None and queue.limit.at_once is not None:
            if unreturned := self._unreturned.get(ticket.name):
                ticket.slot = unreturned.pop()
                return True
            try:
                ticket.slot = self._store.take_place(ticket.name, queue.limit.at_once)
            except (StoreError, OSError) as error:  # no place is given: it is not known whether another process has it
                log.error("limit.not_locked", limit=ticket.name, reason=str(error))
            return ticket.slot is not None
        return True

    # -- attempts that wait or leave ---------------------------------------------------------------------------------

    def grew_quiet(self, attempt: Attempt) -> None:
        """Take the place of an agent that only waits."""
        if attempt.turn is not None and attempt.turn.is_held:
            turn, attempt.turn = attempt.turn, None
            self.release(turn)

    def stopped(self, attempt: Attempt) -> None:
        """Let an attempt that was told to stop wait no more for the place of its agent. What it waits for otherwise is
        its clean-up from now on, which comes first."""
        if attempt.is_ending:
            for name, queue in self._queues.items():
                if queue.hurry(attempt.session):
                    attempt.wake(key_of(name))
        if attempt.awaits_turn and (turn := attempt.turn) is not None:
            attempt.turn = None
            self._drop(attempt, turn)
            attempt.end_turn_wait(key_of(turn.name))

    def left(self, attempt: Attempt) -> None:
        """Take the place of an agent whose attempt has ended. One that left memory to wait for a limit waits on, also
        if it got its place while that was written."""
        turn, attempt.turn = attempt.turn, None
        self.release(turn)
        if attempt.stop_reason is not None and attempt.stop_reason.kind == "passivated":
            self._wait_on(attempt.session, attempt.state.waiting_for or ())

    def _drop(self, attempt: Attempt, ticket: Ticket) -> None:
        """Take out a ticket whose task waits no more. That of a run that leaves memory keeps its place in the order."""
        assert isinstance(ticket, _Asked)
        if attempt.stop_reason is None or attempt.stop_reason.kind != "passivated":
            self.release(ticket)
            return
        self._take_out(ticket)
        self._sleep(ticket)

    # -- runs that have left memory ----------------------------------------------------------------------------------

    @property
    def has_sleepers(self) -> bool:
        return bool(self._sleeping)

    def _sleep(self, ticket: _Asked) -> None:
        ticket.is_asleep, ticket.tell = True, partial(self._offer, ticket)
        self._sleeping.setdefault(ticket.session, []).append(ticket)
        self._number += 1
        self._queue(ticket.name).come(ticket, self._number)
        self._look(ticket.name)

    def recover(self, session: str) -> None:
        """Let a run of a claimed tree wait that sleeps until it has a place."""
        if session not in self._sleeping:
            self._attempts.start_soon(self._recover, session)

    async def _recover(self, session: str) -> None:
        try:
            state = await until_answered(lambda: self._attempts.journal.look().session(session))
        except StoreError as error:  # the launcher reports it, too
            log.error("limit.not_read", session=session, reason=str(error))
            return
        self._wait_on(session, state.waiting_for or ())

    def _wait_on(self, session: str, keys: Iterable[str]) -> None:
        """Let a run that has left memory wait for the limits of which it has no ticket."""
        known = {ticket.name for ticket in self._sleeping.get(session, ())}
        for name in filter(None, map(name_of, keys)):
            if name not in known:
                self._sleep(_Asked(name=name, session=session, since=self._clock.now(), tell=_tell_none))

    def _wake_up(self, session: str, name: str) -> _Asked | None:
        """Return the ticket of a run that has come back to memory, which has a place or waits for one."""
        for ticket in self._sleeping.get(session, ()):
            if ticket.name == name:
                self._forget(ticket)
                return ticket
        return None

    def _forget(self, ticket: _Asked) -> None:
        """Count a ticket no more as one of a run that has left memory."""
        ticket.is_asleep = False
        tickets = self._sleeping.get(ticket.session, [])
        if ticket in tickets:
            tickets.remove(ticket)
        if not tickets:
            self._sleeping.pop(ticket.session, None)
            self._attempts.note_change()

    def _offer(self, ticket: _Asked) -> None:
        """Wake the run of a ticket that has a place now."""
        self._attempts.start_soon(self._wake, ticket)
        self._alarm.at(anyio.current_time() + LOAD_SECONDS, partial(self._give_up, ticket))

    def _give_up(self, ticket: _Asked) -> None:
        if ticket.is_asleep:
            self._forget(ticket)
            self.release(ticket)

    async def _wake(self, ticket: _Asked) -> None:
        key = key_of(ticket.name)

        def plan(view: View) -> tuple[list[Entry], bool]:
            state = view.session(ticket.session)
            sleeps = state.is_open and state.cancel is None and key in (state.waiting_for or ())
            goes_on = e.BudgetAnswered(at=self._clock.now(), key=key)
            return [(ticket.session, goes_on)] if sleeps else [], sleeps

        goes_on = False
        try:
            goes_on = await self._attempts.journal.append_with_answer(plan)
        except StoreError as error:
            log.error("limit.not_journaled", session=ticket.session, reason=str(error))
        attempts = self._attempts
        if not (goes_on or ticket.session in attempts.live or ticket.session in attempts.preparing):
            self._give_up(ticket)

    def ended(self, session: str) -> None:
        """Take out a run that has left memory and was cancelled, or has ended."""
        for ticket in [*self._sleeping.get(session, ())]:
            self._give_up(ticket)

    # -- what is shown -----------------------------------------------------------------------------------------------

    def find_waits(self, sessions: Collection[str], name: str | None = None) -> dict[str, LimitWait]:
        """Return for which limit each of some sessions waits here, and at which place. `name`: of one limit only."""
        found = dict[str, LimitWait]()
        for each in [name] if name is not None else self._queues:
            waiting = [] if (queue := self._queues.get(each)) is None else queue.waiting
            for place, ticket in enumerate(waiting, 1):
                if ticket.session in sessions and ticket.session not in found:
                    found[ticket.session] = LimitWait(
                        name=shown_name(each), since=ticket.since, place=place, count=len(waiting)
                    )
        return found


def _goes_on(attempt: Attempt, ticket: Ticket, is_again: bool) -> bool:
    return ticket.is_held or (is_again and attempt.is_ending)


def _tell_none() -> None:
    """A ticket that is given a place at once tells no one."""
