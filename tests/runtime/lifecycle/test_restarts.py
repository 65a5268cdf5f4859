"""Restarts: a transient agent runs again after a failed step or a stall, and repeats no operation that has a result."""

from collections import Counter
from datetime import timedelta

import anyio
import pytest
from scenes import ForkingStore, events, fork, names, opened, replayed
from watching import next_of

from supervisor import Approve, Context, Deny, MemoryStore, StepFailed, agent, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
effects: list[str] = []
troubles: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_has_run():
    effects.clear()
    troubles.clear()


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


@tool
async def asked(name: str) -> str:
    effects.append(name)
    return name


@tool(policy="allow", timeout=500)
async def slow(name: str) -> str:
    effects.append(name)
    await anyio.sleep(400)
    return name


async def fragile(name: str) -> str:
    """Fails as often as the test says, and hangs if the test says so."""
    if troubles[f"{name} hangs"]:
        troubles[f"{name} hangs"] -= 1
        await anyio.sleep_forever()
    if troubles[name]:
        troubles[name] -= 1
        raise ConnectionError(name)
    return name


@agent(restart="transient")
async def fetches(ctx: Context) -> list[str]:
    before = (await ctx.call(effect, "before")).content
    return [before, await ctx.step(fragile, "net"), (await ctx.call(effect, "after")).content]


@agent
async def fetches_once(ctx: Context) -> str:
    return await ctx.step(fragile, "net")


def causes(store, session: str) -> list[str]:
    return [event.kind for event in events(store, session, e.RunRestarted)]


async def test_a_failed_step_runs_again_and_nothing_else_does():
    """The failed result is dropped. The call before it keeps its result, and the outcome is the last attempt's."""
    troubles["net"] = 2
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(fetches, session="s")
        assert await run.result() == ["before", "net", "after"]
    assert effects == ["before", "after"]
    assert causes(store, "s") == ["failed", "failed"]
    assert [event.number for event in events(store, "s", e.RunRestarted)] == [1, 2]
    assert len(events(store, "s", e.RunFinished)) == 1


async def test_an_agent_is_temporary_unless_it_says_otherwise():
    """An agent of restart type temporary is never restarted."""
    troubles["net"] = 1
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert (await (await supervisor.start(fetches_once, session="s")).outcome()).kind == "failed"
    assert causes(store, "s") == []


async def test_a_failure_that_would_repeat_is_not_restarted():
    """No failed step led to the failure, in the run or in a child: a replay would give the same results."""

    @agent(restart="transient")
    async def wrong(ctx: Context) -> None:
        await ctx.step(fragile, "fine")
        raise ValueError("wrong")

    @agent(restart="transient")
    async def passes_on(ctx: Context) -> str:
        return await ctx.run(fetches_once)

    troubles["net"] = 1
    store = MemoryStore()
    async with opened(store) as supervisor:
        for fails, session in ((wrong, "wrong"), (passes_on, "parent")):
            assert (await (await supervisor.start(fails, session=session)).outcome()).kind == "failed"
            assert causes(store, session) == []


async def test_the_intensity_bounds_restarts_and_the_cause_says_so():
    """After so many restarts in a period, the failure is the outcome."""
    troubles["net"] = 100
    store = MemoryStore()
    async with opened(store) as supervisor:
        outcome = await (await supervisor.start(fetches, session="s")).outcome()
    assert outcome.kind == "failed"
    assert "3" in outcome.cause
    assert "60" in outcome.cause
    assert len(causes(store, "s")) == 3
    assert troubles["net"] == 100 - 4


async def test_restarts_before_the_period_do_not_count():
    """They count neither for the bound nor for the delay."""

    @agent(restart="transient", max_restarts=1, restart_period=60, restart_delay=10)
    async def now_and_then(ctx: Context) -> int:
        for day in range(5):
            await ctx.sleep(86_400)
            await ctx.step(fragile, f"day {day}")
        return 5

    troubles.update(f"day {day}" for day in range(5))
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(now_and_then, session="s")).result() == 5
    restarted = events(store, "s", e.RunRestarted)
    assert len(restarted) == 5
    assert all(timedelta(seconds=5) <= each.due_at - each.at <= timedelta(seconds=10) for each in restarted)


async def test_the_delay_doubles_up_to_its_bound_and_half_of_it_is_chance():
    """Exponential back-off with jitter."""

    @agent(restart="transient", max_restarts=5, restart_period=1000, restart_delay=8, max_restart_delay=30)
    async def hopeless(ctx: Context) -> str:
        return await ctx.step(fragile, "net")

    troubles["net"] = 100
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(hopeless, session="s")).outcome()
    delays = [(each.due_at - each.at).total_seconds() for each in events(store, "s", e.RunRestarted)]
    for delay, whole in zip(delays, (8, 16, 30, 30, 30), strict=True):
        assert whole / 2 <= delay <= whole


