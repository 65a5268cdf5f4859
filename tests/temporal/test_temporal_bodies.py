"""The bodies of calls and steps on workers: what has begun, what runs again, and what waits."""

import anyio
import pytest
from temporal_server import namespace, working

from supervisor import Context, agent, tool
from supervisor.core import events as e
from supervisor.temporal import bodies, open_temporal

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
