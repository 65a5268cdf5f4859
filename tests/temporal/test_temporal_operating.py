"""What operators have: workers for some tools alone, metrics and probes, certificates that change, and what can be
searched for."""

import anyio
import pytest
from temporal_server import namespace, working
from temporalio import activity
from temporalio.client import Client

from supervisor import Context, InvalidInput, agent, tool
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal import open_temporal

pytestmark = pytest.mark.anyio


async def connected(url: str) -> Client:
    store = read_temporal_url(url)
    return await Client.connect(store.target, namespace=store.namespace)


@tool(policy="allow", queue="gpu")
async def rendering() -> str:
    return activity.info().task_queue


@tool(policy="allow")
async def adding() -> str:
    return activity.info().task_queue


@agent
async def painter(ctx: Context) -> list[str]:
    return [(await ctx.call(adding)).value, (await ctx.call(rendering)).value]


async def test_a_tool_with_a_queue_runs_on_workers_of_that_queue_alone():
    """The other worker runs the session, and the calls of all other tools: the call waits until the queue has one."""
    url = await namespace()
    async with working(url, [painter]), open_temporal(url) as supervisor:
        run = await supervisor.start(painter, session="p")
        handle = (await connected(url)).get_workflow_handle("p")
        while not (pending := (await handle.describe()).raw_description.pending_activities):
            await anyio.sleep(0.05)
        assert "rendering" in pending[0].activity_id
        async with working(url, [painter], queue="gpu"):
            assert await run.result() == ["subagent-supervisor", "subagent-supervisor~gpu"]


def test_a_queue_has_a_name_that_a_server_takes():
    with pytest.raises(InvalidInput, match="tool rendering: its queue"):
        tool(queue="a~b")(rendering.fn)
