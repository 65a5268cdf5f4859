"""More of the one suite for all Supervisors: watches of one tree."""

import pytest
from scene_agents import boss, noting_one

from supervisor import Answer, Deny

pytestmark = pytest.mark.anyio

everywhere = pytest.mark.parametrize("kind", ["local", "remote", "temporal"])


async def asked(run):
    """Return the next approval of a run and those below it."""
    async with run.watch_approvals() as watch:
        return await anext(watch)


@everywhere
async def test_the_inbox_of_a_session_has_it_and_those_below_it(opened):
    """And no others: neither what is pending elsewhere, nor what changes there."""
    async with opened() as here:
        other = await here.supervisor.start(noting_one, "bread", requester="olga")
        elsewhere = await asked(other)
        run = await here.supervisor.start(boss, ["a"], requester="olga")
        async with here.supervisor.watch_inbox(session=run.session) as inbox:
            question = await anext(inbox)
            await here.supervisor.decide(elsewhere.id, Deny(by="olga"))
            await other.outcome()
            await here.supervisor.decide(question.id, Answer(value="fine", by="olga"))
            answered = await anext(inbox)
        assert question.path == ("boss", "worker")
        assert (answered.id, answered.status) == (question.id, "answered")
