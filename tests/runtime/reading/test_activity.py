"""The activity of sessions, as a caller that draws a tree gets it."""

import anyio
import pytest
from scenes import opened
from watching import calls_of

from supervisor import Approve, Context, MemoryStore, agent, tool
from supervisor.core.sessions.operations import Operation
from supervisor.core.text.masks import MASK

pytestmark = pytest.mark.anyio


@tool(secret=["token"])
async def deploy(target: str, token: str) -> str:
    await anyio.sleep(20)
    return target


async def think() -> int:
    await anyio.sleep(50)
    return 1


@agent
async def asks(ctx: Context) -> str:
    return (await ctx.call(deploy, "here", "hunter2")).content


@agent(inactivity_timeout=60)
async def thinks(ctx: Context) -> int:
    return await ctx.step(think)


@agent(inactivity_timeout=60, first_progress_timeout=600)
async def talks(ctx: Context) -> None:
    async with ctx.model_call():
        await anyio.sleep(100)


@agent
async def sleeps(ctx: Context) -> None:
    await ctx.sleep(1000)


async def fail() -> None:
    raise ConnectionError


@agent(restart="transient", restart_delay=40, max_restart_delay=40, max_restarts=1)
async def fails(ctx: Context) -> None:
    await ctx.step(fail)


@agent
async def listens(ctx: Context) -> str:
    return await ctx.receive()


@agent
async def parent(ctx: Context) -> None:
    for child in [await ctx.spawn(spec) for spec in (asks, thinks, talks, sleeps, listens, fails)]:
        await child.outcome()


async def told(activities):
    """Return, by agent, the kinds of its activity, its clock, and the seconds left of its budget."""
    return {
        each.agent: ([doing.kind for doing in each.doing], each.clock, each.budget_left and round(each.budget_left))
        for each in await activities.look(wholly=True)
    }


async def test_the_activity_of_a_run_in_this_process_has_its_budget():
    """The clock is paused while it waits (W2), a model call has the longer budget (W5), and secrets are masked."""
    async with opened() as supervisor:
        run = await supervisor.start(parent)
        async with supervisor.watch_activity(run.session) as activities:
            await anyio.sleep(10)
            assert await told(activities) == {
                "parent": (["children"], "paused", None),
                "asks": (["approval"], "paused", None),
                "thinks": (["step"], "running", 50),
                "talks": (["model_call"], "running", 590),
                "sleeps": (["timer"], "paused", None),
                "listens": (["message"], "paused", None),
                "fails": (["back_off"], "asleep", None),
            }
            (approval,) = await supervisor.find_approvals()
            await supervisor.decide(approval.id, Approve(by="ann"))
            await anyio.sleep(5)
            (calling,) = [each for each in await activities.look() if each.agent == "asks"]
            assert [(doing.kind, doing.name, doing.arguments) for doing in calling.doing] == [
                ("call", "deploy", {"target": "here", "token": MASK})
            ]
            await supervisor.cancel(run.session)
            await run.outcome()
            assert {each.outcome for each in await activities.look() if each.agent != "fails"} == {"cancelled"}


async def test_the_activity_of_other_runs_comes_from_the_journal():
    """So it is before and after they leave memory. Facts that no process journaled are unknown."""
    store = MemoryStore()
    async with opened(store) as owner:
        run = await owner.start(parent)
        await anyio.sleep(10)
        async with opened(store) as onlooker, onlooker.watch_activity() as activities:
            before = await told(activities)
            assert before["asks"] == (["approval"], "unknown", None)
            assert before["sleeps"] == (["timer"], "unknown", None)
            assert before["thinks"] == before["talks"] == (["unknown"], "unknown", None)
            await anyio.sleep(200)
            after = await told(activities)
            assert after["asks"] == (["approval"], "asleep", None)
            assert after["listens"] == (["message"], "asleep", None)
            assert after["thinks"] == ([], "unknown", None)
        await owner.cancel(run.session)


@agent
async def chats(ctx: Context, text: str) -> str:
    await ctx.sleep(100)
    return text


async def test_an_idle_tree_appears_again_when_a_turn_begins():
    """A watch of all open trees misses none that opens meanwhile."""
    async with opened() as supervisor:
        await (await supervisor.start(chats, "hello", session="talk")).result()
        async with supervisor.watch_activity() as activities:
            assert list(await activities.look()) == []
            await supervisor.send("talk", "again", by="ann")
            await anyio.sleep(10)
            assert await told(activities) == {"chats": (["timer"], "paused", None)}
            await (await supervisor.start(thinks, session="other")).result()
            assert {each.session: each.outcome for each in await activities.look()} == {
                "talk": None,
                "other": "succeeded",
            }


async def sleep_long(ctx):
    await ctx.sleep(100_000)


@agent
async def listens_long(ctx: Context) -> None:
    for _ in range(300):
        await ctx.send("said")
    async with ctx.task_group() as tasks:
        tasks.start_soon(sleep_long)
        while True:
            await ctx.receive()


async def test_the_activity_of_a_long_run_of_another_process_costs_what_is_open():
    """After each entry only open operations are looked at, not all that the run has done."""
    store, is_open = MemoryStore(), Operation.is_open.fget
    async with opened(store) as owner:
        run = await owner.start(listens_long, session="s")
        await anyio.sleep(10)
        async with opened(store) as onlooker, onlooker.watch_activity() as activities:
            assert "timer" in (await told(activities))["listens_long"][0]
            for _ in range(3):
                await owner.send("s", "go on", by="ana")
                await anyio.sleep(10)
                with calls_of(is_open) as looks:
                    assert "timer" in (await told(activities))["listens_long"][0]
                assert len(looks) < 20
        await run.cancel()
