"""Sub-agents: a child that ends in any way has an outcome for its parent."""

import anyio
import pytest
from scenes import deploy, effects, events, fork, names, only_asyncio, opened
from watching import next_of

from supervisor import (
    Approve,
    Context,
    LimitExceeded,
    MemoryStore,
    RunCancelled,
    RunFailed,
    RunStalled,
    agent,
)
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
WEEK = 7 * 86_400.0


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).content


@agent
async def rests(ctx: Context, seconds: float) -> float:
    await ctx.sleep(seconds)
    return seconds


@agent(inactivity_timeout=60)
async def hangs(ctx: Context) -> None:
    await anyio.sleep(WEEK)


@agent
async def breaks(ctx: Context) -> None:
    raise LookupError("no such key")


async def test_a_child_that_fails_is_an_outcome_for_its_parent():
    """W13: it raises nothing in the parent before the parent asks for the result, and it cancels no sibling."""

    @agent
    async def parent(ctx: Context) -> list[str]:
        children = [await ctx.spawn(breaks), await ctx.spawn(hangs), await ctx.spawn(rests, 5.0)]
        kinds = [(await child.outcome()).kind for child in children]
        for child, kind in zip(children[:2], (RunFailed, RunStalled), strict=True):
            with pytest.raises(kind):
                await child.result()
        return kinds

    async with opened() as supervisor:
        assert await (await supervisor.start(parent)).result() == ["failed", "stalled", "succeeded"]


async def test_an_agent_that_returns_waits_for_its_children():
    """W13: so does a task group. Its value is what it returned."""

    @agent
    async def returns(ctx: Context) -> str:
        await ctx.spawn(rests, 500.0)
        return "returned"

    async with opened() as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(returns)
        assert await run.result() == "returned"
        assert anyio.current_time() - started >= 499.9
        assert [view.outcome["kind"] for view in await supervisor.find_sessions()] == ["succeeded"] * 2


@pytest.mark.parametrize("how", ["fails", "stalls"])
async def test_an_agent_that_does_not_succeed_cancels_its_children(how):
    """W13: it cancels all below it, and outcomes are journaled deepest first."""

    @agent
    async def middle(ctx: Context) -> None:
        await ctx.run(asks, "x")

    @agent(inactivity_timeout=60)
    async def top(ctx: Context) -> None:
        await ctx.spawn(middle)
        await anyio.sleep(1 if how == "fails" else WEEK)
        raise LookupError

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(top)
        assert list(await supervisor.find_approvals()) == []  # a program that reads them could answer
        assert (await run.outcome()).kind == ("failed" if how == "fails" else "stalled")
        kinds = [view.outcome["kind"] for view in await supervisor.find_sessions()]
        assert kinds[1:] == ["cancelled"] * 2
        assert list(await supervisor.find_approvals()) == []
        ended = [row.session for row in store.rows(0) if isinstance(row.event, e.RunFinished)]
        assert ended == [view.id for view in await supervisor.find_sessions()][::-1]