async def test_a_back_off_holds_over_a_crash_and_wakes_at_its_instant():
    """The due instant is in the journal. Neither a message nor a new process ends the back-off early, and it is no
    inactivity."""

    @agent(restart="transient", restart_delay=5000, max_restart_delay=5000, restart_period=1e6)
    async def patient(ctx: Context) -> str:
        return await ctx.step(fragile, "net")

    troubles["net"] = 1
    store = MemoryStore()
    with anyio.CancelScope() as killed:
        async with opened(store) as supervisor:
            await supervisor.start(patient, session="s")
            await anyio.sleep(100)
            assert "s" not in supervisor._runner.attempts.live
            killed.cancel()
            await anyio.sleep_forever()
    (restarted,) = events(store, "s", e.RunRestarted)
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        assert (await supervisor.send("s", "are you there?")).kind == "kept"
        assert await run.result() == "net"
    begun = events(store, "s", e.AttemptStarted)[-1]
    late = (begun.at - restarted.due_at).total_seconds()
    assert -0.001 <= late <= 1  # the two clocks of the machine drift against each other, by microseconds
    assert len(events(store, "s", e.AttemptStarted)) == 2


async def test_a_back_off_is_waited_for_when_the_supervisor_is_left():
    """The run can go on without a person, as with every timer."""
    troubles["net"] = 3
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(fetches, session="s")
    assert replayed(store, "s").outcome.kind == "succeeded"


async def test_a_cancel_ends_a_back_off_and_is_never_restarted():
    """So does a cancel by the parent."""

    @agent
    async def parent(ctx: Context) -> str:
        child = await ctx.spawn(fetches)
        await ctx.sleep(0.1)
        await ctx.call(asked, "wait")
        return (await child.outcome()).kind

    troubles["net"] = 100
    store = MemoryStore()
    async with opened(store, passivate_after=1e6) as supervisor:
        run = await supervisor.start(fetches, session="s")
        await anyio.sleep(0.1)
        assert causes(store, "s") == ["failed"]
        await run.cancel()
        assert (await run.outcome()).kind == "cancelled"
        run = await supervisor.start(parent, session="p")
        await next_of(run.watch_approvals())
        await run.cancel()
        assert (await run.outcome()).kind == "cancelled"
    assert all(row.outcome is not None for row in store.find_sessions())


async def test_a_parent_learns_of_no_restart_before_the_outcome():
    """The parent's journal gets one ChildEnded for one child, and no other entry."""

    @agent
    async def parent(ctx: Context) -> list[str]:
        return await ctx.run(fetches)

    troubles["net"] = 2
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(parent, session="p")).result() == ["before", "net", "after"]
    assert len(events(store, "p", e.ChildEnded)) == 1
    assert causes(store, "p") == []


async def test_a_stall_repeats_operations_in_flight_and_keeps_results():
    """The step that hung has no result. The approval next to it stays pending, under its id."""

    @agent(restart="transient", inactivity_timeout=50)
    async def hangs(ctx: Context) -> list[str]:
        got = [(await ctx.call(effect, "before")).content]

        async def ask() -> None:
            got.append((await ctx.call(asked, "beside")).kind)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            got.append(await ctx.step(fragile, "net"))
        return got

    troubles["net hangs"] = 1
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(hangs, session="s")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(100)
        assert causes(store, "s") == ["stalled"]
        assert [pending.id for pending in await supervisor.find_approvals()] == [approval.id]
        await supervisor.decide(approval.id, Approve(by="ann"))
        assert await run.result() == ["before", "net", "ok"]
    assert effects == ["before", "beside"]


async def test_a_failure_that_the_agent_handled_before_it_stalled_is_not_repeated():
    """The agent took its path by that failure. Only operations that the stall itself cancelled are new."""

    @agent(restart="transient", inactivity_timeout=50)
    async def gets_over_it(ctx: Context) -> list[str]:
        try:
            first = await ctx.step(fragile, "net")
        except StepFailed:
            first = "no net"
        return [first, await ctx.step(fragile, "other")]

    troubles.update({"net": 1, "other hangs": 1})
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(gets_over_it, session="s")).result() == ["no net", "other"]
    assert causes(store, "s") == ["stalled"]


async def test_the_clean_up_of_a_stalled_attempt_does_not_bind_later_ones():
    """Its operations are kept outside the replay order: they are not waited for, and never done twice."""

    @agent(restart="transient", inactivity_timeout=50)
    async def tidies(ctx: Context) -> str:
        try:
            return await ctx.step(fragile, "net")
        finally:
            with anyio.CancelScope(shield=True):
                await ctx.call(effect, "tidy")

    troubles["net hangs"] = 2
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(tidies, session="s")).result() == "net"
    assert causes(store, "s") == ["stalled", "stalled"]
    assert effects == ["tidy"]


@pytest.mark.parametrize("says", ["approve", "deny"])
async def test_operations_after_a_failure_are_neither_repeated_nor_required(says):
    """Calls after the failure keep their results, even a denial. An attempt that succeeds need not ask for them."""

    @agent(restart="transient")
    async def reports(ctx: Context) -> str:
        try:
            return await ctx.step(fragile, "net")
        except Exception:
            await ctx.call(asked, "report")
            raise

    troubles["net"] = 2
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(reports, session="s")
        approval = await next_of(run.watch_approvals())
        await supervisor.decide(approval.id, Approve(by="ann") if says == "approve" else Deny(by="ann"))
        assert await run.result() == "net"
    assert len(causes(store, "s")) == 2
    assert len(events(store, "s", e.ToolCallRequested)) == 1
    assert effects == (["report"] if says == "approve" else [])


