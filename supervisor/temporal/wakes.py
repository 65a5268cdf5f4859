"""When Temporal wakes for a schedule, and which of our instants is due then.

Temporal does not know our instants (system/cron.py): around a change of clocks its calendars leave out some and add
others. So they are in UTC alone. It wakes at each time that the expression names at any offset which the zone has, and
what is woken finds out what is due. In a zone with summer time a daily schedule wakes twice a day.

Rules
- Due is the last instant until now, if it came after the wake before. So each instant has one wake: at that instant;
  or, for a time of day that summer time skips, when it would have come without; or later, if no worker was there.
- A calendar of Temporal is a set for each of its fields, all of which hold. Cron takes the days of the month *or* those
  of the week, if neither begins with `*`: these are two calendars. So are days that are others in leap years.
"""

from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim
from temporalio.client import ScheduleCalendarSpec, ScheduleRange, ScheduleSpec

from supervisor.core.schedules import Schedule
from supervisor.runtime.plans.schedules import LATE
from supervisor.system.cron import last_until

OFFSET_YEARS: Final = 5
"""The years of which a zone's offsets are taken: it may have others for a month of some years."""
_YEARS: Final = {
    True: [ScheduleRange(2000, 2096, 4)],
    False: [ScheduleRange(first, first + 96, 4) for first in (2001, 2002, 2003)],
}
"""By whether it is a leap year. Temporal's calendars end with 2100."""
_LENGTHS: Final = {
    (leap, month): monthrange(2024 if leap else 2023, month)[1] for leap in _YEARS for month in range(1, 13)
}
_WEEK: Final = frozenset(range(7))
Date = tuple[bool, int, int]
"""A day of a year: whether that is a leap year, month, day."""
_YEAR: Final[Sequence[Date]] = [
    (leap, month, day) for (leap, month), last in _LENGTHS.items() for day in range(1, last + 1)
]


class Days(NamedTuple):
    """The days that have one of these dates, and are one of these days of the week. Sunday is 0."""

    dates: frozenset[Date] = frozenset(_YEAR)
    weekdays: frozenset[int] = _WEEK

    def within(self, other: "Days") -> "Days":
        """Return the days of both."""
        return Days(self.dates & other.dates, self.weekdays & other.weekdays)

    def moved(self, by: int) -> "Days":
        """Return the day before each day, the day after it (1), or itself (0)."""
        dates = (_neighbour(leap, month, day + by) for leap, month, day in self.dates)
        return Days(frozenset(dates), frozenset((each + by) % 7 for each in self.weekdays))


