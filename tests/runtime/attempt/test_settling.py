"""Settling: between two results, everything that follows from the first one happens, in every attempt.

These agents take another path if the order differs: a later attempt, which is given all results at once, would then
diverge from the journal.
"""

import asyncio
import gc
import weakref
from contextlib import AsyncExitStack

import anyio
import pytest
import sniffio
from scenes import HeldStore, opened
from watching import next_of

from supervisor import Answer, Approve, Context, MemoryStore, agent, open_supervisor, tool
from supervisor.runtime.journal import writer
from supervisor.runtime.lifecycle.passivate import Passivation
from supervisor.testing import AutojumpLoop, replaced, slow_disk, virtual_asyncio, virtual_trio, wrapped

pytestmark = pytest.mark.anyio


@tool(policy="allow", timeout=1000)
async def work(name: str, seconds: float) -> str:
    await anyio.sleep(seconds)
    return name


@tool(policy="allow", timeout=1000)
async def work_until(name: str, instant: float) -> str:
    """Work until an instant of the loop's clock, even if the call begins late."""
    await anyio.sleep_until(instant)
    return name


@tool
async def report(name: str) -> str:
    return name


# -- ways to learn of a result late, without waiting for I/O ----------------------------------------------------------


async def nested_groups(call) -> None:
    async with AsyncExitStack() as stack:
        groups = [await stack.enter_async_context(anyio.create_task_group()) for _ in range(12)]
        groups[-1].start_soon(call)


async def gathers(call, depth: int = 6) -> None:
    if sniffio.current_async_library() == "trio":
        return await nested_groups(call)
    if not depth:
        return await call()
    return await asyncio.shield(asyncio.gather(gathers(call, depth - 1)))


async def pipeline(call) -> None:
    first, end = anyio.create_memory_object_stream()
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            into, after = anyio.create_memory_object_stream()
            tasks.start_soon(hand_on, end, into)
            end = after
        await call()
        async with first, end:
            await first.send("there")
            await end.receive()


async def hand_on(source, target) -> None:
    async with source, target:
        await target.send(await source.receive())


async def yields(call) -> None:
    await call()
    for _ in range(300):
        await anyio.sleep(0)