async def test_operations_that_a_failure_cancelled_are_not_waited_for():
    """A call that was executing has its `interrupted` result. A call that waited for a person asks again."""

    @agent(restart="transient")
    async def both(ctx: Context) -> dict[str, str]:
        got = {}

        async def one(fn, name: str) -> None:
            got[name] = (await ctx.call(fn, name)).kind

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, slow, "slow")
            tasks.start_soon(one, asked, "asked")
            await ctx.sleep(10)
            got["net"] = await ctx.step(fragile, "net")
        return got

    troubles["net"] = 1
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(both, session="s")
        first = await next_of(run.watch_approvals())
        await anyio.sleep(100)
        (second,) = await supervisor.find_approvals()
        assert second.id != first.id
        await supervisor.decide(second.id, Approve(by="ann"))
        assert await run.result() == {"slow": "interrupted", "asked": "ok", "net": "net"}
    assert effects == ["slow", "asked"]


@pytest.mark.parametrize("leaves", ["the failure leaves the block", "the agent leaves the block, then fails"])
async def test_a_step_that_fails_within_a_time_limit_runs_again_within_the_same_limit(leaves):
    """The timer that began before the failure is open again: the call in its block is reached through it."""

    @agent(restart="transient", inactivity_timeout=50)
    async def limited(ctx: Context) -> str:
        failure = None
        async with ctx.move_on_after(600) as timer:
            await ctx.call(effect, "before")
            try:
                await ctx.step(fragile, "net")
            except Exception as error:
                if "then" not in leaves:
                    raise
                failure = error
            else:
                await ctx.call(asked, "never decided")
        if failure is not None:
            raise failure
        return f"expired: {timer.expired}"

    troubles["net"] = 1
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(limited, session="s")
        begun = anyio.current_time()
        await next_of(run.watch_approvals())
        assert await run.result() == "expired: True"
        assert 600 <= anyio.current_time() - begun < 601
    assert causes(store, "s") == ["failed"]
    assert effects == ["before"]


async def test_children_go_on_while_their_parent_is_restarted():
    """A spawn is a result: the parent finds the child again, with the outcome that came during the back-off."""

    @agent
    async def child(ctx: Context) -> str:
        await ctx.sleep(0.2)
        return (await ctx.call(effect, "child")).content

    @agent(restart="transient")
    async def parent(ctx: Context) -> list[str]:
        below = await ctx.spawn(child)
        return [await ctx.step(fragile, "net"), await below.result()]

    troubles["net"] = 2
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(parent, session="s")).result() == ["net", "child"]
    assert effects == ["child"]
    assert len(events(store, "s", e.ChildEnded)) == 1


@agent(restart="transient", max_restarts=8, restart_period=1000)
async def races(ctx: Context, text: str) -> list[str]:
    """Races its operations, decides by the first result, cancels losers, and handles failures."""
    got: list[str] = []

    async def one(context: Context, name: str) -> None:
        await context.sleep(0.01)
        got.append(await context.step(fragile, name))
        got.append((await context.call(effect, f"{name} after {len(got)}")).kind)

    async def talk(context: Context) -> None:
        async with context.move_on_after(0.05) as timer:
            await context.call(asked, "never")
            got.append("asked")
        assert timer.expired

    try:
        async with ctx.task_group() as tasks:
            for name in ("left", "middle", "right"):
                tasks.start_soon(one, name)
            tasks.start_soon(talk)
    except* Exception:
        await ctx.call(effect, f"about {len(got)}")
        raise
    await ctx.send(text)
    return got


async def test_a_crash_anywhere_in_restarts_of_racing_operations_diverges_nowhere():
    """SIGKILL after every commit: the run ends in the same way, nothing happens twice, and the back-off is kept."""
    planned = {"left": 1, "right": 2}
    troubles.update(planned)
    store = ForkingStore(lambda: (list(effects), troubles.copy()))
    async with opened(store) as supervisor:
        await supervisor.find_approvals()  # a reader: so no call is denied for lack of one before the timer fires
        assert await (await supervisor.start(races, "done", session="s")).result()
    assert 1 <= len(causes(store, "s")) <= 3
    assert max(Counter(effects).values()) == 1
    for copy, (done, left) in store.copies:
        effects[:] = done
        troubles.clear()
        troubles.update(left)
        async with opened(copy) as supervisor:
            await supervisor.find_approvals()
            recover = supervisor.resume if copy.find_sessions(is_open=True) else supervisor.get_run
            run = await recover("s")
            outcome = await run.outcome()
        assert outcome.kind == "succeeded", (outcome, names(copy, "s"))
        lost = [event for event in events(copy, "s", e.ToolCallFinished) if event.kind == "interrupted"]
        assert max(Counter(effects).values()) == 1
        assert len(effects) + len(lost) >= 3
        assert len(events(fork(copy), "s", e.MessageSent)) == 1
