"""T3: a call ends at its deadline, and a run when it is told to, whatever the functions of tools and steps do."""

from datetime import UTC, datetime

import anyio
import pytest
from anyio.lowlevel import checkpoint
from scenes import events, opened

from supervisor import Context, MemoryStore, StepFailed, ToolContext, agent, tool
from supervisor.channels.terminal.tree import draw_tree
from supervisor.core import events as e
from supervisor.core.declarations.tool_context import StepContext
from supervisor.core.errors import RunStopping
from supervisor.runtime.attempt.bodies import GRACE_SECONDS, MOST_LEFT
from supervisor.runtime.reading.unfinished import all_unfinished
from supervisor.tools import ProcessToolContext

pytestmark = pytest.mark.anyio

let_go = anyio.Event()
seen: list[object] = []


@pytest.fixture(autouse=True)
def fresh():
    global let_go
    let_go = anyio.Event()
    seen.clear()


async def deaf(seconds: float = 1e6) -> str:
    """Do not hear a cancellation until the test lets go, as a function does that waits for a thread."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(seconds):
        await let_go.wait()
    return "late"


@tool(policy="allow", timeout=5)
async def stuck(context: ToolContext, seconds: float = 1e6) -> str:
    value = await deaf(seconds)
    seen.append(context.is_cancelled)
    try:
        context.heartbeat()
    except RunStopping:
        seen.append("sealed")
    return value


@tool(policy="allow", timeout=5)
async def starts(context: ProcessToolContext) -> None:
    await deaf()
    for act in (lambda: context.started(1, None), lambda: context.jobs, lambda: context.job_folder):
        try:
            if (waits := act()) is not None:
                await waits
        except RunStopping as error:
            seen.append(type(error))


@agent(stop_timeout=1, inactivity_timeout=1)
async def caller(ctx: Context, seconds: float | None = None) -> list[object]:
    began = anyio.current_time()
    result = await (ctx.call(stuck) if seconds is None else ctx.call(stuck, seconds))
    return [result.kind, result.details.get("reason"), result.details["effect"], anyio.current_time() - began]


async def _until_ended(supervisor) -> None:
    let_go.set()
    for _ in range(50):
        await checkpoint()


async def test_a_call_ends_a_little_after_its_deadline_whatever_its_function_does():
    """It has one result, which says that the effect is not known. What the function returns later is dropped."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(caller)
        assert (await run.result())[:3] == ["error", "deadline", "maybe"]
        assert (await run.result())[3] == pytest.approx(5 + GRACE_SECONDS)
        await _until_ended(supervisor)
    assert seen == [True, "sealed"]
    assert len(events(store, run.session, e.ToolCallFinished)) == 1


async def test_a_function_that_ends_soon_after_its_deadline_has_its_result_and_it_says_so():
    """What is known of an effect is never thrown away while the call can still wait for it."""
    async with opened(MemoryStore()) as supervisor:
        assert (await (await supervisor.start(caller, 6.0)).result())[0] == "ok"


async def test_a_cancelled_run_whose_tool_is_stuck_is_cancelled():
    """W8: its call is interrupted. Only an agent that does not end is abandoned."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(caller)
        await anyio.sleep(1)
        began = anyio.current_time()
        await run.cancel()
        assert (await run.outcome()).kind == "cancelled"
        assert anyio.current_time() - began <= GRACE_SECONDS + 0.1
        [finished] = events(store, run.session, e.ToolCallFinished)
        await _until_ended(supervisor)
    assert finished.kind == "interrupted"
    assert b'"effect":"maybe"' in bytes(finished.details)


async def test_a_run_whose_step_is_stuck_stalls():
    """W12: the step's function is left, and the run is not abandoned."""

    @agent(inactivity_timeout=10, stop_timeout=0.5)
    async def works(ctx: Context) -> str:
        return await ctx.named("slow").step(deaf)

    async with opened(MemoryStore()) as supervisor:
        began = anyio.current_time()
        outcome = await (await supervisor.start(works)).outcome()
        assert outcome.kind == "stalled"
        assert anyio.current_time() - began < 10 + GRACE_SECONDS + 1
        await _until_ended(supervisor)


