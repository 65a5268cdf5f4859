"""R11 on Temporal: its schedules wake, and each of our instants begins one tree."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporal_server import namespace, working
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import Client, Schedule as TemporalSchedule, ScheduleActionStartWorkflow

from supervisor import Context, InvalidInput, NotFound, Schedule, UnknownAgent, agent
from supervisor.cli import main
from supervisor.system.cron import first_after
from supervisor.temporal import open_temporal
from supervisor.temporal.wakes import due_at, find_offsets, wakes_of, was_missed

pytestmark = pytest.mark.anyio
NOW = datetime(2027, 1, 1, tzinfo=UTC)
SPRING = datetime(2028, 2, 27, tzinfo=UTC), datetime(2028, 4, 4, tzinfo=UTC)
AUTUMN = datetime(2028, 10, 27, tzinfo=UTC), datetime(2028, 11, 8, tzinfo=UTC)
"""The ends of months, a day in a leap year, and the changes of clocks."""
INSTANTS = {
    "30 2 * * *": "Europe/Berlin",
    "15,45 2 * * *": "America/New_York",
    "*/20 2 * * *": "Europe/Berlin",
    "0 */2 * * *": "Europe/Berlin",
    "0 30 2 * * *": "Europe/Berlin",
    "30 0 1,15 * MON": "Europe/Berlin",
    "0 12 * * 7": "America/Santiago",
    "45 3 * * *": "Pacific/Chatham",
    "0 0 */2 * 1-5": "Africa/Casablanca",
    "0 0 L * *": "Pacific/Kiritimati",
    "0 9 LW * *": "UTC",
    "0 9 * * 5L": "America/New_York",
    "0 9 * * MON#2": "Asia/Kolkata",
    "0 0 29 2 *": "Europe/Berlin",
}
"""Expressions, and the zone of each."""


def instants(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    """Those of one machine."""
    found = [start]
    while (each := first_after(schedule.cron, schedule.timezone, found[-1])) is not None and each < end:
        found.append(each)
    return found[1:]


async def wakes(client: Client, schedule: Schedule, *spans: tuple[datetime, datetime]) -> list[list[datetime]]:
    """Those of Temporal, in each of the spans."""
    spec, answers = wakes_of(schedule, find_offsets(schedule, NOW)), []
    name = schedule.digest
    action = ScheduleActionStartWorkflow("Nothing", id="nothing", task_queue="none")
    await client.create_schedule(name, TemporalSchedule(action=action, spec=spec))
    for span in spans:
        start, end = Timestamp(), Timestamp()
        start.FromDatetime(span[0])
        end.FromDatetime(span[1])
        asked = ListScheduleMatchingTimesRequest(
            namespace=client.namespace, schedule_id=name, start_time=start, end_time=end
        )
        found = await client.workflow_service.list_schedule_matching_times(asked)
        answers.append([each.ToDatetime(UTC) for each in found.start_time])
    return answers


async def test_our_instants_are_due_at_the_wakes_of_temporal():
    """Also where summer time skips a time of day, or has it twice; of days *or* weekdays, and of the ends of months."""
    target, named = (await namespace()).removeprefix("temporal://").split("/")
    client, wrong = await Client.connect(target, namespace=named), {}
    for cron, zone in INSTANTS.items():
        schedule = Schedule("s", "report", cron=cron, timezone=zone)
        offsets = find_offsets(schedule, NOW)
        for span, found in zip((SPRING, AUTUMN), await wakes(client, schedule, SPRING, AUTUMN), strict=True):
            due = [each for wake in found if (each := due_at(schedule, offsets, wake, wake)) is not None]
            due = [each for each in due if span[0] < each < span[1]]
            if due != (ours := instants(schedule, *span)):
                wrong[cron, span[0].month] = sorted({*due} ^ {*ours})
    assert wrong == {}


@pytest.mark.parametrize(
    ("cron", "due"), [("30 2 * * *", "01:00"), ("30 1-2 * * *", "01:00"), ("59 1-3 * * *", "01:59")]
)
def test_a_time_that_summer_time_skips_is_woken_when_it_would_have_come_without(cron, due):
    """It is due after the gap, at three, unless another one is due by then."""
    schedule = Schedule("s", "report", cron=cron, timezone="Europe/Berlin")
    skipped = datetime(2027, 3, 28, 1, int(cron[:2]), tzinfo=UTC)
    assert f"{due_at(schedule, find_offsets(schedule, NOW), skipped, skipped):%H:%M}" == due


def test_a_wake_that_finds_a_worker_late_begins_the_last_instant():
    """It was missed if no worker was there; not if it has waited for the session before."""
    schedule, late = Schedule("s", "report", cron="0 * * * *"), NOW + timedelta(minutes=190)
    due = due_at(schedule, [0], NOW, late)
    assert due == NOW + timedelta(hours=3)
    assert was_missed(due, NOW, late)
    assert not was_missed(due, late, late)
    assert not was_missed(due, NOW, due + timedelta(seconds=50))


@agent
async def report(ctx: Context, of: str) -> str:
    return f"report of {of}"


@agent
async def listening(ctx: Context) -> str:
    return await ctx.receive()


EACH_SECOND = {"cron": "* * * * * *", "timezone": "Europe/Berlin"}


def second_of(session: str) -> datetime:
    """The instant that the id of a session names: often-2027-01-01t02-00-00z--..."""
    return datetime.strptime(session.partition("-")[2].partition("z--")[0] + "Z", "%Y-%m-%dt%H-%M-%S%z")


async def until(read, condition):
    """Read until a condition holds, and return that."""
    while not condition(found := await read()):
        await anyio.sleep(0.1)
    return found


async def test_each_instant_begins_one_session_and_the_one_before_is_waited_for_as_the_schedule_says(capsys):
    """Workers come and go: what was missed is one session. What listens is answered by the second worker."""
    url = await namespace()
    with anyio.fail_after(90):
        async with open_temporal(url) as supervisor:

            async def sessions(name: str):
                found = await supervisor.find_sessions(limit=None)
                return [each for each in found if each.id.startswith(name)]

            async def view(name: str):
                return next(each for each in await supervisor.find_schedules() if each.schedule.name == name)

            async with working(url, [report, listening]):
                with pytest.raises(UnknownAgent, match="listening, report"):
                    await supervisor.add_schedule(Schedule("x", "nothing", **EACH_SECOND))
                with pytest.raises(InvalidInput, match="Expected `str`"):
                    await supervisor.add_schedule(Schedule("x", "report", 5, **EACH_SECOND))
                with pytest.raises(InvalidInput, match="131072 at most are kept"):
                    await supervisor.add_schedule(Schedule("x", "report", "x" * 131072, **EACH_SECOND))
                for name, when in {"one": "skip", "then": "after"}.items():
                    await supervisor.add_schedule(Schedule(name, "listening", if_running=when, **EACH_SECOND), by="ben")
                often = Schedule("often", "report", "sales", if_running="beside", **EACH_SECOND)
                await supervisor.add_schedule(often, by="ana")
                await until(lambda: sessions("often"), lambda found: len(found) > 1)
                skipping = await until(lambda: view("one"), lambda found: found.became == "skipped")
                waiting = await until(lambda: view("then"), lambda found: found.waiting is not None)
                assert skipping.reason == f"session {skipping.session} is open"
                assert waiting.waiting > waiting.last
                assert (waiting.by, len(await sessions("one")), len(await sessions("then"))) == ("ben", 1, 1)
            stopped = datetime.now(UTC)
            await anyio.sleep(3)
            began = datetime.now(UTC)
            async with working(url, [report, listening]):
                for each in (skipping, waiting):
                    await supervisor.send(each.session, "go on", by="ana")
                for name in ("one", "then"):
                    await until(lambda name=name: sessions(name), lambda found: len(found) > 1)
                found = await until(lambda: sessions("often"), lambda found: second_of(found[-1].id) > began)
                assert [each.id for each in found] == [often.session_at(second_of(each.id)) for each in found]
                second = timedelta(seconds=1)
                assert not [each for each in found if stopped + second < second_of(each.id) < began - second]
                assert {each.outcome["value"] for each in found if each.outcome} == {"report of sales"}
                await paused_run_and_removed(supervisor, often)
                shown = partial(main, ["schedules", "--json", "--store", url])
                assert await anyio.to_thread.run_sync(shown) == 0
    assert {each["schedule"]["name"]: each["by"] for each in json.loads(capsys.readouterr().out)} == {
        "one": "ben",
        "then": "ben",
    }


async def paused_run_and_removed(supervisor, often: Schedule) -> None:
    """What people do with a schedule."""
    assert (await supervisor.add_schedule(often, by="eve")).by == "ana"
    with pytest.raises(InvalidInput, match="another schedule is named often"):
        await supervisor.add_schedule(Schedule("often", "report", "costs", **EACH_SECOND))
    paused = await supervisor.change_schedule("often", "paused", by="olga")
    assert (paused.is_paused, paused.next) == (True, None)
    runs = [await supervisor.run_schedule("often", session="mine", by="olga") for _ in range(2)]
    assert ([each.is_new for each in runs], await runs[0].result()) == ([True, False], "report of sales")
    assert not (await supervisor.change_schedule("often", "running", by="olga")).is_paused
    await supervisor.change_schedule("often", "removed", by="olga")
    with pytest.raises(NotFound, match="the schedules are: one, then"):
        await supervisor.change_schedule("often", "paused")


async def test_a_schedule_that_is_added_without_a_worker_says_later_why_nothing_begins():
    """Its input is looked at by the worker that comes."""
    url = await namespace()
    with anyio.fail_after(60):
        async with open_temporal(url) as supervisor:
            await supervisor.add_schedule(Schedule("odd", "report", 5, **EACH_SECOND))
            async with working(url, [report]):
                why = "the input of agent report: Expected `str`, got `int`"
                await until(supervisor.find_schedules, lambda found: found[0].reason == why)
                await supervisor.change_schedule("odd", "paused")
                await until(supervisor.find_sessions, lambda found: not found)  # the last one is refused, too
