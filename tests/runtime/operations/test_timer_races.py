"""Timers that come due at the worst instant: while their run leaves memory, or while a call in their block begins."""

import anyio
import pytest
from scenes import fork, opened
from watching import next_of

from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.core import events as e
from supervisor.core.rows import JournalEntry
from supervisor.testing import slow_disk

pytestmark = pytest.mark.anyio


@tool
async def ask_a_person(question: str) -> str:
    return question


@tool(policy="allow")
async def takes(seconds: float) -> None:
    await anyio.sleep(seconds)


@agent
async def slow_to_leave(ctx: Context) -> bool:
    try:
        async with ctx.move_on_after(10) as timer:
            await ctx.call(ask_a_person, question="in time?")
        return timer.expired
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(20)


@agent
async def impatient(ctx: Context) -> bool:
    async with ctx.move_on_after(10) as timer:
        await ctx.call(ask_a_person, question="in time?")
    await ctx.sleep(1)
    return timer.expired


async def test_a_timer_that_comes_due_while_its_run_is_leaving_memory_wakes_it():
    """Passivated at 4 s, the agent needs until 24 s to leave. Its timer is due at 10 s, and it goes on at 24 s."""
    async with open_supervisor(MemoryStore(), passivate_after=4) as supervisor:
        run = await supervisor.start(slow_to_leave)
        asked = await next_of(run.watch_approvals())

        with anyio.fail_after(100):
            outcome = await run.outcome()

        assert outcome.value is True
        assert supervisor.store.get_approval(asked.id).status == "withdrawn"


@pytest.mark.parametrize("is_abandoned", [True, False], ids=["abandoned", "crashed"])
async def test_a_call_that_began_as_its_block_was_cancelled_is_asked_for_again_before_that(is_abandoned):
    """The timer's end comes before the call that it ended, as if both came in one commit. The run does not diverge."""
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(impatient, session="s")
        await next_of(run.watch_approvals())
        assert (await run.outcome()).value is True
        events = [row.event for row in await supervisor.find_entries("s")]
    (end,) = [event for event in events if isinstance(event, e.OperationFinished) and event.kind == "timer"]
    (call,) = [event for event in events if isinstance(event, e.ToolCallRequested)]
    (abandoned,) = [event for event in events if isinstance(event, e.OperationAbandoned)]
    kept = [*events[: events.index(call)], end, call, *([abandoned] if is_abandoned else [])]
    store = MemoryStore()
    store.open()
    store.begin()
    store.write([JournalEntry(number, "s", event) for number, event in enumerate(kept, 1)])
    store.commit()

    async with open_supervisor(store) as supervisor:
        run = await supervisor.resume("s")

        assert (await run.outcome()).value is True
        assert list(await supervisor.find_approvals()) == []


@pytest.mark.parametrize("late", [-0.03, -0.02, -0.01, -0.005, 0, 0.005])
async def test_a_timer_that_comes_due_while_the_end_of_its_block_is_committed_is_one_or_the_other(late, enter):
    """Commits are slow, and run in a thread. The first of the two is the timer's one result, and no task keeps
    waiting."""
    enter(slow_disk(0.02))

    @agent
    async def just_in_time(ctx: Context) -> bool:
        async with ctx.move_on_after(10) as timer:
            await ctx.call(takes, 10 + late)
        return timer.expired

    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(just_in_time)
        ends = await run.result()
        timers = [
            row.event
            for row in await supervisor.find_entries(run.session)
            if isinstance(row.event, e.OperationFinished)
        ]
    assert [bytes(timer.value) == b"true" for timer in timers] == [ends]


async def test_a_block_that_ends_as_a_scope_around_it_is_cancelled_leaves_no_timer():
    """The end of the block was cancelled, not its body. No timer of the run is due any more."""

    @agent
    async def leaves_both(ctx: Context) -> None:
        with anyio.CancelScope() as scope:
            async with ctx.move_on_after(1000):
                scope.cancel()
        await ctx.call(ask_a_person, question="and now?")

    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(leaves_both)
        await next_of(run.watch_approvals())
        assert supervisor._runner.journal.states[run.session].timers == []


async def test_a_run_that_is_told_to_stop_before_its_expired_timer_has_its_turn_ends_nothing_else():
    """In a replay the timer waits for a task that asks later than it did."""
    pauses = [1, 100]

    @agent
    async def expires(ctx: Context) -> None:
        async def asks(ctx: Context) -> None:
            await anyio.sleep(pauses.pop(0))
            await ctx.ask("Which?")

        async with ctx.task_group() as group:
            group.start_soon(asks)
            async with ctx.move_on_after(5):
                await anyio.sleep_forever()

    async with opened() as supervisor:
        await supervisor.start(expires, session="s")
        await anyio.sleep(10)
        store = fork(supervisor.store)
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await anyio.sleep(10)
        await run.cancel()
        assert (await run.outcome()).kind == "cancelled"
