"""Where a task goes on that was cut off, or that waited for the disk: at the same place in every attempt.

In each agent two branches race. What delays one of them in the first attempt does not delay it in a later one.
"""

from contextlib import suppress

import anyio
import pytest
from anyio.lowlevel import checkpoint
from scenes import opened

from supervisor import Approve, Context, MemoryStore, agent, tool
from supervisor.testing import slow_disk

pytestmark = pytest.mark.anyio


@tool(policy="allow", timeout=1000)
async def work(seconds: float) -> None:
    await anyio.sleep(seconds)


@tool(policy="allow", timeout=1000)
async def work_long() -> None:
    """Work until it is cut off, and then clean up."""
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(10)


@tool
async def tell(first: str) -> str:
    return first


async def reports(ctx: Context) -> None:
    for number in range(3):
        await ctx.report("plan", str(number))


async def starts_a_timer(ctx: Context) -> None:
    async with ctx.move_on_after(1000):
        raise TimeoutError


async def is_cut_off(ctx: Context) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ctx.ask, "never answered")
        for _ in range(3):
            await checkpoint()
        tasks.cancel_scope.cancel()


WAYS = {each.__name__: each for each in (reports, starts_a_timer, is_cut_off)}


@agent(inactivity_timeout=20)
async def races(ctx: Context, how: str) -> str:
    """Races a branch that the disk may delay with one that waits for nothing."""
    came: list[str] = []

    async def delayed(inner: Context) -> None:
        with suppress(TimeoutError):
            await WAYS[how](inner)
        came.append("delayed")

    async def free(_: Context) -> None:
        for _ in range(60):
            await checkpoint()
        came.append("free")

    async with ctx.task_group() as tasks:
        for branch in (delayed, free):
            tasks.start_soon(branch)
    return (await ctx.call(tell, came[0])).value


@agent(inactivity_timeout=20)
async def cleans_up(ctx: Context, _: str) -> str:
    """A call is cut off, and cleans up for longer than another call takes."""
    came: list[str] = []

    async def cut_off(inner: Context) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(inner.call, work_long)
            await inner.call(work, 1.0)
            tasks.cancel_scope.cancel()
        came.append("cut off")

    async def other(inner: Context) -> None:
        await inner.call(work, 2.0)
        came.append("other")

    async with ctx.task_group() as tasks:
        for branch in (cut_off, other):
            tasks.start_soon(branch)
    return (await ctx.call(tell, came[0])).value


async def paths(started, how: str) -> list[object]:
    """Return what a run asks a person, while each commit takes 20 ms; and what it returns in a later attempt, in which
    commits are fast."""
    store = MemoryStore()
    with slow_disk(0.02):
        async with opened(store) as supervisor:
            run = await supervisor.start(started, how, session="s")
            async with run.watch_approvals() as watch:
                async for approval in watch:
                    if approval.tool == "tell":
                        break
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        outcome = await run.outcome()
    return [approval.arguments["first"], outcome.value if outcome.kind == "succeeded" else outcome]


@pytest.mark.parametrize("how", WAYS)
async def test_a_task_that_the_disk_may_delay_goes_on_after_those_that_wait_for_nothing(how):
    """R1: in every attempt, even in one in which the disk does not delay it."""
    assert await paths(races, how) == ["free", "free"]


async def test_a_call_that_is_cut_off_leaves_at_its_place_among_the_results():
    """R1: its clean-up took long in the first attempt, and takes no time in the next one."""
    assert await paths(cleans_up, "") == ["other", "other"]
