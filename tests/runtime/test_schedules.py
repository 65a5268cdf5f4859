"""R11: an agent begins by the clock, once for each instant, whatever clocks, processes and machines do."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from scenes import events, fork, opened

from supervisor import (
    Context,
    InvalidInput,
    MemoryStore,
    NotFound,
    Schedule,
    SqliteStore,
    StoreUnreadable,
    UnknownAgent,
    agent,
    events as e,
)
from supervisor.core.ids import SCHEDULES
from supervisor.core.marker import CALL_MARKER
from supervisor.testing import wall_clock

pytestmark = pytest.mark.anyio
HOUR = 3600.0
MIDNIGHT = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@agent
async def report(ctx: Context, what: str = "all") -> str:
    return what


@agent
async def long(ctx: Context, hours: float) -> None:
    await ctx.sleep(hours * HOUR)


def hourly(given="sales", name="hourly", spec="report", **when) -> Schedule:
    return Schedule(name, spec, given, cron="0 * * * *", **when)


def handled(store) -> list[tuple[int, str]]:
    """Return the hour of each instant, and what became of it."""
    return [(each.instant.hour, each.became) for each in events(store, SCHEDULES, e.ScheduleHandled)]


@pytest.fixture
def wall():
    """A wall clock that stands shortly before an hour; `at` sets it."""
    with wall_clock() as shown:
        shown.ahead = (MIDNIGHT - timedelta(minutes=5) - datetime.now(UTC)).total_seconds()
        yield shown


def at(wall, hours: float) -> None:
    """Set the wall clock to so many hours after midnight."""
    wall.ahead = 0.0
    wall.stands_at = MIDNIGHT + timedelta(hours=hours)


async def look() -> None:
    """Let a process look at the clock, as it does once a minute."""
    await anyio.sleep(61)


async def test_each_instant_begins_one_session(wall):
    """Its id is made of the schedule's name and the instant, and its input is that of the schedule."""
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly(), by="ana")
        await anyio.sleep(3 * HOUR)
        found = await supervisor.find_sessions()
        assert [each.id[:25] for each in found] == [f"hourly-2027-01-01t0{hour}-00-00z"[:25] for hour in range(3)]
        assert {each.outcome["value"] for each in found} == {"sales"}
        assert {events(store, each.id)[0].requester for each in found} == {"ana"}
    assert handled(store) == [(0, "begun"), (1, "begun"), (2, "begun")]


async def test_a_session_begins_in_the_append_that_says_so(wall):
    """No process can die between the two."""
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
        await anyio.sleep(0.5 * HOUR)
    rows = {type(row.event): row.position for row in store.rows(0)}
    assert rows[e.ScheduleHandled] + 1 == rows[e.SessionCreated]


@pytest.mark.parametrize(("if_missed", "became"), [("once", "begun"), ("skip", "skipped")])
async def test_a_machine_that_slept_through_ten_instants_begins_one_or_none(wall, if_missed, became):
    """The last one, as the schedule says."""
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly(if_missed=if_missed))
        at(wall, 9.5)
        await look()
        await look()
    assert handled(store) == [(9, became)]


async def test_an_instant_that_no_process_saw_begins_at_the_next_start(wall):
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
    at(wall, 3.2)
    async with opened(store, agents=[report]):
        await look()
    assert handled(store) == [(3, "begun")]


async def test_a_clock_that_is_set_back_repeats_no_instant(wall):
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
        for hours in (2.1, 0.5, 1.1, 2.2, 3.1):
            at(wall, hours)
            await look()
    assert handled(store) == [(2, "begun"), (3, "begun")]


async def test_a_removed_schedule_repeats_no_instant_when_it_is_added_again(wall):
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
        at(wall, 2.1)
        await look()
        await supervisor.change_schedule("hourly", "removed")
        at(wall, 0.5)
        await supervisor.add_schedule(hourly())
        at(wall, 2.2)
        await look()
    assert handled(store) == [(2, "begun")]


