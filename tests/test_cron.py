"""R11: the instants of a cron expression, when summer time begins and ends."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from supervisor import InvalidInput
from supervisor.system.cron import check_cron, first_after, last_until

BERLIN = "Europe/Berlin"
BEGINS = datetime(2027, 3, 28, tzinfo=UTC)  # at 01:00 UTC clocks go from 02:00 to 03:00
ENDS = datetime(2027, 10, 31, tzinfo=UTC)  # at 01:00 UTC clocks go from 03:00 to 02:00


def instants(cron: str, since: datetime, hours: float, zone: str = BERLIN) -> list[str]:
    """Return the instants in so many hours, in UTC."""
    found, at = [], since - timedelta(seconds=1)
    while (at := first_after(cron, zone, at)) is not None and at < since + timedelta(hours=hours):
        found.append(f"{at:%H:%M}")
    return found


def test_a_time_that_summer_time_skips_comes_right_after_the_gap():
    assert instants("30 2 * * *", BEGINS, 24) == ["01:00"]


def test_a_time_that_is_there_twice_counts_the_first_time():
    assert instants("30 2 * * *", ENDS, 24) == ["00:30"]


@pytest.mark.parametrize("day", [BEGINS, ENDS])
def test_an_expression_that_goes_by_the_hour_goes_by_the_time_that_passes(day):
    assert instants("0 * * * *", day, 4) == ["00:00", "01:00", "02:00", "03:00"]


@pytest.mark.parametrize("day", [BEGINS, ENDS, datetime(2027, 6, 1, tzinfo=UTC)])
@pytest.mark.parametrize(
    "cron", ["30 2 * * *", "*/20 * * * *", "0 2,3 * * *", "15 1-4 * * *", "0 3 * * 1-5", "0 */2 * * *"]
)
@given(minutes=st.integers(-600, 1800))
def test_the_instants_do_not_depend_on_where_the_search_begins(cron, day, minutes):
    """So a process that starts anywhere finds the same ones; and the last one until then is none of a later time."""
    since = day - timedelta(days=4)
    known, at = [], since
    while (at := first_after(cron, BERLIN, at)) is not None and at < day + timedelta(days=5):
        known.append(at)
    start = day + timedelta(minutes=minutes)
    assert first_after(cron, BERLIN, start) == min(each for each in known if each > start)
    assert last_until(cron, BERLIN, start) <= start


@pytest.mark.parametrize("cron", ["", "x", "* * * *", "61 * * * *", "0 0 30 2 *", "0 " * 200])
def test_an_expression_that_names_no_instant_is_refused(cron):
    with pytest.raises(InvalidInput, match="cron"):
        check_cron(cron, "UTC")


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../../etc/passwd", "/etc/passwd", "a" * 300, "Europe"])
def test_an_unknown_time_zone_is_refused(zone):
    with pytest.raises(InvalidInput, match="timezone"):
        check_cron("0 0 * * *", zone)
