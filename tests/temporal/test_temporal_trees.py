"""What comes to a tree from outside of its agents: a cancel from Temporal, and workers that lack what it needs."""

import asyncio
import gc
import logging
import threading

import anyio
import pytest
from clusters import histories
from temporal_server import namespace, shared, working
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from watching import calls_of

from supervisor import Answer, Context, agent, tool
from supervisor.system.inside import Inside
from supervisor.temporal import open_temporal
from supervisor.temporal.settings import PayloadsInUtf8
from supervisor.temporal.wire import DecisionRequest, to_wire
from supervisor.temporal.workflow.workflows import WORKFLOWS, Offer, Tree

pytestmark = pytest.mark.anyio


@agent
async def asking(ctx: Context) -> str:
    return await ctx.ask("Well?")


held = list[str]()
"""What the calls of `holding` have come to."""


@tool(policy="allow")
async def holding(name: str) -> None:
    held.append(f"{name} begun")
    try:
        await anyio.sleep_forever()
    finally:
        held.append(f"{name} ended")


@agent
async def busy(ctx: Context) -> None:
    """Has two calls under way, and a sub-agent that asks."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ctx.run, asking)
        tasks.start_soon(ctx.call, holding, "one")
        tasks.start_soon(ctx.call, holding, "two")


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(100):
        yield


async def connected(url: str) -> Client:
    target, name = url.removeprefix("temporal://").split("/")
    return await Client.connect(target, namespace=name)


async def questions(supervisor, count: int) -> list[str]:
    """Return the ids of what is asked, when so much is, by session."""
    while len(found := await supervisor.find_approvals()) < count:
        await anyio.sleep(0.05)
    return [each.id for each in sorted(found, key=lambda each: each.session)]


@pytest.mark.parametrize("is_deciding", [False, True])
async def test_a_cancel_from_temporal_ends_a_tree_as_ours_does(is_deciding):
    """While it waits. Also while it tells who has decided what came of that: then the decision may be faster."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [asking]):
            await supervisor.start(asking, session="a")
            (asked,) = await questions(supervisor, 1)
        tree = (await connected(url)).get_workflow_handle("a")  # no worker lives: the next one gets both at once
        if is_deciding:
            decision = DecisionRequest(approval=asked, root="a", kind="answer", by="ana", at="", value="yes")
            await tree.signal("decide", to_wire(decision))
        await tree.cancel(reason="by hand")
        async with working(url, [asking]):
            outcome = await (await supervisor.get_run("a")).outcome()
            assert outcome.kind == "cancelled" or is_deciding
            assert is_deciding or "by hand" in (outcome.cause or "")
            while (status := (await tree.describe()).status) == WorkflowExecutionStatus.RUNNING:
                await anyio.sleep(0.05)
            assert status == WorkflowExecutionStatus.COMPLETED


async def test_a_tree_does_not_ask_who_has_started_its_worker():
    """Whoever gives a command has checked that for its own process. A replay may be in any process."""
    url = await namespace()
    with calls_of(Inside.refuse, lambda _: threading.current_thread().name) as looks:
        async with working(url, [asking]), open_temporal(url) as supervisor:
            run = await supervisor.start(asking)
            (asked,) = await questions(supervisor, 1)
            await supervisor.decide(asked, Answer(by="ana", value="yes"))
            assert await run.result() == "yes"
    assert not [thread for thread in looks if thread.startswith("temporal_workflow")]


async def replay(url: str, *sessions: str) -> None:
    """Run the workflows of sessions again over their histories."""
    replayer = Replayer(
        workflows=WORKFLOWS,
        interceptors=[Offer({each.name: each for each in (asking, busy)}, 30.0)],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=DataConverter(payload_converter_class=PayloadsInUtf8),
    )
    for named, history in (await histories(url, *sessions)).items():
        await replayer.replay_workflow(WorkflowHistory.from_json(named.split()[0], history))


async def test_a_cancel_from_temporal_ends_a_tree_in_the_memory_of_a_worker():
    """One that only waits, and one with calls under way, whose bodies are cancelled. Both can be run again."""
    held.clear()
    url = await namespace()
    async with working(url, [asking, busy]), open_temporal(url) as supervisor:
        runs = [await supervisor.start(asking, session="a"), await supervisor.start(busy, session="b")]
        await questions(supervisor, 2)
        while len(held) < 2:
            await anyio.sleep(0.05)
        client = await connected(url)
        for run in runs:
            await client.get_workflow_handle(run.session).cancel(reason="by hand")
        outcomes = [await run.outcome() for run in runs]
        assert all("by hand" in (each.cause or "") for each in outcomes)
        assert sorted(held) == ["one begun", "one ended", "two begun", "two ended"]
        assert [each.outcome["kind"] for each in await supervisor.find_sessions()] == ["cancelled"] * 3
        for run in runs:
            await client.get_workflow_handle(run.session).result()  # it has not failed
    await replay(url, "a", "b")


def tasks_elsewhere() -> list[asyncio.Task]:
    """Return the tasks that have not ended and are on another loop than this one: those of workflows."""
    gc.collect()
    here, found = asyncio.get_running_loop(), gc.get_objects()
    # By the type: `isinstance` would ask a weak proxy, whose object may be gone.
    tasks = [each for each in found if issubclass(type(each), asyncio.Task) and not each.done()]
    return [each for each in tasks if each.get_loop() is not here]


async def test_a_tree_that_left_the_memory_of_its_worker_goes_on(caplog):
    """To its end, or to a cancel from Temporal. No warning is logged, and no task is left."""
    held.clear()
    before = tasks_elsewhere()
    url = await namespace()
    with caplog.at_level(logging.WARNING), calls_of(Tree.__init__) as made:
        async with working(url, [asking, busy], cached=1), open_temporal(url) as supervisor:
            runs = [await supervisor.start(asking, session="a"), await supervisor.start(busy, session="b")]
            while len(held) < 2:
                await anyio.sleep(0.05)
            asked, _ = await questions(supervisor, 2)
            await supervisor.decide(asked, Answer(by="ana", value="yes"))
            assert (await runs[0].outcome()).value == "yes"
            tree = (await connected(url)).get_workflow_handle("b")
            await tree.cancel(reason="by hand")
            assert (await runs[1].outcome()).kind == "cancelled"
            await tree.result()  # temporalio keeps the tasks of a workflow that is open when its worker is stopped
    assert len(made) > 2  # one has left for the other one, and was run again
    assert [each for each in tasks_elsewhere() if each not in before] == []
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each for each in said if "127.0.0.1" not in each or shared() in each] == []  # not of another test's server
