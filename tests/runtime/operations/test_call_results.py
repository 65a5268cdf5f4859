"""Every call has one result: after a lost connection, after an exception of any kind, and after any deadline."""

import json
from typing import Any

import anyio
import pytest
from scenes import HeldStore, events, opened

from supervisor import Context, InvalidInput, MemoryStore, agent, tool
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


@tool(policy="allow")
async def far_away(how: str) -> str:
    if how == "an exit":
        raise SystemExit(3)
    raise LOST.get(how, RuntimeError(how))


@tool(policy="allow", timeout=20.0)
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
    """The far side may have done the call. The result says so, and the agent goes on."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(calling, how, session="s")
        assert await run.result() == ["error", "connection_lost", "maybe"]
    (result,) = events(store, "s", e.ToolCallFinished)
    assert json.loads(bytes(result.details))["reason"] == "connection_lost"


@pytest.mark.parametrize("how", ["a fault", "an exit"])
async def test_any_other_exception_is_a_result_of_its_own_kind(how):
    """The result tells a faulty tool from a lost connection. A tool that exits ends no process."""
    async with opened() as supervisor:
        run = await supervisor.start(calling, how)
        assert await run.result() == ["error", "exception", "maybe"]


@tool(policy="allow")
async def fails_to_clean_up() -> None:
    async def child() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    async with anyio.create_task_group() as group:
        group.start_soon(child)
        await anyio.sleep_forever()


@agent
async def impatient(ctx: Context) -> str:
    async with ctx.move_on_after(1):
        await ctx.call(fails_to_clean_up)
    await ctx.sleep(1)
    return "moved on"


async def test_an_exception_of_a_cancelled_tool_is_not_raised_in_the_agent():
    """T1: the call is answered at once. On trio the exception comes in a group, together with the cancellation."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(impatient, session="s")).result() == "moved on"
    said = [row.event for row in store.journal("s")]
    (answer,) = [event for event in said if isinstance(event, e.OperationAbandoned | e.ToolCallFinished)]
    assert answer.operation.startswith("call")
    assert said.index(answer) < len(said) - 2


@tool(policy="allow")
async def says_what_nobody_knows() -> "Unknown":  # noqa: F821 # that is the point
    ran.append("ran")


ran: list[str] = []


@agent
async def guessing(ctx: Context) -> str:
    try:
        await ctx.call(says_what_nobody_knows)
    except InvalidInput as error:
        return str(error)
    return "called"


async def test_a_type_that_cannot_be_resolved_raises_before_the_effect():
    """After the effect its result could not be given to the agent."""
    async with opened() as supervisor:
        assert "Unknown" in await (await supervisor.start(guessing)).result()
    assert ran == []


@pytest.mark.parametrize(("spec", "timeout"), [(patient, 20.0), (hurried, 5.0)])
async def test_an_agents_deadline_for_its_calls_goes_before_the_tools(spec, timeout):
    """It is counted to the instant: a call that ends before it has no timeout."""
    async with opened() as supervisor:
        assert await (await supervisor.start(spec, timeout - 0.01)).result() == ["ok", None]
        assert await (await supervisor.start(spec, timeout + 0.01)).result() == ["error", timeout]


async def test_a_cancelled_call_has_its_result_if_the_run_is_stopped_before_its_end_is_on_disk():
    """T1: a scope of the agent cancels it, and the supervisor stops before the store takes that it is abandoned. The
    next process would report it as lost, and it is not."""
    store, has_begun = HeldStore(), anyio.Event()

    @tool(policy="allow")
    async def lasting() -> None:
        has_begun.set()
        try:
            await anyio.sleep(60)
        finally:
            store.is_held = True

    @agent
    async def fickle(ctx: Context) -> None:
        with anyio.move_on_after(5):
            await ctx.call(lasting)

    async def free_later() -> None:
        await anyio.sleep(17)  # longer than a stop waits for calls
        store.is_held = False

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(free_later)
        with anyio.move_on_after(5.5):
            async with opened(store) as supervisor:
                await supervisor.start(fickle, session="s")
                await has_begun.wait()
                await anyio.sleep_forever()
    ends = [event for event in events(store, "s") if isinstance(event, e.ToolCallFinished | e.OperationAbandoned)]
    assert [json.loads(bytes(end.details))["reason"] for end in ends] == ["cancelled"]
