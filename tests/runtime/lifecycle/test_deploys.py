"""Code is deployed while a run waits at any point: the run is blocked, or continued in one of four ways (R1, R10)."""

import anyio
import pytest
from scenes import deploy, effects, fork, opened

from supervisor import Context, MemoryStore, RunBlocked, agent, tool

pytestmark = pytest.mark.anyio


@tool(policy="allow", idempotent=True)
async def effect(name: str) -> str:
    effects.append(name)
    return name


@tool(policy="allow", idempotent=True)
async def slow(name: str) -> str:
    await anyio.sleep(20)
    effects.append(name)
    return name


@agent
async def below(ctx: Context) -> str:
    return (await ctx.call(deploy, "below")).content


async def approval(ctx: Context) -> str:
    return (await ctx.call(deploy, "asked")).content


async def executing(ctx: Context) -> str:
    return (await ctx.call(slow, "slow")).content


async def child(ctx: Context) -> str:
    return await (await ctx.spawn(below)).result()


async def timer(ctx: Context) -> str:
    await ctx.sleep(3600)
    return (await ctx.call(effect, "slept")).content


async def message(ctx: Context) -> str:
    await ctx.call(effect, "before")  # a wait for a message is in no journal
    return f"heard {await ctx.receive()}"


async def branch(ctx: Context) -> str:
    async with ctx.task_group() as tasks:
        for name in ("left", "right"):
            tasks.start_soon(lambda inner, name=name: inner.call(deploy, name))
    return "both"


async def model_call(ctx: Context) -> str:
    async with ctx.model_call():
        return (await ctx.call(deploy, "thought")).content


PLACES = [approval, executing, child, timer, message, branch, model_call]


def inserts(place):
    async def inserted(ctx: Context) -> str:
        await ctx.call(effect, "new")
        return await place(ctx)

    return inserted


def patches(place):
    async def patched(ctx: Context) -> str:
        if await ctx.patched("effect first"):
            await ctx.call(effect, "new")
        return await place(ctx)

    return patched


async def left_waiting(spec) -> MemoryStore:
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.find_approvals()
        await supervisor.start(spec, session="s")
        await anyio.sleep(5)
        killed = fork(store)
    effects.clear()  # later entries of this process do not belong to the test
    return killed


async def finished(store, place, session="s") -> str:
    """Go on, approve everything, send the messages that it waits for, and return the result."""
    async with opened(store, unattended="allow") as supervisor:
        run = await supervisor.resume(session)
        if place is message:
            await supervisor.send(session, "hello")
        return await run.result()


async def blocked(store):
    async with opened(store) as supervisor:
        await supervisor.find_approvals()
        run = await supervisor.resume("s")
        with pytest.raises(RunBlocked) as caught:
            await run.outcome()
        return caught.value.block


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", ["old code", "patched", "versions", "fork"])
async def test_a_run_goes_on_wherever_it_waited(deployed, place, way):
    """New code has one more operation before the point at which the run waits. The run is blocked and runs nothing. It
    goes on with the old code, a patch or a version; a fork takes the new path. An approved effect happens once."""
    store = await left_waiting(deployed(place))
    expected = await finished(fork(store), place)
    once = list(effects)
    effects.clear()
    deployed(inserts(place))
    block = await blocked(store)
    assert (block.why, effects) == ("path", [])
    session = "s"
    match way:
        case "old code":
            deployed(place)
        case "patched":
            deployed(patches(place))
        case "versions":
            deployed(inserts(place), version="2", versions={"1": place})
        case "fork":
            async with opened(store, unattended="allow") as supervisor:
                session = (await supervisor.fork("s", before=block.entry)).session
    assert await finished(store, place, session) == expected
    again = ["before"] if place is message and way == "fork" else []  # it comes after the entry of the fork
    assert sorted(effects) == sorted([*once, *again, "new"] if way == "fork" else once)
