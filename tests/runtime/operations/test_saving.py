"""What a save drops, and what it keeps."""

import anyio
import pytest
from scenes import ForkingStore, events as events_of, fork, opened

from supervisor import Context, MemoryStore, StepFailed, agent, open_supervisor, tool
from supervisor.core import events as e
from supervisor.seam.store import Overtaken

pytestmark = pytest.mark.anyio
saved = None
effects: list[str] = []


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


async def slow_step(seconds: float) -> None:
    await anyio.sleep(seconds)


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


async def test_an_operation_asked_for_before_a_save_counts_results_from_before_it():
    """The number of given results is counted from the last save. A number from before a save means nothing after it."""
    global saved
    saved = anyio.Event()
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(saver)
        await run.result()
        events = [row.event for row in await supervisor.find_entries(run.session)]
    steps = {event.operation: event.given for event in events if isinstance(event, e.OperationFinished)}
    assert [given for operation, given in steps.items() if "long_step" in operation] == [0]


@agent
async def nests(ctx: Context) -> list[bool]:
    """Two nested durable timers of the same length, and a save after the inner one."""
    async with ctx.move_on_after(1000) as outer:
        if ctx.saved is None:
            async with ctx.move_on_after(1000):
                await ctx.sleep(500)
            await ctx.save("the inner one is over")
        await ctx.receive()
    return [outer.expired]


async def test_a_save_after_an_inner_timer_keeps_the_outer_one():
    """The outer timer goes on in the next attempt with its instant, and the run does not diverge."""
    store = MemoryStore()
    async with opened(store, passivate_after=1e6) as supervisor:
        run = await supervisor.start(nests, session="s")
        await anyio.sleep(600)
        killed = fork(store)
        await run.cancel()
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        assert await run.result() == [True]
    started = [event for event in events_of(killed, "s", e.OperationStarted) if event.kind == "timer"]
    assert len(started) == 2
    ended = events_of(killed, "s", e.RunFinished)[0]
    assert abs((ended.at - started[0].due_at).total_seconds()) < 1


async def one_effect(ctx: Context, name: str) -> None:
    await ctx.sleep(1)
    await ctx.call(effect, name)


@agent
async def tries_again(ctx: Context) -> None:
    """The first try journals nothing, and the save comes between it and the second."""
    if ctx.saved is None:
        async with ctx.move_on_after(1):
            await ctx.step(slow_step, 5.0)
        await ctx.save("tried")
    await ctx.step(slow_step, 5.0)
    await ctx.call(effect, "end")


@agent
async def groups_again(ctx: Context) -> None:
    """The first group is cancelled, and the save comes between it and the second."""
    if ctx.saved is None:
        async with ctx.move_on_after(0.5), ctx.task_group() as group:
            group.start_soon(one_effect, "first")
        await ctx.save("tried")
    async with ctx.task_group() as group:
        group.start_soon(one_effect, "second")
    await ctx.call(effect, "end")


@agent
async def groups_in_a_group(ctx: Context) -> None:
    """A save comes after each inner group, while the outer one goes on."""

    async def watch(ctx: Context) -> None:
        await ctx.sleep(10)
        await ctx.call(effect, "watched")

    async with ctx.task_group() as outer:
        outer.start_soon(watch)
        for n in range(ctx.saved or 0, 3):
            async with ctx.task_group() as group:
                group.start_soon(one_effect, str(n))
            await ctx.save(n + 1)


@agent
async def saves_of_many(ctx: Context) -> None:
    """Each task saves the results of all tasks: a result that another was given meanwhile must not be dropped."""
    done = list(ctx.saved or [])

    async def one(name: str) -> None:
        if name not in done:
            await ctx.call(effect, name)
            done.append(name)
            await ctx.save(done)

    async with anyio.create_task_group() as tasks:
        for name in "abcdef":
            tasks.start_soon(one, name)


