"""Schedules as people see them: with their next instant, and what became of the last one."""

from datetime import datetime

from supervisor.core.errors import SupervisorError
from supervisor.core.schedules import Schedule, ScheduleView
from supervisor.core.sessions.timetable import Planned


def view_of(known: Planned) -> ScheduleView:
    """Return a schedule as people see it."""
    schedule, last = known.schedule, known.last
    return ScheduleView(
        schedule=schedule,
        by=known.by,
        added_at=known.added_at,
        is_configured=known.is_configured,
        is_paused=known.is_paused,
        is_disputed=known.is_disputed,
        next=None if known.is_paused else next_instant(schedule, known.handled),
        waiting=known.waiting,
        last=None if last is None else last.instant,
        became=None if last is None else last.became,
        reason=None if last is None else last.reason,
        session=known.session,
    )


def next_instant(schedule: Schedule, handled: datetime) -> datetime | None:
    """Return the first instant after another one; None where its time zone is not known."""
    from supervisor.system.cron import first_after  # few programs need it

    try:
        return first_after(schedule.cron, schedule.timezone, handled)
    except SupervisorError:
        return None
