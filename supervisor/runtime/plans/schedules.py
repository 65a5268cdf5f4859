"""Plans of schedules: how one is added and changed, and what becomes of an instant.

Rules
- What becomes of an instant is journaled with the beginning of its session, in one append. The plan sees everything
  that any process has committed, so of many processes one begins it.
- Of several instants that are due at once, only the last one counts. The others were missed.
- An instant waits if the session before is open and the schedule says `after`. One instant waits at most; further ones
  are skipped until it has begun.
- An instant that is skipped, missed or cannot begin is journaled with the reason.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from supervisor.core import events as e
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.ids import SCHEDULES
from supervisor.core.schedules import Schedule, ScheduleChange
from supervisor.core.sessions.state import Timetable
from supervisor.core.sessions.timetable import Planned, may_handle
from supervisor.runtime.journal.view import Entry, View

LATE: Final = timedelta(seconds=60)
"""An instant that is found later than this was missed: no process ran, or the machine slept."""
NO_PROCESS: Final = "no process was there to begin it"


def timetable(view: View) -> Timetable:
    """Return the schedules of the store. Raises StoreUnreadable."""
    return view.own_journal(SCHEDULES, Timetable, "schedules", "none begins")


def find_plan(view: View, name: str) -> Planned:
    """Return a schedule by its name. Raises NotFound."""
    if (found := timetable(view).plans.get(name)) is None:
        known = ", ".join(timetable(view).plans) or "none"
        raise NotFound(f"there is no schedule {name} in {view.store.name}; the schedules are: {known}")
    return found


def schedule_added(view: View, schedule: Schedule, by: str, now: datetime) -> Iterator[Entry]:
    """Yield the event that adds a schedule for a person. Raises InvalidInput if another one has its name."""
    known = timetable(view).plans.get(schedule.name)
    if known is None:
        yield SCHEDULES, e.ScheduleAdded(at=now, schedule=schedule, by=by)
    elif known.schedule != schedule:
        where = "a configuration has it" if known.is_configured else "remove that one first"
        raise InvalidInput(f"another schedule is named {schedule.name}: {where}, or choose another name")


def schedule_changed(view: View, name: str, to: ScheduleChange, by: str, now: datetime) -> Iterator[Entry]:
    """Yield the event that changes a schedule, unless it is so already. Raises NotFound, InvalidInput."""
    known = find_plan(view, name)
    if to == "removed" and known.is_configured:
        raise InvalidInput(f"schedule {name} is from a configuration: remove it there, or pause it")
    if to == "removed" or known.is_paused is (to == "running"):
        yield SCHEDULES, e.ScheduleChanged(at=now, schedule=name, to=to, by=by)


def schedules_configured(
    view: View, own: Mapping[str, Schedule], by: str, now: datetime, *, replaces: bool
) -> Iterator[Entry]:
    """Yield what a process journals of schedules in its configuration. `replaces`: a schedule that a configuration has
    in other words, too."""
    plans = timetable(view).plans
    for name, schedule in own.items():
        known = plans.get(name)
        if known is None or (replaces and known.is_configured and known.schedule != schedule):
            yield SCHEDULES, e.ScheduleAdded(at=now, schedule=schedule, by=by, is_configured=True)
        elif replaces and known.schedule != schedule and not known.is_disputed:
            yield SCHEDULES, e.ScheduleDisputed(at=now, schedule=known.schedule)


def schedules_left_out(view: View, own: Collection[str], by: str, now: datetime) -> Iterator[Entry]:
    """Yield the removals of the schedules that a configuration had, and has no more. A process that still has one adds
    it again."""
    for name, known in timetable(view).plans.items():
        if known.is_configured and name not in own:
            yield SCHEDULES, e.ScheduleChanged(at=now, schedule=name, to="removed", by=by)


def instant_handled(view: View, schedule: Schedule, instant: datetime, now: datetime) -> e.ScheduleHandled | None:
    """Return what becomes of an instant now; None for nothing: another process was faster, or it still waits."""
    known = timetable(view).plans.get(schedule.name)
    is_waiting = known is not None and instant == known.waiting
    if known is None or known.is_paused or not (instant > known.handled or is_waiting):
        return None
    if not is_waiting and schedule.if_missed == "skip" and now - instant > LATE:
        return _skipped(schedule, instant, now, NO_PROCESS)
    before = known.session
    if before is None or not _is_open(view, before) or schedule.if_running == "beside":
        return e.ScheduleHandled(
            at=now, schedule=schedule.name, instant=instant, became="begun", session=schedule.session_at(instant)
        )
    if is_waiting:
        return None
    if schedule.if_running == "after" and known.waiting is None:
        reason = f"session {before} is open"
        return e.ScheduleHandled(at=now, schedule=schedule.name, instant=instant, became="waits", reason=reason)
    return _skipped(schedule, instant, now, f"session {before} was open")


def _is_open(view: View, session: str) -> bool:
    """Whether a session has an open run: by the index, if a newer program has written in its journal. Else that session
    would keep the instants of every schedule from beginning."""
    if (state := view.find_readable(session)) is not None:
        return state.is_open
    row = view.store.get_session(session)
    return row is not None and row.outcome is None


def instant_failed(view: View, schedule: Schedule, instant: datetime, now: datetime, why: str) -> list[Entry]:
    """Return the entry for an instant whose session cannot begin."""
    skipped = _skipped(schedule, instant, now, why)
    known = timetable(view).plans.get(schedule.name)
    return [] if known is None or not may_handle(known, skipped) else [(SCHEDULES, skipped)]


def _skipped(schedule: Schedule, instant: datetime, now: datetime, reason: str) -> e.ScheduleHandled:
    return e.ScheduleHandled(at=now, schedule=schedule.name, instant=instant, became="skipped", reason=reason)
