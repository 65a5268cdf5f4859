"""A tree that asks people so much at once that a server does not take all of it where it searches."""

import sys
from threading import Thread, enumerate as threads

import anyio
import pytest
from temporal_server import namespace, working

from supervisor import Answer, Context, agent
from supervisor.temporal import open_temporal
from supervisor.temporal.worker import long_steps
from supervisor.testing import replaced

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


def is_idle(thread: Thread) -> bool:
    """Whether a thread of a pool waits for work."""
    return sys._current_frames()[thread.ident].f_code.co_name == "_worker"


async def test_a_step_that_is_given_up_ends_and_the_tree_goes_on():
    """A worker gives up what takes it long, as on a busy machine, and can be stopped. No thread of it runs for ever."""
    url = await namespace()
    with anyio.fail_after(100):
        async with open_temporal(url) as supervisor:
            with replaced(long_steps, "GIVEN_UP_SECONDS", 0.02):
                async with working(url, [crowd, nosy]):
                    run = await supervisor.start(crowd, 100)
                    await anyio.sleep(3)  # it is tried again and again
            assert not [each for each in threads() if each.name.startswith("temporal_workflow") and not is_idle(each)]
            async with working(url, [crowd, nosy]):
                assert (await run.outcome()).value == 100


@pytest.mark.soak
async def test_a_tree_has_at_most_a_thousand_live_sessions():
    """Really so many; tests/temporal/test_temporal_bad_input.py has the error that the agent gets."""
    url = await namespace()
    with anyio.fail_after(120):
        async with working(url, [crowd, nosy]), open_temporal(url) as supervisor:
            outcome = await (await supervisor.start(crowd, 1000)).outcome()
            assert (outcome.kind, "LimitExceeded" in str(outcome.cause)) == ("failed", True)
