"""Every call has one result: for a far side that goes away, an exception of any kind, and a deadline of any origin."""

import json
from typing import Any

import anyio
import pytest
from scenes import events, opened

from supervisor import Context, MemoryStore, agent, tool
from supervisor.core import events as e
from supervisor.testing import virtual_asyncio, virtual_trio

pytestmark = pytest.mark.anyio

LOST = {
    "refused": ConnectionRefusedError("refused"),
    "reset": ConnectionResetError("reset"),
    "pipe": BrokenPipeError("pipe"),
    "end": EOFError("end"),
    "broken": anyio.BrokenResourceError("broken"),
    "closed": anyio.ClosedResourceError("closed"),
    "stream": anyio.EndOfStream("stream"),
    "read": anyio.IncompleteRead(),
}


@pytest.fixture(params=[virtual_asyncio, virtual_trio], ids=["asyncio", "trio"])
def anyio_backend(request):
    return request.param()


@tool(approval="never")
async def far_away(how: str) -> str:
    raise LOST.get(how, RuntimeError(how))


@tool(approval="never", timeout=20.0)
async def slow(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "done"


@agent
async def calling(ctx: Context, how: str) -> list[Any]:
    result = await ctx.call(far_away, how)
    return [result.kind, result.details["reason"], result.details["effect"]]


@agent
async def patient(ctx: Context, seconds: float) -> list[Any]:
    result = await ctx.call(slow, seconds)
    return [result.kind, result.details.get("timeout")]


@agent(call_timeout=5.0)
async def hurried(ctx: Context, seconds: float) -> list[Any]:
    result = await ctx.call(slow, seconds)
    return [result.kind, result.details.get("timeout")]


@pytest.mark.parametrize("how", LOST)
async def test_a_lost_connection_is_a_result(how):
    """The far side may have done it: that is said, and the agent goes on."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(calling, how, session="s")
        assert await run.result() == ["error", "connection_lost", "maybe"]
    (result,) = events(store, "s", e.ToolCallFinished)
    assert json.loads(bytes(result.details))["reason"] == "connection_lost"


async def test_any_other_exception_is_a_result_of_its_own_kind():
    """A tool that has a fault is told from one whose far side is gone."""
    async with opened() as supervisor:
        run = await supervisor.start(calling, "a fault")
        assert await run.result() == ["error", "exception", "maybe"]


@pytest.mark.parametrize(("spec", "timeout"), [(patient, 20.0), (hurried, 5.0)])
async def test_an_agents_deadline_for_its_calls_goes_before_the_tools(spec, timeout):
    """Counted to the instant: what ends before it is no timeout."""
    async with opened() as supervisor:
        assert await (await supervisor.start(spec, timeout - 0.01)).result() == ["ok", None]
        assert await (await supervisor.start(spec, timeout + 0.01)).result() == ["error", timeout]
