"""A program may start its loop without anyio: with `asyncio.run`, as web servers do, or with `trio.run`."""

import asyncio

import anyio
import pytest
import trio
from watching import next_of

from supervisor import Approve, Context, agent, open_supervisor, tool


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def releases(ctx: Context) -> list[str]:
    first = (await ctx.call(deploy, "a")).content
    async with ctx.task_group() as group:
        group.start_soon(_sleeps)
        with anyio.fail_after(60):
            return [first, (await ctx.call(deploy, "b")).content]


async def _sleeps(ctx: Context) -> None:
    await ctx.sleep(0.01)


async def _release(path):
    with anyio.fail_after(60):
        async with open_supervisor(path, passivate_after=0.02) as supervisor:
            run = await supervisor.start(releases)
            for _ in range(2):
                asked = await next_of(run.watch_approvals())
                await anyio.sleep(0.1)
                await supervisor.decide(asked.id, Approve(by="ana"))
            return await run.result()


@pytest.mark.parametrize("start", [lambda fn, path: asyncio.run(fn(path)), trio.run], ids=["asyncio", "trio"])
def test_a_run_goes_on_in_a_loop_that_anyio_has_not_started(tmp_path, start):
    """Callbacks of such a loop do not know its library, and results are given in callbacks."""
    assert start(_release, tmp_path / "state.db") == ["a", "b"]