async def test_pruning_its_sessions_repeats_no_instant(wall):
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
        at(wall, 2.1)
        await look()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.prune(MIDNIGHT + timedelta(days=1))
        assert not await supervisor.find_sessions()
        at(wall, 1.9)
        await look()
        at(wall, 2.3)
        await look()
    assert handled(store) == [(2, "begun")]


@pytest.mark.parametrize(
    ("if_running", "became"),
    [
        ("skip", [(0, "begun"), (1, "skipped"), (2, "skipped"), (3, "begun")]),
        ("after", [(0, "begun"), (1, "waits"), (2, "skipped"), (1, "begun"), (3, "waits")]),
        ("beside", [(0, "begun"), (1, "begun"), (2, "begun"), (3, "begun")]),
    ],
)
async def test_while_the_session_before_is_open_an_instant_does_what_the_schedule_says(wall, if_running, became):
    """Skip it, begin when that has ended, or begin at once. One instant waits at most."""
    store = MemoryStore()
    async with opened(store, agents=[long], passivate_after=1000 * HOUR) as supervisor:
        await supervisor.add_schedule(hourly(2.5, spec="long", if_running=if_running))
        await anyio.sleep(3.2 * HOUR)
        for each in await supervisor.find_sessions(is_open=True):
            await supervisor.cancel(each.id)
        await supervisor.change_schedule("hourly", "paused")
    assert handled(store) == became


async def test_an_instant_that_waits_begins_in_the_next_process(wall):
    """Also if the schedule skips what was missed: it was not."""
    store = MemoryStore()
    async with opened(store, agents=[long]) as supervisor:
        await supervisor.add_schedule(hourly(2.5, spec="long", if_running="after", if_missed="skip"))
        await anyio.sleep(1.5 * HOUR)
        await supervisor.cancel((await supervisor.find_schedules()).items[0].session)
        await supervisor.change_schedule("hourly", "paused")
    at(wall, 1.9)
    async with opened(store, agents=[long]) as supervisor:
        await supervisor.change_schedule("hourly", "running")
        await look()
        for each in await supervisor.find_sessions(is_open=True):
            await supervisor.cancel(each.id)
    assert handled(store)[-1] == (1, "begun")


async def test_a_paused_schedule_begins_nothing_and_leaves_out_what_was_meanwhile(wall):
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
        assert (await supervisor.change_schedule("hourly", "paused")).next is None
        at(wall, 2.1)
        await look()
        await supervisor.change_schedule("hourly", "running")
        await look()
        at(wall, 3.1)
        await look()
    assert handled(store) == [(3, "begun")]


async def test_a_person_starts_a_session_between_two_instants(wall):
    """Twice with one id is once. The instants stay as they are."""
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
        for _ in range(2):
            run = await supervisor.run_schedule("hourly", session="now", by="ben")
        assert (await run.outcome()).value == "sales"
        await anyio.sleep(0.5 * HOUR)
    assert [became for _, became in handled(store)] == ["started", "begun"]


@pytest.mark.parametrize(
    "schedule", [hourly(name="a b"), hourly(timezone="Mars/Base"), Schedule("s", "report", cron="x")]
)
async def test_a_schedule_that_cannot_be_is_refused(schedule):
    async with opened(agents=[report]) as supervisor:
        with pytest.raises(InvalidInput):
            await supervisor.add_schedule(schedule)


async def test_a_schedule_is_added_once_and_another_one_of_its_name_is_refused():
    async with opened(agents=[report]) as supervisor:
        assert await supervisor.add_schedule(hourly()) == await supervisor.add_schedule(hourly())
        with pytest.raises(InvalidInput, match="another schedule"):
            await supervisor.add_schedule(hourly("other"))
        with pytest.raises(UnknownAgent):
            await supervisor.add_schedule(hourly(name="other", spec="nothing"))
        with pytest.raises(NotFound):
            await supervisor.change_schedule("other", "paused")


