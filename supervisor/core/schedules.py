"""Schedules: which agent begins by the clock, with which input, and when.

A schedule is a value. Its instants are those that its cron expression names in its time zone; `system/cron.py` finds
them. What has become of them is the fold of a journal (core/sessions/timetable.py).

Rules
- The session of an instant has an id that is made of the schedule's name and the instant, in UTC. So it is one session
  in every process, whatever the clocks say.
- Two schedules are the same if every field is.
"""

import re
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import digest_of_value, id_from

IfMissed: TypeAlias = Literal["once", "skip"]
IfRunning: TypeAlias = Literal["skip", "after", "beside"]
Signed: TypeAlias = Literal["standard", "github"]
"""How requests of a trigger are signed."""
ScheduleChange: TypeAlias = Literal["paused", "running", "removed"]
CHANGES: Final[tuple[ScheduleChange, ...]] = get_args(ScheduleChange)
Became: TypeAlias = Literal["begun", "waits", "skipped", "started"]
"""What became of an instant: a session has begun, or will when the one before has ended, or none will. `started`: a
person has begun a session between two instants."""

NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
LONGEST_CRON_CHARACTERS: Final = 200
OF_TRIGGER: Final = "trigger "
"""Begins the name on whose behalf the session of a trigger works."""


class Schedule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Begin an agent by the clock.

        Schedule("nightly", "report", "sales", cron="0 3 * * *", timezone="Europe/Berlin")

    `agent`: the name of an agent with which a supervisor of the store was opened. `input`: plain JSON, as for `start`;
    left out: the agent's default.
    """

    name: str
    agent: str
    input: Any = msgspec.UNSET
    cron: str = ""
    """Required. Five fields, as in Debian's cron: minute, hour, day of the month, month, day of the week. A sixth one,
    before them, is the second."""
    timezone: str = "UTC"
    """The name of a time zone, such as Europe/Berlin."""
    if_missed: IfMissed = "once"
    """What is done about instants at which no process ran: begin one session for the latest of them, or none."""
    if_running: IfRunning = "skip"
    """What is done at an instant while the session before is open: nothing, begin when it has ended, or begin now."""

    @property
    def digest(self) -> str:
        """The same for equal schedules."""
        return digest_of_value(msgspec.to_builtins(self))

    def session_at(self, instant: datetime) -> str:
        """Return the id of the session of an instant."""
        return id_from(self.name, f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule as it is now. Instants are in UTC."""

    schedule: Schedule
    by: str
    """The person who added it, and on whose behalf its sessions work."""
    added_at: datetime
    is_configured: bool = False
    """Whether it is from the configuration of a daemon, or from a program's code. Only processes that have it there
    begin it, and it is removed there."""
    is_paused: bool = False
    is_disputed: bool = False
    """Whether two processes have it with different words; the one counts that was there first."""
    next: datetime | None = None
    """The next instant; None while it is paused, and where the cron expression cannot be read."""
    waiting: datetime | None = None
    """An instant whose session begins when the session before has ended."""
    last: datetime | None = None
    """The last instant that was handled, and what became of it."""
    became: Became | None = None
    reason: str | None = None
    """Why no session began at `last`."""
    session: str | None = None
    """The last session that it has begun."""


def is_of_trigger(requester: str | None) -> bool:
    """Return whether a session works on behalf of a trigger, so that its start is a delivery."""
    return requester is not None and requester.startswith(OF_TRIGGER)


def checked_schedule(schedule: Schedule) -> Schedule:
    """Return a schedule as JSON has it. Raises InvalidInput, naming the field. The cron expression and the time zone
    are checked by `system/cron.py`."""
    if not isinstance(schedule.name, str) or not NAME.fullmatch(schedule.name):
        raise InvalidInput(
            f"name: {schedule.name!r} cannot name a schedule: use up to 32 lower-case letters, digits and '-', "
            "beginning with a letter"
        )
    if not isinstance(schedule.agent, str) or not schedule.agent:
        raise InvalidInput(f"agent: pass the name of an agent, not {schedule.agent!r}")
    raw = to_json(schedule, f"schedule {schedule.name}", exact=True)
    try:
        return msgspec.json.decode(raw, type=Schedule)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"schedule {schedule.name}: {error}") from None
