"""Queries that come while a task of the workflow is scheduled: nothing happens in the workflow before it is started."""

import anyio
import pytest
from clusters import histories
from temporal_server import namespace, working
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer

from supervisor import Context, agent
from supervisor.temporal import open_temporal
from supervisor.temporal.settings import PayloadsInUtf8
from supervisor.temporal.wire import UNSTARTED, Entries
from supervisor.temporal.worker import unstarted
from supervisor.temporal.worker.unstarted import TaskRunner
from supervisor.temporal.workflow.workflows import WORKFLOWS, Offer
from supervisor.testing import wrapped

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(60):
        yield


@agent
async def napping(ctx: Context) -> str:
    await ctx.sleep(0.1)
    await ctx.sleep(0.1)
    return "awake"


class Watched(TaskRunner):
    """Notes with what the worker refuses to go on."""

    def __init__(self) -> None:
        self.refusals = list[str]()

    def create_instance(self, det):
        instance = super().create_instance(det)
        usual = instance.activate

        def activate(given):
            ended = usual(given)
            if ended.HasField("failed"):
                self.refusals.append(ended.failed.failure.application_failure_info.type)
            return ended

        instance.activate = activate
        return instance


async def refusals(events: list[dict]) -> list[str]:
    """Run a workflow over events as a worker does that has fetched them for a query. Return what it refuses."""
    runner = Watched()
    replayer = Replayer(
        workflows=WORKFLOWS,
        interceptors=[Offer({"napping": napping}, 30.0)],
        unsandboxed_workflow_runner=runner,
        data_converter=DataConverter(payload_converter_class=PayloadsInUtf8),
    )
    await replayer.replay_workflow(WorkflowHistory.from_json("n", {"events": events}))
    return runner.refusals


async def test_events_whose_task_is_only_scheduled_are_refused():
    """A timer has fired, and is not due by the time of the task before: the tree would ask for it once more."""
    url = await namespace()
    async with working(url, [napping]), open_temporal(url) as supervisor:
        run = await supervisor.start(napping, session="n")
        assert await run.result() == "awake"
        (history,) = (await histories(url, "n")).values()
    events = history["events"]
    kinds = [each["eventType"].removeprefix("EVENT_TYPE_") for each in events]
    assert await refusals(events) == []
    for fired in [number for number, kind in enumerate(kinds) if kind == "TIMER_FIRED"]:
        scheduled = kinds.index("WORKFLOW_TASK_SCHEDULED", fired)
        assert await refusals(events[: scheduled + 1]) == [UNSTARTED]
    assert kinds.count("TIMER_FIRED") == 2


async def test_a_query_that_was_refused_is_asked_again(enter):
    """The client that has asked sees nothing of it."""
    asked, has_ended = list[str](), list[str]()

    def refuse_twice(activate, tasks, usual, given):
        if has_ended and any(job.WhichOneof("variant") == "query_workflow" for job in given.jobs):
            asked.append(given.run_id)
            if len(asked) < 3:
                return unstarted.refuse(given)
        return activate(tasks, usual, given)

    enter(wrapped(unstarted._Tasks, "activate", refuse_twice))
    url = await namespace()
    async with working(url, [napping]), open_temporal(url) as supervisor:
        run = await supervisor.start(napping, session="n")
        has_ended.append(await run.result())
        assert Entries.decompressed(await supervisor.mirror.namespace.query("n", "entries", 0, bytes)).rows
    assert len(asked) == 3
