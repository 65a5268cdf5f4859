"""A run that follows its journal is never taken for one that stands still, at whichever step one looks (R1)."""

import asyncio
from contextlib import suppress

import anyio
import pytest
import sniffio
import trio
from scenes import ForkingStore, deploy, fork, opened
from trio._core._run import _r as shuffled_by

from supervisor import Context, MemoryStore, RunBlocked, agent, tool
from supervisor.runtime.lifecycle.passivate import stands_still

pytestmark = pytest.mark.anyio
ORDERS = 8
"""In so many random orders trio runs its tasks."""


@tool(policy="allow", idempotent=True)
async def effect(name: str) -> str:
    return name


@agent
async def is_cut_off(ctx: Context) -> list[bool]:
    """Blocks whose timers end calls that wait for people, one in another."""
    async with ctx.move_on_after(10) as outer:
        async with ctx.move_on_after(1) as inner:
            await ctx.call(deploy, "too late")
        await ctx.send("the inner one is over")
        await ctx.call(deploy, "too late again")
    async with ctx.move_on_after(1000) as last:
        await ctx.call(effect, "in time")
    return [outer.expired, inner.expired, last.expired]


@agent
async def races(ctx: Context) -> list[str]:
    """Branches of which one ends the others, after steps that wait for nothing."""
    said = []

    async def branch(inner: Context, ticks: int) -> None:
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        said.append(await inner.step(ticks_of, ticks))
        async with inner.move_on_after(ticks):
            await inner.receive()
        scope.cancel()

    with anyio.CancelScope() as scope:
        async with ctx.task_group() as group:
            for ticks in (3, 1, 2):
                group.start_soon(branch, ticks)
    await ctx.send("one has won")
    return said


async def ticks_of(ticks: int) -> str:
    return str(ticks)


class Looks:
    """Looks at the runs of a supervisor before each step of a task, where the loop tells (trio)."""

    def __init__(self, runner):
        self.runner, self.seen = runner, []

    def __enter__(self):
        if sniffio.current_async_library() == "trio":
            trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *_):
        if sniffio.current_async_library() == "trio":
            trio.lowlevel.remove_instrument(self)

    def before_task_step(self, _):
        for attempt in self.runner.attempts.live.values():
            if attempt.stop_reason is None and not attempt.replay.has_followed and stands_still(attempt):
                self.seen.append(attempt.replay.oldest_unclaimed(attempt.state))


@pytest.mark.parametrize("spec", [is_cut_off, races])
async def test_at_no_step_of_its_replay_does_unchanged_code_stand_still(spec):
    """A timer that is about to end a wait counts, before its task has run a step."""
    for seed in range(ORDERS):
        shuffled_by.seed(seed)
        async with opened(store := ForkingStore()) as supervisor:
            await (await supervisor.start(spec, session="s")).result()
        for copy, _ in store.copies[2:-1]:
            async with opened(copy) as supervisor:
                with Looks(supervisor._runner) as looks:
                    await (await supervisor.resume("s")).result()
            assert looks.seen == []


async def deadline_of_anyio(ctx: Context) -> str:
    with anyio.move_on_after(8):
        await ctx.receive()
    await ctx.send("nothing came")
    return (await ctx.call(deploy, "now")).kind


async def deadline_of_asyncio(ctx: Context) -> str:
    with suppress(TimeoutError):
        async with asyncio.timeout(8):
            await ctx.receive()
    await ctx.send("nothing came")
    return (await ctx.call(deploy, "now")).kind


async def left_at_once(ctx: Context) -> str:
    async with ctx.move_on_after(1):
        await ctx.call(deploy, "too late")
    await ctx.send("it was too late")
    return (await ctx.call(deploy, "now")).kind


async def left_for_another(ctx: Context) -> str:
    async with ctx.move_on_after(1):
        await ctx.call(deploy, "another")
    return "done"


async def left_waiting(spec):
    """Start an agent, and return the store of a process that dies when its last call waits for a person."""
    async with opened(store := MemoryStore(), passivate_after=None) as supervisor:
        run = await supervisor.start(spec, session="s")
        async with run.watch_approvals() as watch:
            async for approval in watch:
                if "now" in str(approval.arguments):
                    break
        killed = fork(store)
        await supervisor.cancel("s")
        return killed


@pytest.mark.parametrize("code", [deadline_of_anyio, deadline_of_asyncio])
async def test_a_wait_that_a_deadline_of_the_agents_own_ends_stands_not_still(deployed, code):
    """Such a deadline leaves no trace in the journal, and ends the wait in each attempt. The run goes on."""
    if code is deadline_of_asyncio and sniffio.current_async_library() == "trio":
        pytest.skip("asyncio's own")
    store = await left_waiting(deployed(code))
    async with opened(store, unattended="allow") as supervisor:
        assert await (await supervisor.resume("s")).result() == "ok"


async def test_changed_code_is_blocked_in_a_block_whose_timer_has_expired(deployed):
    """The timer waits for an operation that is never asked for, and the agent for the timer."""
    store = await left_waiting(deployed(left_at_once))
    deployed(left_for_another)
    async with opened(store) as supervisor:
        with pytest.raises(RunBlocked, match="another"), anyio.fail_after(100):
            await (await supervisor.resume("s")).outcome()
