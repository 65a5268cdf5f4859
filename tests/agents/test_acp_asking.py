"""A permission request of an agent is a call of ours: asked, decided, answered."""

import anyio
import pytest
from acp_scenes import allow, ask, asked, deny, events, new_home, opened, real_backend, say

from supervisor import MemoryStore, deny as deny_rule
from supervisor.core import events as e

__all__ = ["new_home", "real_backend"]
pytestmark = pytest.mark.anyio


async def test_an_approved_call_is_allowed_once_and_its_end_is_the_result(home):
    agent, store = home.agent([ask(), say("all done")]), MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(agent, "remove x")
        (approval,) = await asked(supervisor)
        assert (approval.tool, home.effects) == ("fake.execute", [])
        await allow(supervisor, approval)
        assert await run.result() == "all done"
    assert (home.prompts, home.outcomes, home.effects) == (["remove x"], ["yes"], ["c1"])
    assert [each.kind for each in events(store, run.session, e.ToolCallFinished)] == ["ok"]


async def test_a_denial_picks_the_rejecting_option_and_its_reason_is_the_next_prompt(home):
    agent = home.agent([ask()], [say("I keep x")], reject_ends=True)
    async with opened() as supervisor:
        run = await supervisor.start(agent, "remove x")
        (approval,) = await asked(supervisor)
        await deny(supervisor, approval, "x is dear to me")
        assert await run.result() == "I keep x"
    assert home.outcomes == ["no"]
    assert "x is dear to me" in home.prompts[1]


async def test_requests_are_independent(home):
    """Two requests wait at once, and are answered in reverse order."""
    both = [ask("c1", "rm x", wait=False), ask("c2", "rm y", wait=False), {"do": "await", "ids": ["c1", "c2"]}]
    async with opened() as supervisor:
        run = await supervisor.start(home.agent(both), "remove both")
        first, second = await asked(supervisor, 2)
        await deny(supervisor, second)
        while home.outcomes != ["no"]:
            await anyio.sleep(0.01)
        await allow(supervisor, first)
        await run.result()
    assert (home.outcomes, home.effects) == (["no", "yes"], ["c1"])


async def test_each_message_is_a_prompt_of_the_same_session(home):
    """The process ends with the run; the next one opens the session again."""
    agent = home.agent([say("one")], [say("two")])
    async with opened() as supervisor:
        run = await supervisor.start(agent, "first", session="talk")
        assert await run.result() == "one"
        await supervisor.send("talk", "second", by="ana")
        assert await (await supervisor.resume("talk")).result() == "two"
    assert home.prompts == ["first", "second"]
    assert len({each["params"]["sessionId"] for each in home.heard if each.get("method") == "session/prompt"}) == 1


async def test_a_message_during_a_turn_waits(home):
    agent = home.agent([ask(), say("one")], [say("two")])
    async with opened() as supervisor:
        run = await supervisor.start(agent, "first", session="talk")
        (approval,) = await asked(supervisor)
        await supervisor.send("talk", "second", by="ana")
        await allow(supervisor, approval)
        await run.result()
        assert await (await supervisor.resume("talk")).result() == "two"
    assert home.prompts == ["first", "second"]


async def test_a_deny_rule_goes_by_the_raw_input(home):
    agent = home.agent([ask("c1", "rm x"), say("done")])
    async with opened(rules=[deny_rule("fake.execute", '{"command":"rm x"}')]) as supervisor:
        assert await (await supervisor.start(agent, "go")).result() == "done"
    assert (home.outcomes, home.effects) == (["no"], [])
