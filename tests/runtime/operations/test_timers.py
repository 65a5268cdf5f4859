"""Durable timers: sleep and move_on_after hold in every attempt, and wake passivated runs."""

import time
from contextlib import suppress

import anyio
import pytest
from scenes import ForkingStore, events, fork, names, opened, sessions_in_memory
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, SqliteStore, agent, tool
from supervisor.core import events as e
from supervisor.testing import wall_clock

pytestmark = pytest.mark.anyio
DAY = 86_400.0
effects: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    effects.clear()


@tool
async def asked(name: str) -> str:
    effects.append(name)
    return name


@tool(policy="allow", timeout=None)
async def slow(name: str, seconds: float) -> str:
    effects.append(name)
    await anyio.sleep(seconds)
    return name


@agent
async def sleeper(ctx: Context, seconds: float) -> str:
    await ctx.sleep(seconds)
    return "rested"


def now():
    """Return the instants of both clocks."""
    return anyio.current_time(), time.monotonic()


def assert_took(started, least, most):
    """A durable timer is due at an instant of the real clock: the time that the test itself takes is not waited for."""
    virtual, real = (ended - began for began, ended in zip(started, now(), strict=True))
    assert least - real <= virtual <= most


async def test_a_block_of_an_expired_timer_that_an_error_leaves_at_once_does_not_hang():
    """W5: the world has changed since, and an error leaves the block before the timer could cancel it again."""

    @agent
    async def looks_first(ctx: Context) -> str:
        try:
            async with ctx.move_on_after(10):
                if effects:
                    raise LookupError
                await anyio.sleep_forever()
        except LookupError:
            pass
        return (await ctx.call(asked, "x")).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(looks_first, session="s")
        approval = await next_of(run.watch_approvals())
    effects.append("the world has changed")
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_sleep_survives_passivation_and_wakes_on_time(kind, tmp_path):
    """W2: the run leaves memory, and its timer brings it back."""
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "state.db")
    async with opened(store) as supervisor:
        started = now()
        run = await supervisor.start(sleeper, 1000.0)
        await anyio.sleep(500)
        assert sessions_in_memory(supervisor) == set()
        assert await run.result() == "rested"
        assert_took(started, 1000, 1001)
        assert names(store, run.session).count("AttemptStarted") == 2


async def test_a_sleep_ends_at_the_same_instant_in_the_next_life():
    """R1: the journal holds the instant, not the duration."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        started = anyio.current_time()
        await supervisor.start(sleeper, 1000.0, session="s")
        await anyio.sleep(30)
        killed = fork(store)
        await supervisor.cancel("s")
    await anyio.sleep(500)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        assert await run.result() == "rested"
        assert 999.9 <= anyio.current_time() - started <= 1001


async def test_a_sleep_that_came_due_while_no_process_ran_it_ends_at_once():
    """R1: an overdue timer is due."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(sleeper, 2000.0, session="s")
        await anyio.sleep(300)
        killed = fork(store)
        await supervisor.cancel("s")
    await anyio.sleep(5000)
    async with opened(killed) as supervisor:
        resumed = anyio.current_time()
        (run,) = await supervisor.resume_all()
        assert await run.result() == "rested"
        assert anyio.current_time() - resumed < 1


