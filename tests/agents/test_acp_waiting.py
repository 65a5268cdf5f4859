"""The watchdog of an agent: its updates are signs of life, and waits for people do not count (W2, W4, W5)."""

import anyio
import pytest
from acp_inside import Inside
from acp_scenes import allow, asked, deny, events

from supervisor import Limit, MemoryStore, open_supervisor
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
BUDGETS = {"first_progress_timeout": 100.0, "inactivity_timeout": 10.0}
DAY = 86_400.0


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


async def _outcome(*turns, decide=None, **budgets):
    """Return how a run ends, whose first request is decided after a day."""
    inside = Inside(*turns)
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(inside.agent(**BUDGETS, **budgets), "go")
        if decide is not None:
            (approval,) = await asked(supervisor)
            await anyio.sleep(DAY)
            await decide(supervisor, approval)
        return await run.outcome(), inside


async def test_an_agent_that_waits_for_a_person_is_not_silent():
    async def turn(agent):
        await agent.asks()
        agent.say("done")

    outcome, _ = await _outcome(turn, decide=allow)
    assert (outcome.kind, outcome.value) == ("succeeded", "done")


async def test_a_prompt_without_any_update_has_the_first_budget():
    async def slow(agent):
        await anyio.sleep(99)
        agent.say("at last")

    async def silent(agent):
        await anyio.sleep(101)

    assert (await _outcome(slow))[0].kind == "succeeded"
    assert (await _outcome(silent))[0].kind == "stalled"


async def test_silence_after_an_update_has_the_short_budget():
    async def turn(agent):
        agent.say("hm")
        await anyio.sleep(11)

    assert (await _outcome(turn))[0].kind == "stalled"


async def test_each_update_is_a_sign_of_life():
    async def turn(agent):
        for _ in range(10):
            agent.update("agent_thought_chunk", content={"type": "text", "text": "hm"})
            await anyio.sleep(9)
        agent.say("done")

    assert (await _outcome(turn))[0].kind == "succeeded"


async def test_calls_that_the_agent_says_are_running_stall_no_run_that_waits_for_a_person():
    """It says so of calls for which it has not asked yet, and of others. After the decision the clock runs again."""

    async def turn(agent):
        agent.update("tool_call", toolCallId="c0", title="long", kind="execute", status="in_progress")
        agent.update("tool_call", toolCallId="c2", title="next", kind="execute", status="in_progress")
        await agent.asks("c1")
        agent.say("done")

    async def hangs(agent):
        await turn(agent)
        await anyio.sleep_forever()

    assert (await _outcome(turn, decide=allow))[0].kind == "succeeded"
    assert (await _outcome(hangs, decide=allow))[0].kind == "stalled"


async def test_a_sub_agent_of_the_agent_that_waits_for_a_person_is_not_silent():
    """Its call runs, and one of its own calls asks."""

    async def turn(agent):
        agent.update("tool_call", toolCallId="c0", title="delegate", kind="think", status="in_progress")
        await agent.asks("c1")
        agent.say("done")

    assert (await _outcome(turn, decide=allow))[0].kind == "succeeded"


async def test_an_allowed_call_has_its_own_deadline():
    """The result says that the agent may still be at it, and the turn goes on."""

    async def turn(agent):
        await agent.answer(agent.ask())
        await anyio.sleep(60)
        agent.say("done")

    store, inside = MemoryStore(), Inside(turn)
    budgets = {"inactivity_timeout": 30.0, "call_timeout": 40.0}
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(**budgets), "go")
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        assert (await run.outcome()).value == "done"
    (result,) = events(store, run.session, e.ToolCallFinished)
    assert result.kind == "error"
    assert "may still be at it" in result.content


async def test_a_stall_cancels_the_turn():
    async def turn(agent):
        agent.say("hm")
        await anyio.sleep(60)

    outcome, inside = await _outcome(turn)
    assert outcome.kind == "stalled"
    assert "session/cancel" in [each.get("method") for each in inside.heard]


async def test_a_denial_with_a_reason_is_the_next_prompt_and_one_without_is_none():
    async def turn(agent):
        await agent.asks()
        agent.say("turn")

    async def deny_for_a_reason(supervisor, approval):
        await deny(supervisor, approval, "not now")

    _, inside = await _outcome(turn, turn, decide=deny)
    assert len(inside.prompts) == 1

    async def after(agent):
        agent.say("I see")

    outcome, inside = await _outcome(turn, after, decide=deny_for_a_reason)
    assert "not now" in inside.prompts[1]
    assert outcome.value == "I see"


async def test_a_run_gives_its_place_back_while_a_person_is_asked_and_regains_it():
    """L1: in the middle of a turn, too. With one place the second agent works meanwhile, and never both at once."""
    began: list[str] = []

    def coder(name):
        async def turn(agent):
            began.append(name)
            for _ in range(1 if name == "a" else 20):  # longer than either may be silent
                agent.say(f"{name} works")
                await anyio.sleep(5)
            await agent.asks()
            began.append(f"{name} again")
            agent.say("done")

        return Inside(turn)

    async with open_supervisor(MemoryStore(), limits=[Limit("coding", at_once=1)]) as supervisor:
        first = await supervisor.start(coder("a").agent(**BUDGETS, limit="coding"), "go")
        await anyio.sleep(1)
        second = await supervisor.start(coder("b").agent(**BUDGETS, limit="coding"), "go")
        await anyio.sleep(1)
        assert began == ["a"]
        assert (await supervisor.get_session(second.session)).limit.name == "coding"
        await anyio.sleep(5)
        assert began == ["a", "b"]
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        await anyio.sleep(1)
        assert (await supervisor.get_session(first.session)).limit.name == "coding"
        assert began == ["a", "b"]
        await anyio.sleep(200)
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        assert [(await run.outcome()).kind for run in (first, second)] == ["succeeded"] * 2
