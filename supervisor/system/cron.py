"""The instants of a cron expression in a time zone. cronsim reads the expression, as Debian's cron does.

Rules
- An instant is aware UTC. So a time of day that summer time skips or repeats is at most one instant: skipped times
  come right after the gap, and of repeated ones the first counts. Expressions that begin with `*` in the field of
  minutes or hours go by the time that passes.
- The instants do not depend on where the search begins.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from supervisor.core.errors import InvalidInput
from supervisor.core.schedules import LONGEST_CRON_CHARACTERS


def check_cron(cron: str, timezone: str) -> None:
    """Raise InvalidInput, naming the field, for an expression without an instant, and for an unknown time zone."""
    if first_after(cron, timezone, datetime(2026, 1, 1, tzinfo=UTC)) is None:
        raise InvalidInput(f"cron: {cron!r} names no instant at all")


@lru_cache(maxsize=1000)
def first_after(cron: str, timezone: str, instant: datetime) -> datetime | None:
    """Return the first instant after another one; None if there is none. Raises InvalidInput."""
    return next((each for each in _instants(cron, timezone, instant) if each > instant), None)


def last_until(cron: str, timezone: str, instant: datetime) -> datetime | None:
    """Return the last instant up to another one, which may be that one itself; None if there is none. Raises
    InvalidInput."""
    later = instant.replace(microsecond=0) + timedelta(seconds=1)  # the search leaves out where it begins
    return next((each for each in _instants(cron, timezone, later, backwards=True) if each <= instant), None)


def _instants(cron: str, timezone: str, start: datetime, *, backwards: bool = False) -> Iterator[datetime]:
    if len(cron) > LONGEST_CRON_CHARACTERS:
        raise InvalidInput(f"cron: an expression has at most {LONGEST_CRON_CHARACTERS} characters")
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"timezone: {timezone!r} is not known here: write a name such as Europe/Berlin; if that is unknown, too, "
            "install the package tzdata"
        ) from None
    try:
        found = CronSim(cron, start.astimezone(UTC if timezone == "UTC" else zone), reverse=backwards)
    except CronSimError as error:
        raise InvalidInput(
            f"cron: {cron!r} is not an expression ({error}): write five fields (minute, hour, day of the month, month, "
            "day of the week), as in '0 3 * * *'"
        ) from None
    for each in found:
        yield each.astimezone(UTC)