@agent
async def saves_beside(ctx: Context) -> None:
    """One task saves the number of the other's operations, while the other does the same operation again."""
    done = ctx.saved or 0

    async def repeats(ctx: Context) -> None:
        nonlocal done
        while done < 8:
            await ctx.step(number, 1)
            done += 1

    async def saves(ctx: Context) -> None:
        for _ in range(4):
            await ctx.step(number, 2)
            await ctx.save(done)

    async with ctx.task_group() as group:
        group.start_soon(repeats)
        group.start_soon(saves)


@agent
async def begins_beside_a_save(ctx: Context) -> None:
    """One task repeats an operation in the instant in which another task has asked for a save."""
    is_saved, passed, saving = ctx.saved is not None, anyio.Event(), anyio.Event()

    async def does_it_again(ctx: Context) -> None:
        if not is_saved:
            await ctx.step(number, 1)
            passed.set()
        await saving.wait()
        await ctx.step(number, 1)

    async def saves(ctx: Context) -> None:
        if is_saved:
            return saving.set()
        await passed.wait()
        saving.set()
        return await ctx.save("once")

    async with ctx.task_group() as group:
        group.start_soon(does_it_again)
        group.start_soon(saves)


SAVES = [tries_again, groups_again, groups_in_a_group, saves_of_many, saves_beside, begins_beside_a_save]


class OvertakenSaves(ForkingStore):
    """Loses the first commit of each save to a process that is faster."""

    saved, lost = 0, 0

    def write(self, rows):
        self.saved = sum(isinstance(row.event, e.StateSaved) for row in rows)
        super().write(rows)

    def commit(self):
        if self.saved > self.lost:
            self.lost += 1
            raise Overtaken("another process was faster")
        super().commit()
        self.lost = 0


@pytest.mark.parametrize("saves", SAVES)
@pytest.mark.parametrize("kind", [ForkingStore, OvertakenSaves])
async def test_a_crash_after_a_save_diverges_nowhere_and_runs_nothing_twice(saves, kind):
    """R1: a save drops only completed operations, also those that the journal does not know. It is not lost if its plan
    runs twice: it has named the operations after it."""
    effects.clear()
    store = kind(look=lambda: list(effects))
    async with opened(store) as supervisor:
        await (await supervisor.start(saves, session="s")).result()
    assert events_of(store, "s", e.StateSaved)
    for copy, before in store.copies[:-1]:
        effects[:] = before
        async with opened(copy) as supervisor:
            run = await supervisor.resume("s")
            assert (await run.outcome()).kind == "succeeded", (await run.outcome()).cause
        assert len(effects) == len({*effects})


async def test_the_size_of_a_save_depends_on_open_operations_only():
    """Otherwise the saves of a run that lives for months would grow with its history."""

    @agent
    async def lives_long(ctx: Context) -> None:
        async with ctx.move_on_after(1e6):
            for done in range(ctx.saved or 0, 20):
                await ctx.call(effect, str(done))
                await ctx.save(done + 1)

    async with opened(store := MemoryStore()) as supervisor:
        await (await supervisor.start(lives_long, session="s")).result()
    saves = events_of(store, "s", e.StateSaved)
    assert [len(event.counts) for event in saves] == [1] * 20


fails: list[str] = []


async def fragile() -> None:
    if fails:
        raise ConnectionError(fails.pop())


@agent(restart="transient")
async def mends(ctx: Context) -> str:
    if ctx.saved is None:
        try:
            await ctx.step(fragile)
        except StepFailed:
            await ctx.call(effect, "clean-up")
            raise
        await ctx.save("mended")
    return (await ctx.call(effect, "clean-up")).content


async def test_a_result_that_a_restart_keeps_is_kept_over_a_save():
    """T1: a call that the clean-up of a failure made has its result. If the agent asks for it again, it gets that
    result."""
    effects.clear()
    fails[:] = ["net"]
    async with opened() as supervisor:
        run = await supervisor.start(mends)
        assert await run.result() == "clean-up"
    assert effects == ["clean-up"]
