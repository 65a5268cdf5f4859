"""An agent that dies, or falls silent for good, at any point of its protocol: the run fails, and says why."""

import json

import anyio
import pytest
from acp_scenes import allow, ask, asked, events, new_home, opened, real_backend, say

from supervisor import MemoryStore
from supervisor.core import events as e

__all__ = ["new_home", "real_backend"]
pytestmark = pytest.mark.anyio


async def cause_of(agent):
    """Run an agent that is to fail; return the cause."""
    async with opened() as supervisor:
        outcome = await (await supervisor.start(agent, "go")).outcome()
    assert outcome.kind == "failed"
    return outcome.cause


@pytest.mark.parametrize("method", ["initialize", "session/new", "session/prompt"])
async def test_a_death_at_a_request_of_ours_quotes_the_last_words(home, method):
    cause = await cause_of(home.agent([say("unheard")], dies_in=method))
    assert f"no {method}" in cause
    assert "code 3" in cause


@pytest.mark.parametrize("script", [{"dies_in": "session/load"}, {"dies_in": "session/resume", "resume": True}])
async def test_a_death_while_its_session_is_opened_again_fails_the_run(home, script):
    """No third process is tried."""
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([say("one")], **script), "first", session="talk")
        assert await run.result() == "one"
        await supervisor.send("talk", "second", by="ana")
        outcome = await (await supervisor.resume("talk")).outcome()
    assert (outcome.kind, len(home.pids)) == ("failed", 2)
    assert f"no {script['dies_in']}" in outcome.cause


@pytest.mark.parametrize("is_deaf", [False, True])
async def test_an_agent_that_closes_its_output_has_failed_and_is_ended(home, is_deaf):
    """It lives, and might go on with its work unseen."""
    agent = home.agent(
        [{"do": "close"}, {"do": "hang"}], deaf=is_deaf, ignores_cancel=True, budgets={"stop_timeout": 2.0}
    )
    await cause_of(agent)
    assert home.living == []


async def test_a_death_in_an_allowed_call_leaves_a_result(home):
    """Its effect may have happened."""
    steps = [ask("c1", "rm x", wait=False, after="never"), {"do": "wait_for", "file": "allowed"}, {"do": "kill"}]
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(home.agent(steps), "go")
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        while home.outcomes != ["yes"]:
            await anyio.sleep(0.01)
        (home.folder / "allowed").touch()
        outcome = await run.outcome()
    (result,) = events(store, run.session, e.ToolCallFinished)
    assert outcome.kind == "failed"
    assert (result.kind, json.loads(bytes(result.details))["effect"]) == ("error", "maybe")


async def test_a_prompt_that_is_answered_with_an_error_fails_the_run(home):
    cause = await cause_of(home.agent([{"do": "fail", "code": -32603, "message": "quota exceeded"}]))
    assert "quota exceeded" in cause


async def test_an_error_as_the_answer_to_a_prompt_leaves_what_waits_for_a_person(home):
    """The next process asks again, and the call runs once."""
    failing = [ask(wait=False), {"do": "wait_for", "file": "asked"}, {"do": "fail", "message": "quota exceeded"}]
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(home.agent(failing, [ask(), say("done")]), "go")
        (approval,) = await asked(supervisor)
        (home.folder / "asked").touch()
        while len(home.prompts) < 2:
            await anyio.sleep(0.01)
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert home.effects == ["c1"]
    assert any("quota exceeded" in each.text for each in events(store, run.session, e.Reported))