async def cancels_a_loser(call) -> None:
    """Cancels a loser that is inside its tool."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: call(500))
        await anyio.sleep(0)
        await call()
        tasks.cancel_scope.cancel()


WAYS = {way.__name__: way for way in (nested_groups, gathers, pipeline, yields, cancels_a_loser)}


@agent(inactivity_timeout=20)
async def races(ctx: Context, how: str) -> str:
    """Races two branches. The branch whose result is first learns of it late."""
    came: list[str] = []

    async def late(inner: Context) -> None:
        await WAYS[how](lambda seconds=1.0: inner.call(work, "late", seconds))
        came.append("late")

    async def direct(inner: Context) -> None:
        await inner.call(work, "direct", 1.02)
        came.append("direct")

    async with ctx.task_group() as tasks:
        tasks.start_soon(late)
        tasks.start_soon(direct)
    return (await ctx.call(report, came[0])).value


async def first_attempt(store, started, *args, hold: bool = False) -> str:
    """Run until the agent waits for a person, and leave. Return its approval."""
    async with opened(store) as supervisor:
        run = await supervisor.start(started, *args, session="s")
        if hold:  # both results are committed together
            await anyio.sleep(0.9)
            store.is_held = True
            await anyio.sleep(0.2)
            store.is_held = False
        async with run.watch_approvals() as watch:
            async for approval in watch:
                if (name := approval.arguments["name"]) != "never decided":
                    return name
        raise AssertionError("it asked no approval")


async def later_attempt(store) -> object:
    async with opened(store) as supervisor:
        (approval,) = await supervisor.find_approvals()
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        outcome = await run.outcome()
        return outcome.value if outcome.kind == "succeeded" else outcome


@pytest.mark.parametrize("hold", [False, True], ids=["20 ms apart", "in one commit"])
@pytest.mark.parametrize("how", WAYS)
async def test_all_that_follows_from_a_result_happens_before_the_next_one_is_given(how, hold):
    """R1: the path is the same in every attempt, even if branches race. A loser leaves after the results that exist."""
    path = "direct" if how == "cancels_a_loser" and hold else "late"
    store = HeldStore()
    assert await first_attempt(store, races, how, hold=hold) == path
    assert await later_attempt(store) == path


@pytest.mark.parametrize("backends", [(virtual_asyncio, virtual_trio), (virtual_trio, virtual_asyncio)])
@pytest.mark.parametrize("how", ["nested_groups", "pipeline", "yields", "cancels_a_loser"])
@pytest.mark.parametrize("anyio_backend", [None])
def test_a_journal_that_was_written_on_one_backend_is_followed_on_the_other(how, backends, anyio_backend):
    """R1: the order of results does not depend on the scheduler."""
    store = MemoryStore()
    for (name, options), act, args in zip(
        [backend() for backend in backends],
        (first_attempt, later_attempt),
        ((store, races, how), (store,)),
        strict=True,
    ):
        assert anyio.run(act, *args, backend=name, backend_options=options) == "late"


@agent(inactivity_timeout=20)
async def journals_between(ctx: Context, given: tuple[str, float]) -> str:
    """The branch that is first appends an entry, for which a later attempt does not wait."""
    what, start = given
    came: list[str] = []

    async def first(inner: Context) -> None:
        await inner.call(work_until, "first", start + 1.0)
        if what == "a timer's start":
            async with inner.move_on_after(1000):
                came.append("first")
        else:
            scope.cancel()

    async def second(inner: Context) -> None:
        await inner.call(work_until, "second", start + 1.001)
        came.append("second")

    async def loser(inner: Context) -> None:
        with scope:
            if what == "a commit that is cut off":
                await inner.call(work_until, "loser", start + 0.99)
                await anyio.sleep_until(start + 1.02)
                await inner.call(report, "never decided")  # it is being journaled when its scope is cancelled
            await inner.sleep(1000)
        if what != "a timer's start":
            came.append("first")

    scope = anyio.CancelScope()
    async with ctx.task_group() as tasks:
        for branch in (first, second, loser):
            tasks.start_soon(branch)
        if what == "a timer's start":
            await ctx.sleep(2)
            scope.cancel()
    return (await ctx.call(report, came[0])).value


PATHS = {"a timer's start": "first", "an abandonment": "second", "a commit that is cut off": "second"}


@pytest.mark.parametrize("what", PATHS)
async def test_a_wait_for_the_disk_in_the_first_attempt_changes_no_path(what, enter):
    """A later attempt finds the entry in the journal. A task that was cut off leaves after the results that came before
    that was on disk."""
    enter(slow_disk(0.02))
    store = MemoryStore()
    assert await first_attempt(store, journals_between, (what, anyio.current_time())) == PATHS[what]
    assert await later_attempt(store) == PATHS[what]


@agent(inactivity_timeout=20)
async def lands_together(ctx: Context) -> str:
    """The first result cancels a task that continues by the same commit that brings that result."""
    came: list[str] = []

    async def first(inner: Context) -> None:
        await inner.call(work, "first", 1.0)
        scope.cancel()

    async def second(inner: Context) -> None:
        await inner.call(work, "second", 1.001)
        came.append("second")

    async def loser(inner: Context) -> None:
        with scope:
            await inner.call(work, "loser", 0.99)
            await inner.call(report, "never decided")
        came.append("first")

    scope = anyio.CancelScope()
    async with ctx.task_group() as tasks:
        for branch in (first, second, loser):
            tasks.start_soon(branch)
    return (await ctx.call(report, came[0])).value


@pytest.mark.parametrize("_", range(10))  # trio chooses at random which task runs first
async def test_a_task_that_continues_by_the_commit_of_a_result_delays_the_next_result(_, enter):
    """A cancellation finds it scheduled already. It has unwound before the next result is given."""
    enter(slow_disk(0.02))
    store = MemoryStore()
    first = await first_attempt(store, lands_together)
    assert await later_attempt(store) == first


@agent(inactivity_timeout=20)
async def tells_and_takes(ctx: Context) -> str:
    """One branch reports three times while commits are under way, and one takes a result."""
    came: list[str] = []

    async def tells(inner: Context) -> None:
        for number in range(3):
            await inner.report("plan", str(number))
        came.append("told")

    async def takes(inner: Context) -> None:
        await inner.now()
        came.append("taken")

    async def commits(inner: Context) -> None:
        await inner.call(work, "commits", 0.001)

    async with ctx.task_group() as tasks:
        for branch in (tells, takes, commits):
            tasks.start_soon(branch)
    return (await ctx.call(report, came[0])).value


@pytest.mark.parametrize("_", range(10))  # trio chooses at random which task runs first
async def test_a_report_that_waits_for_a_commit_delays_the_next_result(_, enter):
    """A later attempt reports nothing there, and goes on at once."""
    enter(slow_disk(0.02))
    store = MemoryStore()
    first = await first_attempt(store, tells_and_takes)
    assert await later_attempt(store) == first


@agent(inactivity_timeout=20)
async def answered_together(ctx: Context) -> str:
    """The first answer cancels a task that the third answer has woken."""
    came: list[str] = []

    async def first(inner: Context) -> None:
        await inner.ask("first")
        scope.cancel()

    async def second(inner: Context) -> None:
        await inner.ask("second")
        came.append("second")

    async def loser(inner: Context) -> None:
        with scope:
            await inner.ask("loser")
        came.append("first")

    scope = anyio.CancelScope()
    async with ctx.task_group() as tasks:
        for branch in (first, second, loser):
            tasks.start_soon(branch)
    return (await ctx.call(report, came[0])).value


@pytest.mark.parametrize("_", range(10))  # trio chooses at random which task runs first
async def test_a_task_that_an_answer_has_woken_delays_the_next_result(_, enter):
    """A cancellation finds it scheduled already. It has unwound before the next result is given."""
    enter(replaced(writer, "FEW", 0))  # the writer commits the answers together
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(answered_together, session="s")
        await anyio.sleep(1)
        asked = {each.question: each.id for each in await supervisor.find_approvals()}
        async with anyio.create_task_group() as people:
            for question in ("first", "second", "loser"):
                people.start_soon(supervisor.decide, asked[question], Answer(value="yes", by="ana"))
        first = (await next_of(run.watch_approvals())).arguments["name"]
    assert await later_attempt(store) == first


@pytest.mark.parametrize("after", ["a model call", "a sleep of its own", "a result"])
async def test_tasks_that_begin_together_go_their_way_before_a_result_of_the_journal_is_given(after):
    """In the first attempt the result comes late, and cuts off a task that has begun its block. A replay has the result
    at once, also if nothing that we see has led to the block."""

    @agent
    async def races(ctx: Context) -> str:
        if after == "a model call":
            async with ctx.model_call():
                await anyio.sleep(1)
        elif after == "a sleep of its own":
            await anyio.sleep(1)

        async def cuts_off(ctx: Context) -> None:
            await ctx.call(work, "a", 1)
            scope.cancel()

        async def is_cut_off(ctx: Context) -> None:
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await ctx.call(work, "cleaned", 0)

        with anyio.CancelScope() as scope:
            async with ctx.task_group() as group:
                group.start_soon(is_cut_off)
                group.start_soon(cuts_off)
        return (await ctx.call(report, "z")).kind

    async with opened(passivate_after=1) as supervisor:
        run = await supervisor.start(races)
        (asked,) = [await next_of(run.watch_approvals())]
        await anyio.sleep(10)
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok"


async def test_an_agent_that_spins_does_not_block_results():
    """A chain of steps that never waits is no longer followed."""

    @agent
    async def spins(ctx: Context) -> int:
        done: list[str] = []

        async def spin(inner: Context) -> None:
            await inner.call(work, "spin", 0)
            for _ in range(100_000):
                if len(done) == 5:
                    return
                await anyio.sleep(0)

        async def calls(inner: Context) -> None:
            while len(done) < 5:
                done.append((await inner.call(work, f"{len(done)}", 0)).content)

        async with ctx.task_group() as tasks:
            tasks.start_soon(spin)
            tasks.start_soon(calls)
        return len(done)

    async with opened() as supervisor:
        runs = [await supervisor.start(spins) for _ in range(2)]
        assert [await run.result() for run in runs] == [5, 5]


async def test_a_run_is_not_passivated_while_it_acts_on_a_result():
    """R2: its message has come, and the agent is about to cancel the other wait, whose answer would not come."""

    @agent
    async def hears(ctx: Context) -> str:
        heard: list[str] = []
        async with ctx.task_group() as tasks:
            inner = ctx.branch("inner")

            async def listen() -> None:
                heard.append(await inner.receive())

            tasks.start_soon(lambda other: other.call(report, "never decided"))
            await nested_groups(listen)
            tasks._tasks.cancel_scope.cancel()
        return heard[0]

    async with opened(passivate_after=0.0) as supervisor:
        run = await supervisor.start(hears, session="s")
        await next_of(run.watch_approvals())
        await supervisor.send("s", "news")
        with anyio.fail_after(100):
            assert await run.result() == "news"


async def test_operations_that_follow_from_results_of_one_commit_share_commits():
    """Group commit: results are given one by one, but the next operations do not need one commit each."""

    class Counting(MemoryStore):
        commits = 0

        def commit(self) -> None:
            self.commits += 1
            super().commit()

    @agent
    async def bursts(ctx: Context) -> None:
        async def branch(inner: Context) -> None:
            for n in range(4):
                await inner.call(work, f"{n}", 1)

        async with ctx.task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(branch)

    store = Counting()
    async with opened(store) as supervisor:
        await (await supervisor.start(bursts)).result()
    assert store.commits < 200  # of 400 that a commit for each would be


async def test_an_error_while_a_run_settles_suspends_that_run_and_no_other(enter):
    """Its tree is suspended with the reason, and can be resumed."""
    faults = ["bad"]

    def fails_once(look_at, quiet, attempt) -> None:
        if attempt.session in faults:
            faults.remove(attempt.session)
            raise ZeroDivisionError("a defect of ours")
        look_at(quiet, attempt)

    enter(wrapped(Passivation, "look_at", fails_once))
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(races, "yields", session="bad")
        other = await supervisor.start(races, "yields", session="good")
        approval = await next_of(other.watch_approvals())
        assert "defect" in supervisor._runner.attempts.refusals["bad"]
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await other.result() == "late"
    async with opened(store) as supervisor:
        run = await supervisor.resume("bad")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
        assert await run.result() == "late"


# -- the loop of asyncio ----------------------------------------------------------------------------------------------


class Uncoverable(AutojumpLoop):
    """A loop whose methods cannot be covered by attributes."""

    @property
    def call_soon(self):
        return super().call_soon


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"loop_factory": Uncoverable})])
async def test_agents_run_on_a_loop_that_cannot_be_followed():
    """Only racing operations may take another path in a later attempt."""
    assert "call_soon" not in vars(asyncio.get_running_loop())
    store = MemoryStore()
    assert await first_attempt(store, races, "yields") in ("late", "direct")


@pytest.mark.parametrize("anyio_backend", [virtual_asyncio()])
async def test_call_soon_of_the_loop_is_not_covered_while_no_step_is_hot():
    """So other code on the loop costs the same as before. A replacement by other code stays in place."""
    loop = asyncio.get_running_loop()
    usual = loop.call_soon
    async with open_supervisor(MemoryStore()) as supervisor:
        for theirs in (None, lambda *args, **options: usual(*args, **options)):
            if theirs is not None:
                loop.call_soon = theirs
            run = await supervisor.start(races, "yields")
            approval = await next_of(run.watch_approvals())
            await anyio.sleep(1)
            assert vars(loop).get("call_soon") is theirs
            await supervisor.decide(approval.id, Approve(by="ana"))
            await run.result()
            assert vars(loop).get("call_soon") is theirs
        del loop.call_soon


@pytest.mark.parametrize("anyio_backend", [virtual_asyncio()])
async def test_a_callback_that_the_loop_refuses_does_not_block_results():
    """In debug mode asyncio refuses coroutines: no step of the agent comes of that, and the next result is given."""

    @agent
    async def schedules_a_coroutine(ctx: Context) -> None:
        async def branch(inner: Context) -> None:
            await inner.call(work, "x", 1)
            with pytest.raises(TypeError):
                asyncio.get_running_loop().call_soon(branch)

        async with ctx.task_group() as tasks:
            tasks.start_soon(branch)
            tasks.start_soon(branch)

    asyncio.get_running_loop().set_debug(True)
    async with opened() as supervisor:
        run = await supervisor.start(schedules_a_coroutine)
        with anyio.fail_after(30):
            await run.result()


def test_a_loop_that_has_ended_is_not_kept():
    """A program may run many loops, one after another: a worker on Temporal has one for each workflow in its memory."""
    loops: list[weakref.ref] = []

    async def main() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        async with open_supervisor(MemoryStore(), unattended="allow") as supervisor:
            await (await supervisor.start(reporting)).result()

    asyncio.run(main())
    gc.collect()
    assert loops[0]() is None


@agent
async def reporting(ctx: Context) -> str:
    return (await ctx.call(report, "done")).content
