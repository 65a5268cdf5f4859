"""The schedules of a store, and what has become of their instants: the fold of the journal of schedules.

Rules
- `handled` is the last instant of which something became, and never goes back. An instant begins only after it, or
  while it is the one that waits: so each instant begins at most once, whatever clocks and processes do. Any other event
  is illegal.
- Instants before a schedule was added, and those during a pause, are not its instants.
- A removed schedule leaves its last instant here. A schedule that is added later under that name goes on after it.
- A pruned session of a trigger leaves its id here, since the same delivery may come again. The oldest ids go.
"""

from collections.abc import MutableMapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent
from supervisor.core.schedules import Schedule
from supervisor.core.sessions.overlay import map_with

MOST_DELIVERIES: Final = 100_000
KEPT_DELIVERIES: Final = timedelta(days=400)


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, and what has become of it."""

    schedule: Schedule
    by: str
    added_at: datetime
    handled: datetime
    is_configured: bool = False
    is_paused: bool = False
    is_disputed: bool = False
    waiting: datetime | None = None
    last: e.ScheduleHandled | None = None
    session: str | None = None


def note_schedule(plans: dict[str, Planned], former: dict[str, datetime], event: e.AnyEvent) -> None:
    """Apply an event to the schedules of a store, by name. `former`: the last instants of removed ones. Raises
    IllegalEvent, and changes nothing, for an event that cannot be now."""
    match event:
        case e.ScheduleAdded(schedule=Schedule(name=name)):
            plans[name] = _added(event, plans.get(name), former.get(name, event.at))
        case e.ScheduleDisputed(schedule=Schedule(name=name)) if name in plans:
            plans[name] = replace(plans[name], schedule=event.schedule, is_disputed=True)
        case e.ScheduleChanged(schedule=name, to="removed") if name in plans:
            former[name] = plans.pop(name).handled
        case e.ScheduleChanged(schedule=name, to="paused") if name in plans:
            plans[name] = replace(plans[name], is_paused=True)
        case e.ScheduleChanged(schedule=name) if name in plans:
            plans[name] = replace(plans[name], is_paused=False, handled=max(plans[name].handled, event.at))
        case e.ScheduleHandled(schedule=name) if name in plans and may_handle(plans[name], event):
            plans[name] = _handled(plans[name], event)
        case _:
            raise IllegalEvent(f"this event cannot be in the journal of schedules now: {event!r}")


def _added(event: e.ScheduleAdded, known: Planned | None, former: datetime) -> Planned:
    new, since = event.schedule, max(event.at, former)
    if known is None:
        return Planned(schedule=new, by=event.by, added_at=event.at, handled=since, is_configured=event.is_configured)
    if not (known.is_configured and event.is_configured):
        raise IllegalEvent(f"schedule {new.name} has been added already")
    has_same_instants = (known.schedule.cron, known.schedule.timezone) == (new.cron, new.timezone)
    handled = known.handled if has_same_instants else max(known.handled, since)
    return replace(known, schedule=new, by=event.by, added_at=event.at, handled=handled, is_disputed=False)


def may_handle(known: Planned, event: e.ScheduleHandled) -> bool:
    """Return whether this may become of an instant now."""
    if event.became == "waits":  # a second one would be forgotten
        return event.instant > known.handled and known.waiting is None
    return event.became == "started" or event.instant > known.handled or event.instant == known.waiting


def _handled(known: Planned, event: e.ScheduleHandled) -> Planned:
    session = event.session or known.session
    if event.became == "started":
        return replace(known, session=session)
    waiting = known.waiting
    if event.became == "waits":
        waiting = event.instant
    elif event.instant == waiting:
        waiting = None
    return replace(known, session=session, handled=max(known.handled, event.instant), waiting=waiting, last=event)


def note_delivery(known: MutableMapping[str, datetime], event: e.DeliveryPruned) -> MutableMapping[str, datetime]:
    """Note that the session of a trigger was pruned, and forget those that were long ago."""
    if event.session in known:  # it was imported again, and pruned again
        del known[event.session]
    known = map_with(known, event.session, event.at)
    while len(known) > MOST_DELIVERIES or event.at - known[next(iter(known))] > KEPT_DELIVERIES:
        del known[next(iter(known))]
    return known
