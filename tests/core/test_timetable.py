"""R11: the fold of schedules is the law. No journal lets an instant begin twice, whatever a program would write."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent
from supervisor.core.ids import SCHEDULES
from supervisor.core.schedules import Schedule
from supervisor.core.sessions.state import Timetable, replay_journal
from supervisor.core.sessions.timetable import MOST_DELIVERIES

START = datetime(2027, 1, 1, tzinfo=UTC)
HOURLY = Schedule("hourly", "report", cron="0 * * * *")


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def added(hour: int, **more: object) -> e.ScheduleAdded:
    return e.ScheduleAdded(at=at(hour), schedule=HOURLY, by="ana", **more)


def handled(hour: int, became: str) -> e.ScheduleHandled:
    return e.ScheduleHandled(at=at(0), schedule="hourly", instant=at(hour), became=became, session=f"s{hour}")


def changed(hour: int, to: str) -> e.ScheduleChanged:
    return e.ScheduleChanged(at=at(hour), schedule="hourly", to=to, by="ana")


HOURS = st.integers(0, 6)
EVENTS = st.one_of(
    st.builds(added, HOURS),
    st.builds(added, HOURS, is_configured=st.just(True)),
    st.builds(handled, HOURS, st.sampled_from(["begun", "waits", "skipped", "started"])),
    st.builds(changed, HOURS, st.sampled_from(["paused", "running", "removed"])),
)


@given(st.lists(EVENTS, max_size=30))
def test_no_sequence_of_events_begins_an_instant_twice(tried):
    """Those that are illegal change nothing; a replay of the others gives the same."""
    state, kept = replay_journal(SCHEDULES, []), []
    for event in tried:
        before = state.draft()
        try:
            state.apply(event)
        except IllegalEvent:
            assert state == before
            continue
        kept.append(event)
    begun = [each.instant for each in kept if isinstance(each, e.ScheduleHandled) and each.became == "begun"]
    assert len(begun) == len({*begun})
    assert replay_journal(SCHEDULES, kept) == state


@pytest.mark.parametrize("became", ["begun", "skipped"])
def test_an_instant_that_waits_is_no_more_when_something_became_of_it(became):
    state = replay_journal(SCHEDULES, [added(0), handled(1, "begun"), handled(2, "waits"), handled(3, "skipped")])
    state.apply(handled(2, became))
    assert (state.plans["hourly"].waiting, state.plans["hourly"].handled) == (None, at(3))
    with pytest.raises(IllegalEvent):
        state.apply(handled(2, "begun"))


def test_the_ids_of_pruned_deliveries_are_kept_for_their_time_and_are_bounded():
    """The oldest go first. One that is pruned again counts from then."""
    table = Timetable(id=SCHEDULES)
    for day, session in ((0, "a"), (0, "b"), (200, "a"), (401, "c")):
        table.apply(e.DeliveryPruned(at=at(0) + timedelta(days=day), session=session))
    assert [*table.delivered] == ["a", "c"]  # "b" was longer ago than KEPT_DELIVERIES
    draft = table.draft()
    for number in range(MOST_DELIVERIES):
        draft.apply(e.DeliveryPruned(at=at(0) + timedelta(days=402), session=f"s{number}"))
    assert [*table.delivered] == ["a", "c"]
    draft.land()
    assert (len(draft.delivered), "a" in draft.delivered, "c" in draft.delivered) == (MOST_DELIVERIES, False, False)
