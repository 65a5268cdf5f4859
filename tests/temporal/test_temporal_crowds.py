"""A tree that asks people so much at once that a server does not take all of it where it searches."""

import anyio
import pytest
from temporal_server import namespace, working

from supervisor import Answer, Context, agent
from supervisor.temporal import open_temporal

pytestmark = pytest.mark.anyio
QUESTIONS = 80
"""The ids of some fifty fit into a search attribute."""


@agent
async def wondering(ctx: Context) -> None:
    """Asks many questions at once."""
    async with ctx.task_group() as tasks:
        for number in range(QUESTIONS):
            tasks.start_soon(ask, number)


async def ask(own: Context, number: int) -> None:
    await own.ask(f"{number}?")


async def test_a_tree_with_many_questions_waits_and_each_can_be_answered():
    """They are found while no worker lives, too, and the answer to the youngest counts."""
    url = await namespace()
    with anyio.fail_after(120):
        async with working(url, [wondering]), open_temporal(url) as supervisor:
            await supervisor.start(wondering, session="w")
            while len(await supervisor.find_approvals(limit=None)) < QUESTIONS:
                await anyio.sleep(0.05)
        async with open_temporal(url) as supervisor:
            found = await supervisor.find_approvals(limit=None)
            assert len({each.id for each in found}) == QUESTIONS
            async with working(url, [wondering]):
                decided = await supervisor.decide(found[-1].id, Answer(value="yes", by="ana"))
                assert decided.kind == "accepted"


@agent
async def nosy(ctx: Context, number: int) -> str:
    return await ctx.ask(f"{number}?" + "." * 500)


@agent(max_children=2000, max_live_children=2000)
async def crowd(ctx: Context, number: int) -> int:
    """Has so many sub-agents that all ask, and cancels them."""
    children = [await ctx.spawn(nosy, each) for each in range(number)]
    await ctx.sleep(1)
    for child in children:
        await child.cancel()
    return sum([(await child.outcome()).kind == "cancelled" for child in children])


@pytest.mark.parametrize("number", [250, pytest.param(999, marks=pytest.mark.soak)])
async def test_a_tree_with_many_sub_agents_that_ask_is_cancelled_at_once(number):
    """What people are asked is written once for all that happens together: else no message to the server holds it."""
    url = await namespace()
    with anyio.fail_after(120):
        async with working(url, [crowd, nosy]), open_temporal(url) as supervisor:
            run = await supervisor.start(crowd, number)
            assert (await run.outcome()).value == number


@pytest.mark.soak
async def test_a_tree_has_at_most_a_thousand_live_sessions():
    """Really so many; tests/temporal/test_temporal_bad_input.py has the error that the agent gets."""
    url = await namespace()
    with anyio.fail_after(120):
        async with working(url, [crowd, nosy]), open_temporal(url) as supervisor:
            outcome = await (await supervisor.start(crowd, 1000)).outcome()
            assert (outcome.kind, "LimitExceeded" in str(outcome.cause)) == ("failed", True)
