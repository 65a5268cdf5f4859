"""Schedules in a process: it looks at the clock, and begins what is due.

Theory: nothing here is remembered but in the journal. A look finds, for each schedule, the first instant after the last
one that was handled; if that is past, a plan says what becomes of the last instant until now (plans/schedules.py). So
it does not matter how often a process looks, after which sleep of the machine, and how many processes do.

Rules
- A process begins the schedules whose agent it was opened with by name. Those of a configuration begin in processes
  that have it. A process that leaves its runs to others begins none.
- It looks at each instant, when the journal of schedules changes, when a session has ended after which an instant
  waits, and every LOOK_SECONDS: the loop's clock stands while a machine sleeps, and the wall clock may be set.
- A process that a supervised call started begins nothing, and configures nothing (A4).
- Of two processes that configure one name differently, the one counts that was there first. The other one stands back:
  it begins what the first has not begun after STAND_BACK_SECONDS, and so takes over if the first has died.
  Both log it, and the journal says so.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from math import inf
from typing import Final

import anyio
import msgspec

from supervisor.core import events as e
from supervisor.core.encoding import to_json
from supervisor.core.errors import (
    InvalidInput,
    NotEntitled,
    SessionConflict,
    StoreDied,
    StoreError,
    StoreUnreadable,
    TreeOwned,
    UnknownAgent,
)
from supervisor.core.ids import SCHEDULES
from supervisor.core.rows import JournalEntry
from supervisor.core.schedules import Schedule, checked_schedule
from supervisor.core.sessions.timetable import Planned
from supervisor.runtime.clock.patience import PAUSE_SECONDS
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.plans.schedules import (
    instant_failed,
    instant_handled,
    schedules_configured,
    schedules_left_out,
    timetable,
)
from supervisor.runtime.starting import LocalStarting
from supervisor.seam import commands as c
from supervisor.seam.store import StoreAway
from supervisor.system.logs import FactLog

log = FactLog(__name__)

LOOK_SECONDS: Final = 60.0
STAND_BACK_SECONDS: Final = 5.0
SETTLING_SECONDS: Final = 10.0
"""So long a process stands back with a schedule that the journal had with other words, until it knows whether another
process has those."""
_HEARD: Final = frozenset({*e.having("of schedules"), e.RunFinished})


class Scheduling:
    """`configured`: the schedules of this process's configuration or code; None: it has none, and says nothing about
    those of others."""

    def __init__(self, runner: Runner, supervisor: LocalStarting, configured: Sequence[Schedule] | None) -> None:
        self._runner = runner
        self._supervisor = supervisor
        self._configured = None if configured is None else checked_schedules(configured)
        self._own = self._configured or {}
        self._news = anyio.Event()
        self._awaited: set[str] = set()
        """Sessions after which an instant waits."""
        self._second: set[str] = set()
        """The names that another process has with other words, and had first."""
        self._settled_at: dict[str, float] = {}
        self._seen: dict[str, tuple[datetime, float]] = {}
        """The instants that are left to another process, and since when, by the loop's clock."""
        self._was_removed = self._has_left = self._may_act = False
        self._disputed: dict[str, None] = {}
        """The names that another process has journaled with other words, and that are not answered yet."""
        runner.listen(_HEARD, self._hear)

    def leave(self) -> None:
        """Begin nothing more: the program is about to leave the supervisor."""
        self._has_left = True
        self._news.set()

    async def run(self) -> None:
        """Serve until cancelled, or until the supervisor closes."""
        is_first = self._configured is not None
        while not (self._has_left or self._runner.is_closed):
            self._news, pause = anyio.Event(), LOOK_SECONDS
            try:
                self._refuse_inside()
                if is_first or self._was_removed:
                    await self._declare(is_first=is_first)
                    is_first = self._was_removed = False
                await self._dispute()
                pause = await self._look()
            except StoreDied:
                return  # all callers are told
            except NotEntitled:
                log.warning("schedules.not_begun", reason="a supervised call started this process")
                return
            except StoreAway:
                pause = PAUSE_SECONDS
            except StoreError as error:
                log.error("schedules.not_begun", reason=str(error))
            with anyio.move_on_after(pause):
                await self._news.wait()

    def _refuse_inside(self) -> None:
        """Raise NotEntitled inside a call (A4). It is looked for once, and only if there is anything to do."""
        if not self._may_act and (self._own or self._plans()):
            self._supervisor.refuse_inside(c.LAWS[c.AddSchedule].doing)
            self._may_act = True

    # -- what this process has configured ------------------------------------------------------------------------------

    async def _declare(self, *, is_first: bool) -> None:
        by, now = self._runner.environment.user(), self._runner.clock.now()

        def plan(view: View) -> tuple[list[Entry], list[Planned]]:
            differ = [known for known in timetable(view).plans.values() if self._differs(known.schedule)]
            left_out = schedules_left_out(view, self._own, by, now) if is_first else ()
            return [*schedules_configured(view, self._own, by, now, replaces=is_first), *left_out], differ

        for known in await self._runner.journal.append_with_answer(plan):
            name = known.schedule.name
            if known.is_configured:
                self._settled_at.setdefault(name, anyio.current_time() + SETTLING_SECONDS)
            else:
                log.warning("schedule.disputed", schedule=name, counts=f"that which {known.by} has added")

    def _hear(self, row: JournalEntry) -> None:
        if row.session == SCHEDULES or row.session in self._awaited:
            self._news.set()
        match row.event:
            case e.ScheduleAdded(schedule=schedule, is_configured=True) if self._differs(schedule):
                self._disputed[schedule.name] = None
            case e.ScheduleDisputed(schedule=schedule) if self._differs(schedule):
                self._stand_back(schedule.name)
            case e.ScheduleChanged(schedule=name, to="removed") if name in self._own:
                self._was_removed = True
            case _:
                pass

    def _differs(self, schedule: Schedule) -> bool:
        return self._own.get(schedule.name, schedule) != schedule

    def _stand_back(self, name: str) -> None:
        """Leave a schedule to the process that has it with other words, and had it first."""
        if name not in self._second:
            self._second.add(name)
            log.warning("schedule.disputed", schedule=name, counts="that of another process, which was there first")

    async def _dispute(self) -> None:
        """Journal that another process has one of our schedules with other words: it came later."""
        names, self._disputed = [name for name in self._disputed if name not in self._second], {}
        for name in names:
            log.warning("schedule.disputed", schedule=name, counts="that of this process, which was there first")
            disputed = e.ScheduleDisputed(at=self._runner.clock.now(), schedule=self._own[name])

            def plan(view: View, disputed: e.ScheduleDisputed = disputed) -> list[Entry]:
                known = timetable(view).plans.get(disputed.schedule.name)
                return [(SCHEDULES, disputed)] if known is not None and known.is_configured else []

            await self._runner.journal.append(plan)

    # -- what is due ---------------------------------------------------------------------------------------------------

    def _plans(self) -> dict[str, Planned]:
        return timetable(self._runner.journal.look()).plans

    def _ours(self) -> Iterator[tuple[Planned, Schedule]]:
        """Yield the schedules that this process begins, each with the words that it has for it."""
        for name, known in self._plans().items() if not self._supervisor.leaves_runs else ():
            own = self._own.get(name) if known.is_configured else known.schedule
            if own is not None and not known.is_paused and own.agent in self._supervisor.agents:
                yield known, own

    async def _look(self) -> float:
        """Begin what is due. Return in how many seconds to look again."""
        pause = inf
        self._awaited.clear()
        for known, own in list(self._ours()):
            if self._has_left or self._runner.is_closed:
                break
            if known.waiting is not None and known.session is not None:
                self._awaited.add(known.session)
                await self._handle(known, own, known.waiting)
            try:
                pause = min(pause, LOOK_SECONDS, await self._look_at(known, own))
            except InvalidInput:  # another machine knows its time zone
                pause = min(pause, LOOK_SECONDS)
                log.error("schedule.not_begun", schedule=own.name, reason="its instants cannot be found here")
        return pause

    async def _look_at(self, known: Planned, own: Schedule) -> float:
        from supervisor.system.cron import first_after, last_until  # few programs need it

        now = self._runner.clock.now()
        due = first_after(own.cron, own.timezone, known.handled)
        if due is None:
            return inf
        if due > now:
            return (due - now).total_seconds()
        if (left := self._stands_back(own.name, due)) > 0:
            return left
        if own.name in self._second:
            await self._take_over(own)
        await self._handle(known, own, max(due, last_until(own.cron, own.timezone, now) or due))
        return 0.0

    async def _take_over(self, own: Schedule) -> None:
        """Declare a schedule whose first process has left an instant to us. If that lives, it says so again."""
        self._second.discard(own.name)
        by, now = self._runner.environment.user(), self._runner.clock.now()
        mine = {own.name: own}
        await self._runner.journal.append(lambda view: schedules_configured(view, mine, by, now, replaces=True))

    def _stands_back(self, name: str, due: datetime) -> float:
        """Return how many seconds an instant is still left to another process: so many after it was seen here, since
        both may have been asleep when it came."""
        now = anyio.current_time()
        if name not in self._second and now >= self._settled_at.get(name, -inf):
            return 0.0
        if self._seen.get(name, (None, 0.0))[0] != due:
            self._seen[name] = due, now
        return self._seen[name][1] + STAND_BACK_SECONDS - now

    async def _handle(self, known: Planned, schedule: Schedule, instant: datetime) -> None:
        """Journal what becomes of an instant, and begin its session if one begins."""
        clock, handled = self._runner.clock, list[e.ScheduleHandled]()

        def also(view: View) -> tuple[list[Entry], bool]:
            found = instant_handled(view, schedule, instant, clock.now())
            handled[:] = [] if found is None else [found]
            return [(SCHEDULES, each) for each in handled], found is not None and found.became == "begun"

        command = start_of(schedule, schedule.session_at(instant))
        try:
            await self._supervisor.begin(command, known.by, also)
        except (InvalidInput, SessionConflict, StoreUnreadable, TreeOwned, UnknownAgent) as error:
            why = str(error)  # it may have words of the input, which belong into no log
            log.error("schedule.not_begun", schedule=schedule.name, reason=f"{type(error).__name__}, see the schedule")
            await self._runner.journal.append(lambda view: instant_failed(view, schedule, instant, clock.now(), why))
            return
        for each in handled:
            log.info("schedule.handled", session=each.session, schedule=schedule.name, became=each.became)


def start_of(schedule: Schedule, session: str | None) -> c.Start:
    """Return the command that starts a session of a schedule."""
    given = None if schedule.input is msgspec.UNSET else to_json(schedule.input, "the input", exact=True)
    return c.Start(schedule.agent, given, session=session)


def checked_schedules(schedules: Sequence[Schedule]) -> dict[str, Schedule]:
    """Return schedules by their names. Raises InvalidInput, naming the schedule and the field."""
    from supervisor.system.cron import check_cron  # few programs need it

    found: dict[str, Schedule] = {}
    for each in schedules:
        checked = checked_schedule(each)
        try:
            check_cron(checked.cron, checked.timezone)
        except InvalidInput as error:
            raise InvalidInput(f"schedule {checked.name}: {error}") from None
        if found.setdefault(checked.name, checked) is not checked:
            raise InvalidInput(f"two schedules are named {checked.name}: rename one")
    return found
