"""What comes to a tree from outside of its agents: a cancel from Temporal, and workers that lack what it needs."""

import anyio
import pytest
from temporal_server import namespace, working
from temporalio.client import Client, WorkflowExecutionStatus

from supervisor import Context, agent
from supervisor.temporal import open_temporal
from supervisor.temporal.wire import DecisionRequest, to_wire

pytestmark = pytest.mark.anyio


@agent
async def asking(ctx: Context) -> str:
    return await ctx.ask("Well?")


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(100):
        yield


async def connected(url: str) -> Client:
    target, name = url.removeprefix("temporal://").split("/")
    return await Client.connect(target, namespace=name)


async def question(supervisor) -> str:
    """Return the id of what is asked, when it is."""
    while not (found := await supervisor.find_approvals()):
        await anyio.sleep(0.05)
    return found[0].id


@pytest.mark.parametrize("is_deciding", [False, True])
async def test_a_cancel_from_temporal_ends_a_tree_as_ours_does(is_deciding):
    """While it waits. Also while it tells who has decided what came of that: then the decision may be faster."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [asking]):
            await supervisor.start(asking, session="a")
            asked = await question(supervisor)
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
