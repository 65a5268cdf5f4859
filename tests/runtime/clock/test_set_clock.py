"""The wall clock is set, back or forward: a timer of N seconds takes N seconds, or at most N in the next process."""

import anyio
import pytest
from watching import next_of

from supervisor import Approve, Context, MemoryStore, agent, open_supervisor, tool
from supervisor.testing import wall_clock

pytestmark = pytest.mark.anyio

YEAR = 365 * 86_400.0
BEGAN: list[int] = []


@tool
async def ask_a_person(question: str) -> str:
    return question


async def fails_once() -> str:
    BEGAN.append(1)
    if len(BEGAN) == 1:
        raise OSError("the network was away")
    return "done"


@agent
async def sleeps(ctx: Context) -> str:
    await ctx.sleep(30)
    return "done"


@agent
async def is_impatient(ctx: Context) -> str:
    async with ctx.move_on_after(30):
        await ctx.call(ask_a_person, question="now?")
    return "done"


@agent(approval_expires_in=30)
async def asks(ctx: Context) -> str:
    await ctx.call(ask_a_person, question="now?")
    return "done"


@agent(restart="transient", restart_delay=60, max_restart_delay=60, restart_period=3600)
async def fails(ctx: Context) -> str:
    return await ctx.step(fails_once)


async def succeeded(supervisor):
    """Wait for the end as people do who look from time to time: a program that waits for the outcome, and reads no
    approvals, has them denied."""
    while (await supervisor.get_session("s")).outcome is None:
        await anyio.sleep(0.5)


@pytest.mark.parametrize("passivate_after", [1, 3600])
@pytest.mark.parametrize("set_by", [-YEAR, YEAR])
@pytest.mark.parametrize("waits", [sleeps, is_impatient, asks, fails], ids=lambda each: each.name)
async def test_within_a_life_a_timer_takes_what_it_says_whatever_the_wall_clock_says(waits, set_by, passivate_after):
    """Whether its run is in memory or not. A back-off is at least half of its delay."""
    BEGAN.clear()
    with wall_clock() as wall, anyio.fail_after(1000):
        async with open_supervisor(MemoryStore(), passivate_after=passivate_after) as supervisor:
            began = anyio.current_time()
            await supervisor.start(waits, session="s")
            await anyio.sleep(5)
            wall.ahead = set_by
            await succeeded(supervisor)
            assert 29.9 < anyio.current_time() - began < 61


@pytest.mark.parametrize("set_in", ["the first life", "between the lives"])
@pytest.mark.parametrize("passivate_after", [1, 3600])
@pytest.mark.parametrize("waits", [sleeps, is_impatient, asks, fails], ids=lambda each: each.name)
async def test_after_a_death_a_timer_takes_at_most_what_it_says(waits, passivate_after, set_in):
    """The clock was a year ahead when it began, and was corrected afterwards: it must not wait for a year."""
    BEGAN.clear()
    with wall_clock() as wall, anyio.fail_after(1000):
        wall.ahead = YEAR
        async with open_supervisor(MemoryStore(), passivate_after=passivate_after) as first:
            await first.start(waits, session="s")
            await anyio.sleep(0.5)
            if set_in == "the first life":
                wall.ahead = 0.0
            await anyio.sleep(2)
            store = first.store.copy()
        wall.ahead = 0.0
        async with open_supervisor(store) as supervisor:
            began = anyio.current_time()
            await supervisor.resume("s")
            await succeeded(supervisor)
            assert anyio.current_time() - began < 61


async def test_a_decision_in_time_counts_though_the_wall_clock_was_set_forward():
    """Its card says 30 seconds, and 10 have passed."""
    with wall_clock() as wall:
        async with open_supervisor(MemoryStore()) as supervisor:
            run = await supervisor.start(asks)
            asked = await next_of(run.watch_approvals())
            await anyio.sleep(10)
            wall.ahead = 3600.0
            decided = await supervisor.decide(asked.id, Approve(by="op"))
            assert decided.kind == "accepted"
            assert (await run.outcome()).value == "done"


async def test_an_approval_is_listed_and_answered_though_the_wall_clock_was_set_forward():
    """Readers, words in a chat and rules go by the clock by which a decision counts."""
    with wall_clock() as wall:
        async with open_supervisor(MemoryStore()) as supervisor:
            runs = [await supervisor.start(asks, session=name) for name in "abc"]
            asked = [await next_of(run.watch_approvals()) for run in runs]
            wall.ahead = 3600.0
            assert {each.id for each in await supervisor.find_approvals()} == {each.id for each in asked}
            assert {each.status for each in (await supervisor.find_sessions()).items} == {"waiting_approval"}
            assert (await supervisor.get_approval(asked[0].id)).status == "pending"
            said = await supervisor.chat("a", "yes", by="op", shown={asked[0].id})
            assert [each.kind for each in said.results] == ["accepted"]
            decided = await supervisor.decide(asked[1].id, Approve(by="op", scope="always"))
            assert decided.kind == "accepted"
            assert [await run.result() for run in runs] == ["done"] * 3