async def test_leaving_waits_for_a_timer():
    """W8: a run with a timer can go on without a person, so leaving waits for it."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(sleeper, 1000.0, session="s")
    assert isinstance(events(store, "s")[-1], e.RunFinished)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
async def test_an_invalid_timer_is_refused(seconds):
    """A5: it is refused before anything is journaled."""

    @agent
    async def careless(ctx: Context) -> str:
        with pytest.raises(InvalidInput):
            await ctx.sleep(-1.0)
        with pytest.raises(InvalidInput):
            async with ctx.move_on_after(float("nan")):
                pass
        return "told"

    async with opened() as supervisor:
        assert await (await supervisor.start(careless)).result() == "told"


async def test_a_block_is_cancelled_when_its_timer_expires():
    """W5: `expired` is true, the call in the block is interrupted, and the code after it runs."""

    @agent
    async def impatient(ctx: Context) -> list:
        async with ctx.move_on_after(10) as timer:
            await ctx.call(slow, "x", 100.0)
            effects.append("not reached")
        return [timer.expired, (await ctx.call(slow, "after", 0.0)).kind]

    async with opened() as supervisor:
        started = now()
        assert await (await supervisor.start(impatient)).result() == [True, "ok"]
        assert_took(started, 10, 10.5)
        assert effects == ["x", "after"]


async def test_a_block_that_is_left_in_time_has_not_expired():
    """W5: its timer wakes no run later."""

    @agent
    async def quick(ctx: Context) -> bool:
        async with ctx.move_on_after(1000) as timer:
            await ctx.call(slow, "x", 1.0)
        await ctx.call(asked, "y")
        return timer.expired

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(quick)
        async with run.watch_approvals() as reader:
            await anyio.sleep(5000)
            assert names(store, run.session).count("AttemptStarted") == 1
            await supervisor.decide((await anext(reader)).id, Approve(by="ana"))
            assert await run.result() is False


async def test_a_block_that_an_exception_leaves_has_no_timer_any_more():
    """W5: the run then waits for a person. The old timer neither wakes it nor keeps it in memory."""

    @agent
    async def fails_inside(ctx: Context) -> bool:
        with suppress(LookupError):
            async with ctx.move_on_after(1000) as timer:
                await ctx.call(slow, "x", 1.0)
                raise LookupError
        await ctx.call(asked, "y")
        return timer.expired

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(fails_inside, session="s")
        async with run.watch_approvals() as reader:
            await anyio.sleep(5000)
            assert names(store, "s").count("AttemptStarted") == 1
            await supervisor.decide((await anext(reader)).id, Approve(by="ana"))
            assert await run.result() is False
            assert effects == ["x", "y"]


@pytest.mark.parametrize("decide_after", [5, 50])
async def test_whether_a_block_expired_is_the_same_in_a_replay(decide_after):
    """R1: a question with a time limit is answered in time or not, in every attempt."""

    @agent
    async def gives_up(ctx: Context) -> list:
        got = []
        async with ctx.move_on_after(20) as timer:
            got.append((await ctx.call(asked, "in time")).kind)
        got.append(timer.expired)
        got.append((await ctx.call(asked, f"after {timer.expired}")).kind)
        return got

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(gives_up, session="s")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(decide_after)
        decided = await supervisor.decide(approval.id, Approve(by="ana"))
        assert decided.kind == ("accepted" if decide_after < 20 else "closed")
        await anyio.sleep(1)
    for _ in range(3):
        async with opened(store) as supervisor:
            run = await supervisor.resume("s")
            (second,) = await supervisor.find_approvals()
            await anyio.sleep(100)
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(second.id, Approve(by="ana"))
        expected = ["ok", False, "ok"] if decide_after < 20 else [True, "ok"]
        assert await run.result() == expected


async def test_a_passivated_block_is_woken_when_its_time_is_over():
    """W2: a person does not answer for a week. The run is passivated, wakes when its timer is due, and goes on."""

    @agent
    async def waits_a_week(ctx: Context) -> bool:
        async with ctx.move_on_after(7 * DAY) as timer:
            await ctx.call(asked, "x")
        return timer.expired

    store = MemoryStore()
    async with opened(store) as supervisor:
        started = now()
        run = await supervisor.start(waits_a_week)
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(DAY)
        assert sessions_in_memory(supervisor) == set()
        assert await run.result() is True
        assert_took(started, 7 * DAY, 7 * DAY + 1)
        assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "closed"
    assert effects == []


async def test_nested_blocks_are_cancelled_by_the_timer_that_is_due():
    """W5: if only the inner one expires, the outer one goes on. If the outer one expires, it cancels both."""

    @agent
    async def nested(ctx: Context) -> list[bool]:
        async with ctx.move_on_after(30) as outer:
            async with ctx.move_on_after(10) as inner:
                await ctx.call(slow, "x", 100.0)
            effects.append("between")
            async with ctx.move_on_after(100) as last:
                await ctx.call(slow, "y", 100.0)
            effects.append("not reached")
        return [outer.expired, inner.expired, last.expired]

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(nested, session="s")
        assert await run.result() == [True, True, False]
        assert effects == ["x", "between", "y"]


async def test_a_block_that_expired_has_expired_wherever_the_run_was_killed():
    """R1: every later attempt gets the timer's result from the journal."""

    @agent
    async def cut(ctx: Context) -> list:
        got = []
        for n in range(3):
            async with ctx.move_on_after(10) as timer:
                got.append((await ctx.call(slow, f"{n}", 8.0 if n == 1 else 100.0)).kind)
            got.append(timer.expired)
        return got

    store = ForkingStore(look=lambda: list(effects))
    async with opened(store) as supervisor:
        run = await supervisor.start(cut, session="s")
        assert await run.result() == [True, "ok", False, True]
    for copy, before in store.copies[:-1]:
        effects[:] = before
        known = _expiries(copy)
        async with opened(copy) as supervisor:
            run = await supervisor.resume("s")
            result = await run.result()
        after = _expiries(copy)
        assert after[: len(known)] == known
        assert [flag for flag in result if isinstance(flag, bool)] == after
        assert len(effects) == len(set(effects))


@agent
async def listener(ctx: Context, seconds: float) -> str:
    async with ctx.move_on_after(seconds):
        while True:
            effects.append(await ctx.receive())
    return "rested"


@pytest.mark.parametrize("timed", [sleeper, listener])
@pytest.mark.parametrize("passivate_after", [1.0, 5000.0])
@pytest.mark.parametrize("by", [-3600.0, 2 * DAY])
async def test_a_wall_clock_that_is_set_moves_no_timer_of_this_process(enter, timed, passivate_after, by):
    """W11: so it is for a run in memory and a passivated one, even if another entry wakes it meanwhile."""
    async with opened(passivate_after=passivate_after) as supervisor:
        started, clock = now(), enter(wall_clock())
        run = await supervisor.start(timed, 1000.0)
        await anyio.sleep(500)
        clock.ahead = by
        await supervisor.send(run.session, "wake up")
        assert await run.result() == "rested"
        assert_took(started, 1000, 1001)
        assert set(effects) == ({"wake up"} if timed is listener else set())


async def test_the_next_process_goes_by_the_wall_clock_that_it_finds(enter):
    """R1: only wall time outlives a process."""
    store, clock = MemoryStore(), enter(wall_clock())
    async with opened(store) as supervisor:
        await supervisor.start(sleeper, 1000.0, session="s")
        await anyio.sleep(500)
        killed = fork(store)
        await supervisor.cancel("s")
    clock.ahead = 400
    async with opened(killed) as supervisor:
        started = now()
        run = await supervisor.resume("s")
        assert await run.result() == "rested"
        assert_took(started, 100, 101)


def _expiries(store) -> list[bool]:
    found = events(store, "s", e.OperationFinished)
    return [bytes(event.value) == b"true" for event in found if event.kind == "timer"]
