"""A retry is a new run with the operations of a run that ended badly (R10)."""

import anyio
import pytest
from scenes import ForkingStore, deploy, effects, events, fork, opened, replayed
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, NotFound, agent, tool
from supervisor.core import events as e
from supervisor.core.values import LOST

pytestmark = pytest.mark.anyio
troubles: dict[str, int] = {}


@pytest.fixture(autouse=True)
def _no_trouble():
    troubles.clear()


def fails(name: str) -> None:
    """Raise as often as a test has set."""
    if troubles.get(name, 0) > 0:
        troubles[name] -= 1
        raise ConnectionError(name)


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


@tool(policy="allow")
async def slow(name: str) -> str:
    effects.append(name)
    await anyio.sleep(20)
    return name


async def fragile(name: str) -> str:
    effects.append(f"try {name}")
    fails(name)
    return name


@agent
async def steps(ctx: Context) -> list[str]:
    first = await ctx.call(effect, "before")
    middle = await ctx.step(fragile, "net")
    return [first.content, middle, (await ctx.call(effect, "after")).content]


@agent
async def own_code(ctx: Context) -> str:
    content = (await ctx.call(deploy, "prod")).content
    fails("bug")
    return content + (await ctx.call(effect, "after")).content


@agent
async def wedges(ctx: Context) -> str:
    await ctx.call(effect, "before")
    if troubles.get("wedge", 0):
        troubles["wedge"] -= 1
        await anyio.sleep_forever()
    return (await ctx.call(effect, "after")).content


@agent
async def child(ctx: Context, name: str) -> str:
    await ctx.call(effect, f"child {name}")
    await ctx.sleep(1)
    return await ctx.step(fragile, name)


@agent
async def asks(ctx: Context) -> str:
    return (await ctx.call(deploy, "sibling")).content


@agent
async def parent(ctx: Context) -> list[str]:
    one, two = await ctx.spawn(child, "one"), await ctx.spawn(asks)
    return [await one.result(), await two.result()]


