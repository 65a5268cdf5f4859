"""W: the watchdog ends what is silent, and waits for whoever waits for a person."""

import anyio
import pytest

from supervisor import Approve, Context, MemoryStore, RunStalled, agent, open_supervisor, tool

pytestmark = pytest.mark.anyio
WEEK = 7 * 86_400.0


@tool
async def deploy(target: str) -> str:
    return f"deployed {target}"


@tool(approval="never", timeout=900)
async def slow(seconds: float) -> None:
    await anyio.sleep(seconds)


async def quiet_step(seconds: float) -> None:
    await anyio.sleep(seconds)


@agent(inactivity_timeout=60)
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).content


@agent(inactivity_timeout=60)
async def silent(ctx: Context) -> None:
    await anyio.sleep(WEEK)


@agent
async def hundred(ctx: Context) -> list[str]:
    children = [await ctx.spawn(asks, f"host{n}") for n in range(100)]
    return [await child.result() for child in children]


async def test_a_hundred_agents_wait_seven_days_each_for_a_person_and_none_stalls():
    """W2: an open approval pauses the watchdog, however long it is open."""
    async with open_supervisor(MemoryStore(), passivate_after=1e9) as supervisor:
        run = await supervisor.start(hundred)
        approvals = run.approvals()
        first = [await anext(approvals) for _ in range(100)]
        await anyio.sleep(WEEK)
        for approval in first:
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == [f"deployed host{n}" for n in range(100)]


async def test_a_silent_agent_is_stalled_no_earlier_than_its_budget_and_at_most_250_ms_later():
    """W11: 60 s of silence end it, between 60.0 and 60.25 s after its start."""
    async with open_supervisor(MemoryStore()) as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(silent)
        outcome = await run.outcome()
        assert outcome.kind == "stalled"
        assert 60.0 <= anyio.current_time() - started <= 60.25
        with pytest.raises(RunStalled):
            await run.result()


async def test_a_call_of_ten_minutes_under_its_own_deadline_does_not_stall():
    """W2: an executing call is watched by its deadline."""

    @agent(inactivity_timeout=60)
    async def patient(ctx: Context) -> str:
        return (await ctx.call(slow, 600.0)).kind

    async with open_supervisor(MemoryStore()) as supervisor:
        assert await (await supervisor.start(patient)).result() == "ok"


async def test_a_hung_step_beside_a_pending_approval_stalls():
    """W2: a step in flight is watched whatever else waits."""

    @agent(inactivity_timeout=60)
    async def both(ctx: Context) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.call, deploy, "a")
            await ctx.step(quiet_step, WEEK)

    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(both)
        approval = await anext(run.approvals())
        assert (await run.outcome()).kind == "stalled"
        assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "gone"


async def test_heartbeats_keep_an_agent_alive():
    """W5: progress is what resets the budget."""

    @agent(inactivity_timeout=60)
    async def beating(ctx: Context) -> str:
        for _ in range(20):
            await anyio.sleep(50)
            ctx.heartbeat()
        return "done"

    async with open_supervisor(MemoryStore()) as supervisor:
        assert await (await supervisor.start(beating)).result() == "done"
