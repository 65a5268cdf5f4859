"""What a save leaves behind, and what it does not."""

import anyio
import pytest

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
