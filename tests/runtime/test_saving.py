"""What a save leaves behind, and what it does not."""

import anyio
import pytest
from scenes import events as events_of, fork, opened

from supervisor import Context, MemoryStore, agent, open_supervisor
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
saved = None


async def number(n: int) -> int:
    return n


async def long_step() -> None:
    await saved.wait()


@agent
async def saver(ctx: Context) -> None:
    await ctx.step(number, 1)
    async with ctx.task_group() as group:
        group.start_soon(asks_before_the_save)
        group.start_soon(saves)


async def asks_before_the_save(ctx: Context) -> None:
    await ctx.step(long_step)


async def saves(ctx: Context) -> None:
    await ctx.step(number, 2)
    await ctx.save("half")
    await ctx.step(number, 3)
    saved.set()


async def test_what_was_asked_for_before_a_save_lies_before_all_that_came_after_it():
    """What the agent had been given is counted from its last save; a count from before it means nothing after it."""
    global saved
    saved = anyio.Event()
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(saver)
        await run.result()
        events = [row.event for row in supervisor.journal(run.session)]
    steps = {event.operation: event.given for event in events if isinstance(event, e.OperationFinished)}
    assert [given for operation, given in steps.items() if "long_step" in operation] == [0]


@agent
async def nests(ctx: Context) -> list[bool]:
    """Two durable timers of the same length, one in the other, and a save behind the inner one."""
    async with ctx.move_on_after(1000) as outer:
        if ctx.saved is None:
            async with ctx.move_on_after(1000):
                await ctx.sleep(500)
            await ctx.save("the inner one is over")
        await ctx.receive()
    return [outer.expired]


async def test_a_save_behind_a_timer_leaves_the_one_around_it_as_it_is():
    """The outer timer goes on in the next attempt, with the instant that it had; nothing diverges."""
    store = MemoryStore()
    async with opened(store, passivate_after=1e6) as supervisor:
        run = await supervisor.start(nests, session="s")
        await anyio.sleep(600)
        killed = fork(store)
        await run.cancel()
    async with opened(killed) as supervisor:
        (run,) = await supervisor.resume("s")
        assert await run.result() == [True]
    started = [event for event in events_of(killed, "s", e.OperationStarted) if event.kind == "timer"]
    assert len(started) == 2
    ended = events_of(killed, "s", e.RunFinished)[0]
    assert abs((ended.at - started[0].due_at).total_seconds()) < 1