def find_offsets(schedule: Schedule, since: datetime) -> list[int]:
    """Return the offsets from UTC, in minutes, that the zone of a schedule has from an instant on."""
    zone, days = ZoneInfo(schedule.timezone), range(OFFSET_YEARS * 366)
    offsets = {(since + timedelta(days=day)).astimezone(zone).utcoffset() for day in days}
    return sorted({int((each or timedelta()).total_seconds()) // 60 for each in offsets})


def wakes_of(schedule: Schedule, offsets: Iterable[int]) -> ScheduleSpec:
    """Return when Temporal wakes for a schedule."""
    cron = CronSim(schedule.cron, datetime(2026, 1, 1, tzinfo=UTC))
    days, second = _days_of(cron), _ranges(cron.seconds)
    calendars = list[ScheduleCalendarSpec]()
    for by, hours, minutes in {each for offset in offsets for each in _times_of(cron, offset)}:
        times = {"second": second, "minute": _ranges(minutes), "hour": _ranges(hours)}
        for each in days:
            calendars += _calendars(each.moved(by), times)
    return ScheduleSpec(calendars=calendars)


def due_at(schedule: Schedule, offsets: Iterable[int], wake: datetime, now: datetime) -> datetime | None:
    """Return the instant that is due for a wake; None if none has come since the wake before. Raises InvalidInput where
    the zone is not known."""
    due = last_until(schedule.cron, schedule.timezone, max(now, wake))
    zones = (timezone(timedelta(minutes=each)) for each in offsets)
    before = (next(CronSim(schedule.cron, wake.astimezone(zone), reverse=True), None) for zone in zones)
    return None if due is None or any(each is not None and each >= due for each in before) else due


def was_missed(due: datetime, began: datetime, now: datetime) -> bool:
    """Return whether an instant was missed. `began`: when Temporal has begun its wake, at the instant or as soon as the
    session before had ended. From then on a worker was wanted. `now`: when one was there."""
    return now - max(due, began) > LATE


def _neighbour(leap: bool, month: int, day: int) -> Date:
    """Return a date that may be given as the day before the first one of a month, or after the last one. New Year keeps
    the kind of the year: what cron names in December and January is the same in both kinds."""
    if day < 1:
        month = month - 1 or 12
        return leap, month, _LENGTHS[leap, month]
    if day > _LENGTHS[leap, month]:
        return leap, month % 12 + 1, 1
    return leap, month, day


def _times_of(cron: CronSim, offset: int) -> Iterator[tuple[int, frozenset[int], frozenset[int]]]:
    """Yield the times of day of an expression, in UTC, as (days later, hours, minutes)."""
    found = dict[tuple[int, int], set[int]]()
    for hour, minute in product(cron.hours, cron.minutes):
        at = 60 * hour + minute - offset
        found.setdefault((at // 1440, at % 1440 // 60), set()).add(at % 60)
    alike = dict[tuple[int, frozenset[int]], set[int]]()
    for (by, hour), minutes in found.items():
        alike.setdefault((by, frozenset(minutes)), set()).add(hour)
    for (by, same), hours in alike.items():
        yield by, frozenset(hours), same


def _days_of(cron: CronSim) -> list[Days]:
    """Return the days of an expression."""
    month = [Days(frozenset(each for each in _YEAR if _is_named(cron, *each)))]
    if CronSim.LAST_WEEKDAY in cron.days:  # Friday, if the month ends on a weekend
        month.append(Days(_at_end(0, 0), _WEEK - {0, 6}))
        month.append(Days(_at_end(1, 2), frozenset({5})))
    week = [Days(weekdays=frozenset(each % 7 for each in cron.weekdays if isinstance(each, int)))]
    for weekday, number in (each for each in cron.weekdays if not isinstance(each, int)):
        is_last = number == CronSim.LAST
        dates = _at_end(0, 6) if is_last else frozenset(each for each in _YEAR if (each[2] + 6) // 7 == number)
        week.append(Days(dates, frozenset({weekday % 7})))
    both = [one.within(other) for one in month for other in week] if cron.day_and else month + week
    months = Days(frozenset(each for each in _YEAR if each[1] in cron.months))
    return [found for each in both if all(found := each.within(months))]


def _is_named(cron: CronSim, leap: bool, month: int, day: int) -> bool:
    return day in cron.days or (CronSim.LAST in cron.days and day == _LENGTHS[leap, month])


def _at_end(least: int, most: int) -> frozenset[Date]:
    """Return the dates after which a month has so many days."""
    return frozenset(each for each in _YEAR if least <= _LENGTHS[each[:2]] - each[2] <= most)


def _calendars(days: Days, times: Mapping[str, Any]) -> Iterator[ScheduleCalendarSpec]:
    """Yield calendars of days: one for all months, and both kinds of years, that have the same. `times`: of day, by the
    fields of a calendar."""
    by_month = dict[int, dict[bool, frozenset[int]]]()
    for (leap, month), last in _LENGTHS.items():
        found = frozenset(each[2] for each in days.dates if each[:2] == (leap, month))
        if found:
            by_month.setdefault(month, {})[leap] = frozenset(range(1, 32)) if len(found) == last else found
    alike = dict[tuple[frozenset[int], tuple[bool, ...]], list[int]]()
    for month, of_years in by_month.items():
        for same in set(of_years.values()):
            kinds = tuple(leap for leap in _YEARS if of_years.get(leap) == same)
            alike.setdefault((same, kinds), []).append(month)
    for (same, kinds), months in alike.items():
        yield ScheduleCalendarSpec(
            year=[] if len(kinds) == len(_YEARS) else _YEARS[kinds[0]],
            month=_ranges(months),
            day_of_month=_ranges(same),
            day_of_week=_ranges(days.weekdays),
            **times,
        )


def _ranges(numbers: Iterable[int]) -> list[ScheduleRange]:
    """Return numbers as ranges, whose both ends belong to them."""
    found = list[ScheduleRange]()
    for each in sorted(numbers):
        if found and found[-1].end == each - 1:
            found[-1] = ScheduleRange(found[-1].start, each)
        else:
            found.append(ScheduleRange(each, each))
    return found
