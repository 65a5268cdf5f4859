"""The inbox continues from its cursor: in the order of the last changes, with nothing missed and nothing twice."""

import anyio
import pytest
from scenes import opened
from watching import next_of

from supervisor import Context, Deny, agent, tool
from supervisor.core.cursors import make_cursor
from supervisor.runtime.reading.streams import LOOK

pytestmark = pytest.mark.anyio


@tool
async def work(name: str) -> str:
    return name


@agent
async def worker(ctx: Context, name: str) -> str:
    return (await ctx.call(work, name)).kind


async def test_cursors_grow_also_where_an_approval_changed_twice():
    """One is asked, another one is asked, and the first is decided: read at once, the first comes after the other."""
    async with opened() as supervisor:
        asked = []
        for name in ("first", "other"):
            run = await supervisor.start(worker, name, session=name)
            asked.append((await next_of(run.watch_approvals())).id)
        await supervisor.decide(asked[0], Deny(by="ana"))
        async with supervisor.watch_inbox(after=make_cursor(supervisor.store.id, 0)) as watch:
            seen = [((await anext(watch)).id, watch.cursor) for _ in asked]
            assert [approval for approval, _ in seen] == asked[::-1]
            async with supervisor.watch_inbox(after=seen[0][1]) as again:
                assert ((await anext(again)).id, again.cursor) == seen[1]
                await supervisor.decide(asked[1], Deny(by="ana"))


@agent
async def talking(ctx: Context) -> None:
    for word in range(10 * LOOK):
        await ctx.send(str(word))


async def test_an_inbox_with_an_old_cursor_does_not_block_the_loop():
    """The entries since are read piece by piece, and other tasks run in between. None is missed."""
    async with opened() as supervisor:
        asked = await next_of((await supervisor.start(worker, "first")).watch_approvals())
        await (await supervisor.start(talking)).outcome()
        turns = []

        async def other() -> None:
            while True:
                turns.append(1)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            await anyio.lowlevel.checkpoint()
            turns.clear()
            assert (await next_of(supervisor.watch_inbox(after=make_cursor(supervisor.store.id, 0)))).id == asked.id
            assert len(turns) > 10
            tasks.cancel_scope.cancel()
