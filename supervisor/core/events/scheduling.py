"""Events of schedules and triggers: a journal of their own (`SCHEDULES` in core/ids.py). Their fold is the Timetable.

The rules of core/events apply.
"""

from datetime import datetime

from supervisor.core.events.facts import Event, event_traits
from supervisor.core.schedules import Became, Schedule, ScheduleChange


@event_traits("of schedules", "audited")
class ScheduleAdded(Event, frozen=True, kw_only=True):
    """A schedule counts from now on. One of the same name that is configured, too, is replaced."""

    schedule: Schedule
    by: str
    is_configured: bool = False
    """Whether it stands in the configuration or the code of the process that journals this."""


@event_traits("of schedules", "audited")
class ScheduleChanged(Event, frozen=True, kw_only=True):
    """A schedule was paused, goes on from now, or was removed."""

    schedule: str
    to: ScheduleChange
    by: str


@event_traits("of schedules", "audited")
class ScheduleDisputed(Event, frozen=True, kw_only=True):
    """Another process has a schedule of this name with different words. This one was there first, and counts."""

    schedule: Schedule


@event_traits("of schedules")
class ScheduleHandled(Event, frozen=True, kw_only=True):
    """An instant of a schedule, and what became of it; in the same append as the beginning of its session."""

    schedule: str
    instant: datetime
    became: Became
    session: str | None = None
    reason: str | None = None
    """Why none begins."""
    by: str | None = None
    """The person who started it."""


class DeliveryPruned(Event, frozen=True, kw_only=True):
    """A prune has removed the session that a trigger had begun; in the same append. It does not begin again."""

    session: str