async def test_a_scope_of_the_agents_own_goes_on_after_a_stuck_call_and_a_stuck_step():
    """The agent asked to wait no longer, and it is heard."""

    @agent
    async def impatient(ctx: Context) -> float:
        began = anyio.current_time()
        with anyio.move_on_after(1):
            await ctx.call(stuck)
        with anyio.move_on_after(1):
            await ctx.named("slow").step(deaf)
        return anyio.current_time() - began

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(impatient)).result() == pytest.approx(2 * (1 + GRACE_SECONDS))
        await _until_ended(supervisor)


async def test_a_left_tool_starts_no_process_and_no_job():
    """T9: the call has its result, and nothing of it may begin after that."""

    @agent
    async def begins(ctx: Context) -> str:
        return (await ctx.call(starts)).kind

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(begins)).result() == "error"
        await _until_ended(supervisor)
    assert seen == [RunStopping] * 3


async def test_a_left_step_streams_nothing_more():
    """The run that it belonged to has ended."""

    async def streams(context: StepContext) -> None:
        await deaf()
        for act in (lambda: context.stream("x"), context.heartbeat):
            try:
                act()
            except RunStopping:
                seen.append("sealed")

    @agent(inactivity_timeout=1)
    async def works(ctx: Context) -> None:
        await ctx.named("slow").step(streams)

    async with opened(MemoryStore()) as supervisor:
        assert (await (await supervisor.start(works)).outcome()).kind == "stalled"
        await _until_ended(supervisor)
    assert seen == ["sealed", "sealed"]


async def test_beyond_so_many_left_functions_a_new_call_or_step_is_refused():
    """Each may hold memory and locks. The error says what to do, and nothing runs."""

    @agent
    async def many(ctx: Context) -> list[object]:
        async with ctx.task_group() as tasks:
            for _ in range(MOST_LEFT):
                tasks.start_soon(_one)
        refused = await ctx.call(stuck, 0.0)
        try:
            await ctx.named("last").step(deaf, 0.0)
        except StepFailed as error:
            return [refused.kind, refused.details["effect"], error.error_type]
        return []

    async def _one(ctx: Context) -> None:
        await ctx.call(stuck)

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(many)).result() == ["error", "none", "LimitExceeded"]
        await _until_ended(supervisor)


async def test_a_step_whose_left_function_still_runs_is_not_begun_again_before_it_has_ended():
    """R1: a restart would do at the same time what must be done one after the other."""

    async def counts() -> int:
        seen.append("began")
        await deaf()
        seen.append("ended")
        return len(seen)

    @agent(inactivity_timeout=1, restart="transient", max_restarts=1, restart_delay=0.1)
    async def works(ctx: Context) -> int:
        return await ctx.named("once").step(counts)

    async with opened(MemoryStore()) as supervisor:
        run = await supervisor.start(works)
        await anyio.sleep(1 + GRACE_SECONDS + 0.3)
        let_go.set()
        assert await run.result() == 4
    assert seen == ["began", "ended", "began", "ended"]


async def test_a_new_call_that_is_equal_to_one_that_was_left_begins_at_once():
    """Only a step or an idempotent call may be begun again. This one is another call, of a later turn."""

    @agent
    async def turns(ctx: Context, text: str) -> object:
        result = await ctx.call(stuck)
        return [result.kind, result.details["effect"]]

    async with opened(MemoryStore()) as supervisor:
        run = await supervisor.start(turns, "one")
        await run.outcome()
        await supervisor.send(run.session, "two")
        assert await (await supervisor.get_run(run.session, number=2)).result() == ["error", "maybe"]
        assert supervisor.functions_left == 2
        await _until_ended(supervisor)


async def test_a_left_function_is_named_and_counted_until_it_ends():
    """`top` shows it also next to a session that has ended, and names it once."""
    async with opened(MemoryStore()) as supervisor:
        run = await supervisor.start(caller)
        await run.result()
        async with supervisor.watch_activity(run.session) as watch:
            [activity] = await watch.look(wholly=True)
            [line] = [each.plain for each in draw_tree([activity], 120, 5, datetime.now(UTC)) if "still" in each.plain]
            assert "completed; still runs: tool stuck" in line
            assert (supervisor.functions_left, [each.doing for each in all_unfinished()]) == (1, [_LEFT])
            await _until_ended(supervisor)
            [activity] = await watch.look(wholly=True)
        assert (activity.doing, supervisor.functions_left) == ((), 0)


_LEFT = "tool stuck, whose call or step has ended,"
