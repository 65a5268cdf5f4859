"""The bodies of calls and steps on workers: what has begun, what runs again, and what waits."""

import anyio
import pytest
from temporal_server import namespace, working
from temporalio import workflow
from temporalio.client import Client

from supervisor import Context, agent, tool
from supervisor.core import events as e
from supervisor.temporal import bodies, open_temporal
from supervisor.temporal.rescue import rescue
from supervisor.temporal.wire import decision_id

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(120):
        yield


@tool(policy="allow", timeout=60)
async def echoing(text: str) -> str:
    return text


async def echo(text: str) -> str:
    return text


@agent
async def impatient(ctx: Context) -> list[object]:
    """Cancels a step and a call, and does both again."""
    found: list[object] = []
    async with ctx.move_on_after(0.3):
        found.append(await ctx.step(echo, "first"))
    async with ctx.move_on_after(0.3):
        found.append((await ctx.call(echoing, "first")).kind)
    return [*found, await ctx.step(echo, "second"), (await ctx.call(echoing, "second")).value]


async def test_a_body_that_is_cancelled_before_its_mark_has_not_begun(monkeypatch):
    """So it gives no result: not to its agent, and not to the journal."""
    usual, slow = bodies._handle, iter([True, True])

    class Slow:
        async def heartbeat(self, mark: object) -> None:
            if next(slow, False):
                await anyio.sleep(1)
            await usual().heartbeat(mark)

    monkeypatch.setattr(bodies, "_handle", Slow)
    url = await namespace()
    async with working(url, [impatient]), open_temporal(url) as supervisor:
        run = await supervisor.start(impatient, session="i")
        assert await run.result() == ["second", "second"]
        entries = [row.event for row in await supervisor.find_entries("i")]
    ended = [each.kind for each in entries if isinstance(each, e.ToolCallFinished | e.OperationFinished)]
    assert [kind for kind in ended if kind != "timer"] == ["step", "ok"]


@agent
async def hasty(ctx: Context) -> str:
    return await ctx.ask("Well?", expires_in=2.0)


async def test_an_expiry_that_a_tree_has_claimed_before_it_moved_counts(monkeypatch):
    """The tree moves before the server has told it that its claim stands: it expires in the next workflow."""
    usual = workflow.start_child_workflow

    async def slow(*given: object, **options: object) -> None:
        await usual(*given, **options)
        if workflow.info().continued_run_id is None:
            await workflow.sleep(2)

    monkeypatch.setattr(workflow, "start_child_workflow", slow)
    url = await namespace()
    async with working(url, [hasty]), open_temporal(url) as supervisor:
        run = await supervisor.start(hasty, session="h")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        while not await count_workflows(url, decision_id(asked.id)):
            await anyio.sleep(0.1)
        assert await rescue(supervisor, "h", goes_on=False, by="ana") == "parked"
        while await count_workflows(url, "h") < 2:
            await anyio.sleep(0.1)
        await rescue(supervisor, "h", goes_on=True, by="ana")
        with anyio.fail_after(20):  # of the 30 s after which a decision that was lost is asked for again
            assert "expired" in (await run.outcome()).cause


async def count_workflows(url: str, workflow_id: str) -> int:
    target, name = url.removeprefix("temporal://").split("/")
    client = await Client.connect(target, namespace=name)
    return len([each async for each in client.list_workflows(f'WorkflowId = "{workflow_id}"')])
