"""How people read a schedule: when it begins next, and what became of the last instant."""

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from supervisor.core.schedules import ScheduleView
from supervisor.core.text.masks import hide
from supervisor.core.text.visible import visible


def schedule_line(view: ScheduleView) -> str:
    """Return a schedule as a line, and the facts about it as lines below."""
    schedule = view.schedule
    name, agent, cron, zone = map(visible, (schedule.name, schedule.agent, schedule.cron, schedule.timezone))
    head = f"{name}: {agent} at {cron} in {zone}"
    return "\n  ".join([head, *schedule_facts(view)])


def schedule_facts(view: ScheduleView) -> list[str]:
    """Return what there is to say of a schedule, one sentence a line, safe for a screen."""
    schedule = view.schedule
    facts = [f"next: {_instant(view, view.next)}"] if view.next is not None else []
    if view.is_paused:
        facts = ["paused"]
    elif view.next is None:
        facts = ["its time zone is not known here, so its next instant is not either"]
    if view.waiting is not None:
        facts.append(f"{_instant(view, view.waiting)} waits until session {view.session} has ended")
    if view.last is not None:
        why = f": {visible(view.reason)}" if view.reason else ""
        facts.append(f"last: {_instant(view, view.last)}, {view.became}{why}")
    if view.session is not None:
        facts.append(f"last session: {view.session}")
    if isinstance(schedule.input, msgspec.UnsetType):
        facts.append("with the agent's default input")
    else:
        facts.append(f"input: {visible(hide(msgspec.json.encode(schedule.input).decode()))}")
    facts.append(f"by {visible(view.by)}, {'from a configuration' if view.is_configured else 'added by command'}")
    if view.is_disputed:
        facts.append("another process has other words for it: make both configurations alike")
    return facts


def _instant(view: ScheduleView, instant: datetime | None) -> str:
    """Return an instant in the time zone of its schedule."""
    if instant is None:
        return "never"
    try:
        zone = ZoneInfo(view.schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"{instant:%Y-%m-%d %H:%M %Z}"
    return f"{instant.astimezone(zone):%Y-%m-%d %H:%M %Z}"