async def test_children_awaited_in_turn_that_end_in_reverse_order():
    """R1: each outcome is delivered when the parent asks for it. The replay delivers them in the same order."""

    @agent
    async def parent(ctx: Context) -> list[float]:
        children = [await ctx.spawn(rests, seconds) for seconds in (5.0, 4.0, 3.0, 2.0, 1.0)]
        found = [await child.result() for child in children]
        await ctx.call(deploy, "x")
        return found

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(parent, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    for life in (store, killed):
        async with opened(life) as supervisor:
            run = await supervisor.resume("s")
            await supervisor.decide(approval.id, Approve(by="ana"))
            assert await run.result() == [5.0, 4.0, 3.0, 2.0, 1.0]
            assert len(await supervisor.find_sessions()) == 6


async def test_children_awaited_at_once_are_collected_in_the_same_order_in_a_replay():
    """R1: the order is that in which they ended, which the journal holds."""

    @agent
    async def parent(ctx: Context) -> list[float]:
        found = []

        async def one(seconds: float) -> None:
            found.append(await ctx.run(rests, seconds))

        async with anyio.create_task_group() as tasks:
            for seconds in (3.0, 1.0, 2.0):
                tasks.start_soon(one, seconds)
        await ctx.call(deploy, str(found))
        return found

    store = MemoryStore()
    for _ in range(20):
        async with opened(store) as supervisor:
            run = await supervisor.start(parent, session="s")
            approval = await next_of(run.watch_approvals())
            await anyio.sleep(1)  # an attempt that has come to wait is no crash loop
            killed = fork(store)
        store = killed
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == [1.0, 2.0, 3.0]
    assert effects == ["[1.0, 2.0, 3.0]"]


@pytest.mark.parametrize("is_durable", [False, True])
async def test_a_child_goes_on_if_its_parent_stops_waiting_for_its_outcome(is_durable):
    """W10: the parent can ask for the outcome again."""

    @agent
    async def impatient(ctx: Context) -> list:
        child = await ctx.spawn(rests, 100.0)
        gave_up = 0
        for _ in range(3):
            if is_durable:
                async with ctx.move_on_after(10) as timer:
                    await child.outcome()
                gave_up += timer.expired
            else:
                with anyio.move_on_after(10) as scope:
                    await child.outcome()
                gave_up += scope.cancelled_caught
        return [gave_up, await child.result()]

    async with opened(passivate_after=1e9) as supervisor:
        assert await (await supervisor.start(impatient)).result() == [3, 100.0]


async def test_a_run_goes_on_if_a_program_stops_waiting_for_it():
    """W10: the timeout of a waiting program does not end the run."""
    async with opened() as supervisor:
        run = await supervisor.start(rests, 100.0)
        for _ in range(3):
            with anyio.move_on_after(10):
                await run.outcome()
        assert await run.result() == 100.0


async def test_a_parent_learns_of_a_child_that_ended_while_the_parent_was_not_in_memory():
    """W9: it learns of it once, whenever it asks."""

    @agent
    async def parent(ctx: Context) -> str:
        child = await ctx.spawn(rests, 50.0)
        await ctx.call(deploy, "x")
        return (await child.outcome()).kind

    store = MemoryStore()
    async with opened(store, passivate_after=5) as supervisor:
        run = await supervisor.start(parent, session="s")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(1)
        dead = fork(store)
        await anyio.sleep(500)
        asleep = fork(store)
    for life in (dead, asleep):
        async with opened(life) as supervisor:
            run = await supervisor.resume("s")
            await supervisor.decide(approval.id, Approve(by="ana"))
            assert await run.result() == "succeeded"
            assert len(events(life, "s", e.ChildEnded)) == 1


async def test_a_parent_that_cancels_a_child_learns_that_it_was_cancelled():
    """W8: the cancel reaches the child and all below it, not its siblings or its parent."""

    @agent
    async def parent(ctx: Context) -> list[str]:
        first, second = await ctx.spawn(asks, "a"), await ctx.spawn(asks, "b")
        await ctx.sleep(1)
        await first.cancel("too slow")
        with pytest.raises(RunCancelled):
            await first.result()
        return [(await first.outcome()).cause, await second.result()]

    async with opened() as supervisor:
        run = await supervisor.start(parent)
        async with run.watch_approvals() as reader:
            found = {approval.arguments["target"]: approval for approval in [await anext(reader), await anext(reader)]}
            await anyio.sleep(5)
            assert (await supervisor.decide(found["a"].id, Approve(by="ana"))).kind == "closed"
            await supervisor.decide(found["b"].id, Approve(by="ana"))
            cause, second = await run.result()
            assert "too slow" in cause
            assert second == "b"
            assert effects == ["b"]


@pytest.mark.parametrize(("options", "allowed"), [({"max_children": 2}, 2), ({"max_live_children": 2}, 2)])
async def test_a_limit_is_the_same_in_every_attempt(options, allowed):
    """R1: LimitExceeded is journaled, so it stays even if children have ended since."""

    @agent(**options)
    async def prolific(ctx: Context) -> int:
        children = []
        for n in range(4):
            try:
                children.append(await ctx.spawn(rests, 1.0 + n))
            except LimitExceeded:
                effects.append("refused")
        await ctx.sleep(50)
        await ctx.call(deploy, "x")
        return len(children)

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(prolific, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == allowed
        assert len(await supervisor.find_sessions()) == 1 + allowed
    assert effects == ["refused"] * 4 + ["x"]


async def test_depth_is_bounded():
    """W13: an agent that spawns itself reaches the bound."""
    levels = []

    @agent(max_depth=3)
    async def recurses(ctx: Context, level: int) -> int:
        levels.append(level)
        return await ctx.run(recurses, level + 1)

    async with opened() as supervisor:
        outcome = await (await supervisor.start(recurses, 0)).outcome()
        assert outcome.kind == "failed"
        assert levels == [0, 1, 2, 3]


async def test_a_childs_handle_has_nothing_that_a_replay_would_see_otherwise():
    """R1: whether the child has ended, and its approvals, are not journaled in the parent: so the handle shows
    neither."""

    @agent
    async def looks(ctx: Context) -> list[str]:
        child = await ctx.spawn(rests, 1.0)
        return [name for name in dir(child) if not name.startswith("_")]

    async with opened() as supervisor:
        offered = await (await supervisor.start(looks)).result()
        assert offered == ["cancel", "outcome", "result", "session"]


@only_asyncio
async def test_a_spawn_that_asyncio_cancels_natively_loses_no_child():
    """W9: a commit that lands together with the cancellation has made a child, and the child runs."""
    import asyncio

    tasks = []

    class Cancelling(MemoryStore):
        def write(self, rows) -> None:
            if any(isinstance(row.event, e.SessionCreated) and row.event.parent for row in rows):
                tasks[0].cancel()
            super().write(rows)

    @agent
    async def spawns(ctx: Context) -> str:
        tasks.append(asyncio.current_task())
        try:
            await ctx.spawn(rests, 5.0)
            await anyio.sleep(1)
        except asyncio.CancelledError:
            tasks[0].uncancel()
        return "returned"

    store = Cancelling()
    async with opened(store) as supervisor:
        run = await supervisor.start(spawns)
        assert await run.result() == "returned"
        assert [view.outcome["kind"] for view in await supervisor.find_sessions()] == ["succeeded"] * 2
        assert "ChildEnded" in names(store, run.session)