async def test_a_change_by_another_word_is_refused(tmp_path):
    """No process could read the journal of schedules any more, and no schedule would begin."""
    async with opened(SqliteStore(tmp_path / "state.db"), agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
        with pytest.raises(InvalidInput, match="can be paused, running or removed, not 'pause'"):
            await supervisor.change_schedule("hourly", "pause")
    async with opened(SqliteStore(tmp_path / "state.db")) as supervisor:
        assert [each.is_paused for each in await supervisor.find_schedules()] == [False]


async def test_a_process_without_the_agent_begins_nothing(wall):
    """It leaves the instant to another one."""
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
    at(wall, 1.5)
    async with opened(store):
        await look()
    assert handled(store) == []


async def test_an_instant_whose_session_cannot_begin_says_why(wall):
    """An agent may take another input after an upgrade."""
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
    at(wall, 1.5)
    async with opened(store, agents=[long_report]) as supervisor:
        await look()
        (view,) = await supervisor.find_schedules()
    assert (view.became, view.session) == ("skipped", None)
    assert view.reason


@agent(name="report")
async def long_report(ctx: Context, hours: float) -> None:
    """Another agent of that name."""


async def test_of_two_processes_one_begins_each_instant(wall, tmp_path):
    """Both look at the same clock, and both have the agent."""
    path = tmp_path / "state.db"
    async with opened(path, agents=[report]) as here, opened(path, agents=[report]) as there:
        await there.add_schedule(hourly())
        for hours in (1.0, 2.0):
            at(wall, hours)
            await look()
        assert len(await here.find_sessions()) == 2
        assert handled(here.store) == [(1, "begun"), (2, "begun")]


async def test_of_two_configurations_the_first_one_counts_and_both_processes_say_so(wall, tmp_path, caplog):
    """The second one takes over when the first has ended."""
    path, said, leave = tmp_path / "state.db", [], anyio.Event()

    async def first(*, task_status):
        async with opened(path, agents=[report], schedules=[hourly("first")]):
            await anyio.sleep(1)
            task_status.started()
            await leave.wait()

    async with anyio.create_task_group() as tasks:
        await tasks.start(first)
        async with opened(path, agents=[report], schedules=[hourly("second")]) as there:
            await anyio.sleep(1)
            (view,) = await there.find_schedules()
            assert (view.schedule.input, view.is_disputed) == ("first", True)
            for hours in (1.1, 2.1, 3.1):
                at(wall, hours)
                await anyio.sleep(70)  # it looks, and stands back
                said = [each.outcome["value"] for each in await there.find_sessions()]
                if hours == 2.1:
                    leave.set()
            (view,) = await there.find_schedules()
            assert (view.schedule.input, view.is_disputed) == ("second", False)
    assert said == ["first", "first", "second"]
    assert len([each for each in caplog.records if "schedule.disputed" in each.getMessage()]) == 2


async def test_a_schedule_that_a_configuration_has_no_more_is_removed(wall):
    """One that a person added stays. A changed one is as the configuration says."""
    store = MemoryStore()
    async with opened(store, agents=[report], schedules=[hourly(), hourly(name="other")]) as supervisor:
        await anyio.sleep(1)
        await supervisor.add_schedule(hourly(name="mine"))
        with pytest.raises(InvalidInput, match="configuration"):
            await supervisor.change_schedule("hourly", "removed")
    async with opened(store, agents=[report]) as supervisor:
        assert len(await supervisor.find_schedules()) == 3
    async with opened(store, agents=[report], schedules=[hourly("new", name="other")]) as supervisor:
        await anyio.sleep(1)
        found = {each.schedule.name: each.schedule.input for each in await supervisor.find_schedules()}
        assert found == {"other": "new", "mine": "sales"}
        at(wall, 1.2)
        await look()
        values = sorted(each.outcome["value"] for each in await supervisor.find_sessions())
        assert values == ["new", "sales"]


async def test_a_schedule_in_a_time_zone_that_this_machine_does_not_know_begins_elsewhere(wall):
    """It says so, and the others begin."""
    store = MemoryStore()
    async with opened(store, agents=[report]) as supervisor:
        odd = e.ScheduleAdded(at=MIDNIGHT, schedule=hourly(name="odd", timezone="Mars/Base"), by="ana")
        await supervisor._runner.journal.append(lambda view: [(SCHEDULES, odd)])
        await supervisor.add_schedule(hourly())
        await anyio.sleep(1.5 * HOUR)
        assert [each.next is None for each in await supervisor.find_schedules()] == [True, False]
    assert handled(store) == [(0, "begun"), (1, "begun")]


async def test_schedules_that_a_newer_program_wrote_begin_nothing_and_stop_nothing_else(wall, tmp_path):
    """They have a journal of their own."""
    path = tmp_path / "state.db"
    async with opened(path, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
    with closing(sqlite3.connect(path)) as connection, connection:
        (number,) = connection.execute("SELECT session FROM event WHERE id = ?", (SCHEDULES,)).fetchone()
        body = b'{"event":"ScheduleTeleported","at":"2026-01-02T00:00:00Z"}'
        connection.execute("INSERT INTO event (position, session, body) VALUES (99, ?, ?)", (number, body))
    at(wall, 1.2)
    async with opened(path, agents=[report]) as supervisor:
        await look()
        with pytest.raises(StoreUnreadable):
            await supervisor.find_schedules()
        assert await (await supervisor.start(report, "sales", session="s")).result() == "sales"
        assert len(await supervisor.find_sessions()) == 1


@pytest.mark.parametrize("hours", [0.5, 100.0])
async def test_a_session_that_cannot_be_read_keeps_no_schedule_from_beginning(wall, hours):
    """The index says whether it is open, as a newer program goes on with it: then its schedule skips the instant."""

    class Newer(MemoryStore):
        def journal(self, session, *which, **more):
            if session.startswith("first-2027-01-01t00"):
                raise StoreUnreadable("a newer program has written")
            return super().journal(session, *which, **more)

    store = Newer()
    with pytest.raises(LookupError):  # noqa: PT012 # what is tested is what comes after
        async with opened(agents=[long, report]) as supervisor:
            await supervisor.add_schedule(hourly(hours, "first", "long", if_running="skip"))
            await supervisor.add_schedule(hourly(name="second"))
            await anyio.sleep(0.9 * HOUR)
            vars(store).update(vars(fork(supervisor.store)))
            raise LookupError
    async with opened(store, agents=[long, report]):
        await anyio.sleep(HOUR)
    begun = {each.schedule: each.became for each in events(store, SCHEDULES, e.ScheduleHandled)}
    assert begun == {"first": "begun" if hours < 1 else "skipped", "second": "begun"}
    assert len(events(store, SCHEDULES, e.ScheduleHandled)) == 4


@pytest.mark.parametrize("day", [datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 10, 31, tzinfo=UTC)])
async def test_a_nightly_schedule_begins_once_in_the_night_in_which_clocks_change(wall, day):
    """Between two and three, which one of these nights has not, and the other one has twice."""
    store = MemoryStore()
    wall.ahead = (day - timedelta(hours=12) - datetime.now(UTC)).total_seconds()
    async with opened(store, agents=[report]) as supervisor:
        nightly = Schedule("nightly", "report", "x", cron="30 2 * * *", timezone="Europe/Berlin")
        await supervisor.add_schedule(nightly)
        await anyio.sleep(48 * HOUR)
        assert len(await supervisor.find_sessions()) == 2
    assert [(each.instant.date() - day.date()).days for each in events(store, SCHEDULES, e.ScheduleHandled)] == [0, 1]


async def test_a_process_that_a_supervised_call_started_begins_and_configures_nothing(wall, tmp_path, monkeypatch):
    """A4: what an agent's command runs is no daemon."""
    path = tmp_path / "state.db"
    async with opened(path, agents=[report]) as supervisor:
        await supervisor.add_schedule(hourly())
    at(wall, 1.2)
    monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
    async with opened(path, agents=[report], schedules=[hourly(name="other")]) as supervisor:
        await look()
        assert [each.schedule.name for each in await supervisor.find_schedules()] == ["hourly"]
        assert not await supervisor.find_sessions()
