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