async def ended(spec, *kinds: str) -> MemoryStore:
    """Run an agent until it ends, and approve its calls."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.find_approvals()
        outcome = await (await supervisor.start(spec, session="s")).outcome()
        assert outcome.kind in kinds, outcome
    return store


async def test_the_step_that_failed_runs_again_and_nothing_else():
    """Calls keep their results, and each run keeps its one outcome. The new run has the operations of the old one."""
    troubles["net"] = 1
    store = await ended(steps, "failed")
    async with opened(store) as supervisor:
        run = await supervisor.retry("s", by="ana")
        assert await run.result() == ["before", "net", "after"]
    assert effects == ["before", "try net", "try net", "after"]
    assert [event.kind for event in events(store, "s", e.RunFinished)] == ["failed", "succeeded"]
    assert [row.event.again.by for row in await supervisor.find_audit() if isinstance(row.event, e.RunStarted)] == [
        "ana"
    ]


async def test_code_that_was_mended_goes_on_where_it_raised():
    """No step led to the end, so all operations stay. An approval stays, too, and its call does not run again."""
    troubles["bug"] = 1
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(own_code, session="s")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
        assert (await run.outcome()).kind == "failed"
        run = await supervisor.retry("s")
        assert await run.result() == "prodafter"
    assert effects == ["prod", "after"]


async def test_a_retry_of_a_stalled_run_repeats_only_operations_in_flight():
    """An operation in flight has no result and runs again. One with a result does not."""
    troubles["wedge"] = 1
    store = await ended(wedges, "stalled")
    async with opened(store) as supervisor:
        assert await (await supervisor.retry("s")).result() == "after"
    assert effects == ["before", "after"]


async def test_a_sub_agent_that_failed_is_retried_on_its_own_session_and_a_cancelled_one_goes_on():
    """One failure led to the end, which cancelled the other sub-agent: its approval is asked anew, with another id."""
    troubles["one"] = 1
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(parent, session="s")
        asked = await next_of(run.watch_approvals())
        assert (await run.outcome()).kind == "failed"
        assert list(await supervisor.find_approvals()) == []
        run = await supervisor.retry("s")
        again = await next_of(run.watch_approvals())
        assert (again.session, again.id == asked.id) == (asked.session, False)
        assert (await supervisor.decide(asked.id, Approve(by="ana"))).kind == "closed"
        await supervisor.decide(again.id, Approve(by="ana"))
        assert await run.result() == ["one", "sibling"]
        assert len(await supervisor.find_sessions()) == 3
    assert effects.count("child one") == effects.count("sibling") == 1
    assert effects.count("try one") == 2


async def test_a_call_that_may_have_had_an_effect_keeps_its_result():
    """The end interrupted the call while it ran, and a retry does not run it again."""

    @agent
    async def beside(ctx: Context) -> list[str]:
        async def fail(branch: Context) -> None:
            await branch.sleep(1)
            await branch.step(fragile, "net")

        async def call(branch: Context) -> None:
            found.append((await branch.call(slow, "slow")).kind)

        async with ctx.task_group() as tasks:
            tasks.start_soon(call)
            tasks.start_soon(fail)
        return found

    found: list[str] = []
    troubles["net"] = 1
    store = await ended(beside, "failed")
    async with opened(store) as supervisor:
        assert await (await supervisor.retry("s")).result() == ["interrupted"]
    assert effects.count("slow") == 1


async def test_it_may_be_retried_again_and_a_crash_in_the_new_run_replays_it():
    """The journal of two retries is a journal like any other."""
    troubles["net"] = 2
    store = await ended(steps, "failed")
    async with opened(store) as supervisor:
        assert (await (await supervisor.retry("s")).outcome()).kind == "failed"
        run = await supervisor.retry("s")
        assert await run.result() == ["before", "net", "after"]
    assert effects.count("before") == 1
    assert replayed(store, "s").runs == 3


async def test_a_retry_is_on_disk_before_anything_runs():
    """A process without the agent records it; the next one that has it goes on (one append)."""
    troubles["net"] = 1
    store = await ended(steps, "failed")
    async with opened(store) as supervisor:
        with anyio.CancelScope() as killed:
            await supervisor.retry("s")
            killed.cancel()
        copy = fork(store)
    async with opened(copy) as supervisor:
        await supervisor.resume_all()
        assert (await (await supervisor.get_run("s")).outcome()).value == ["before", "net", "after"]


async def test_a_kill_at_any_commit_of_a_retry_loses_nothing_and_doubles_nothing():
    """SIGKILL after every commit of the failed run and of its retry: the next process comes to the same end."""
    troubles["one"] = 1
    store = ForkingStore(lambda: (list(effects), dict(troubles)))
    async with opened(store, unattended="allow") as supervisor:
        assert (await (await supervisor.start(parent, session="s")).outcome()).kind == "failed"
        assert await (await supervisor.retry("s")).result() == ["one", "sibling"]
    for copy, (done, left) in store.copies:
        effects[:] = done
        troubles.clear()
        troubles.update(left)
        async with opened(copy, unattended="allow") as supervisor:
            await supervisor.resume_all()
            if (await (await supervisor.get_run("s")).outcome()).kind == "failed":
                await supervisor.retry("s")
            one, sibling = (await (await supervisor.get_run("s")).outcome()).value
            assert one == "one"
            assert sibling == "sibling" or LOST in sibling  # killed while it ran: said so, and not run again
        assert max(effects.count(name) for name in ("child one", "sibling")) <= 1, effects


@agent
async def succeeds(ctx: Context) -> str:
    return "done"


async def test_a_retry_that_is_not_possible_is_refused_with_what_to_do():
    """A run that succeeded, is open or was cancelled, or a single sub-agent. Nothing is written."""
    troubles["one"] = 1
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.find_approvals()
        await (await supervisor.start(succeeds, session="done")).outcome()
        await supervisor.start(asks, session="open")
        cancelled = await supervisor.start(asks, session="cancelled")
        await cancelled.cancel()
        await (await supervisor.start(parent, session="failed")).outcome()
        (below, *_) = [view.id for view in await supervisor.find_sessions(root="failed") if view.parent is not None]
        position = store.last_position()
        for session, say in (("done", "succeeded"), ("open", "resume"), ("cancelled", "start it"), (below, "failed")):
            with pytest.raises(InvalidInput, match=say):
                await supervisor.retry(session)
        with pytest.raises(NotFound):
            await supervisor.retry("nobody")
        assert store.last_position() == position
        await supervisor.cancel("open")


@agent
async def answers(ctx: Context, text: str) -> str:
    return f"{text}: {(await ctx.call(deploy, text)).kind}"


async def test_an_end_that_was_under_way_ends_no_later_run():
    """A task that is about to write the end of a run finds a later one there, a turn or a retry, and leaves it
    alone."""
    async with opened() as supervisor:
        run = await supervisor.start(answers, "one", session="s")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
        assert await run.result() == "one: ok"
        assert (await supervisor.send("s", "two")).kind == "begun"
        await supervisor._runner.finishing.end_tree("s")
        await supervisor.decide(
            (await next_of((await supervisor.get_run("s")).watch_approvals())).id, Approve(by="ana")
        )
        assert (await (await supervisor.get_run("s")).outcome()).value == "two: ok"
