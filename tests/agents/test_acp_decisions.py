"""A decision belongs to the session: only an answer uses it, whatever happens to the agent's process meanwhile."""

import anyio
import pytest
from acp_inside import Inside
from acp_scenes import allow, asked, deny, events
from dying import fork

from supervisor import Answer, Approve, MemoryStore, open_supervisor
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
WEEK = 7 * 86_400.0


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


async def _says_done(agent):
    agent.say("done")


async def _asks(agent):
    await agent.asks()
    agent.say("done")


async def _asks_and_dies(agent):
    agent.ask()
    await anyio.sleep(1)
    agent.die()
    await anyio.sleep_forever()


async def _dies(agent):
    agent.die()
    await anyio.sleep_forever()


async def _hangs(agent):
    await anyio.sleep_forever()


async def _left_waiting(*turns):
    """Return the store of a process that was killed while its agent's requests waited for a person."""
    store = MemoryStore()
    async with open_supervisor(store) as supervisor:
        await supervisor.start(Inside(*turns or (_asks,)).agent(), "go", session="s")
        await asked(supervisor)
        return fork(store)


async def _killed_when_told(store, decision=None):
    """Return what a process leaves that is killed when its agent was told a decision, and has not asked again."""
    inside = Inside(_hangs)
    async with open_supervisor(store) as supervisor:
        await supervisor.start(inside.agent(), "go", session="s")
        if decision is not None:
            (approval,) = await asked(supervisor)
            await supervisor.decide(approval.id, decision)
        while not inside.prompts:
            await anyio.sleep(1)
        return fork(store)


def _kinds(store, session="s"):
    return [each.kind for each in events(store, session, e.ToolCallFinished)]


async def test_an_approved_call_has_not_begun_before_the_agent_asks_again():
    """Two kills before that leave it approved. Then it runs, and no person is asked a second time."""
    store = await _killed_when_told(await _left_waiting(), Approve(by="ana"))
    store = await _killed_when_told(store)
    assert events(store, "s", e.ToolCallStarted) == []
    async with open_supervisor(store) as supervisor:
        assert await (await supervisor.start(Inside(_asks).agent(), "go", session="s")).result() == "done"
    assert (_kinds(store), len(events(store, "s", e.ToolCallRequested))) == (["ok"], 1)


async def test_another_call_first_leaves_an_approved_call_approved():
    """The run leaves memory while a person is asked about the other one. Both run in the end, once."""

    async def other_first(agent):
        await agent.asks("c0", "rm other")
        await agent.asks()
        agent.say("done")

    store, inside = await _left_waiting(), Inside(other_first, other_first)
    async with open_supervisor(store) as supervisor:
        await supervisor.start(inside.agent(), "go", session="s")
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        await asked(supervisor)
    assert store.get_session("s").is_asleep
    async with open_supervisor(store) as supervisor:
        (approval,) = await supervisor.find_approvals()
        assert approval.arguments["command"] == "rm other"
        run = await supervisor.start(inside.agent(), "go", session="s")
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert (_kinds(store), len(events(store, "s", e.ApprovalDecided))) == (["ok", "ok"], 2)


async def test_an_approved_call_that_is_not_asked_for_again_has_a_result_and_is_reported():
    """The agent itself has ended the turn in which it was told. Nothing has begun."""

    store = await _left_waiting()
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(Inside(_says_done).agent(), "go", session="s")
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        assert await run.result() == "done"
    (result,) = events(store, "s", e.ToolCallFinished)
    assert all(word in bytes(result.details) for word in (b'"not_asked_again"', b'"effect":"none"'))
    assert events(store, "s", e.ToolCallStarted) == []
    assert any("not asked for again" in each.text and "rm x" in each.text for each in events(store, "s", e.Reported))


@pytest.mark.parametrize("decide", [allow, deny])
@pytest.mark.parametrize("can_load", [True, False])
async def test_the_death_of_the_agent_leaves_its_approval_open(can_load, decide):
    """An agent that can open its session again is started at once; another one when a decision comes."""
    store, inside = MemoryStore(), Inside(_asks_and_dies, _asks, can_load=can_load)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s")
        (approval,) = await asked(supervisor)
        await anyio.sleep(WEEK)
        assert inside.lives == (2 if can_load else 1)
        assert [each.id for each in await supervisor.find_approvals()] == [approval.id]
        await decide(supervisor, approval)
        assert await run.result() == "done"
    assert (inside.lives, len(events(store, "s", e.ToolCallRequested))) == (2, 1)
    assert _kinds(store) == ["ok" if decide is allow else "denied"]


async def test_an_agent_that_dies_again_and_again_waits_for_the_decision():
    """It is started three times in a minute, and once more after the decision."""
    store, inside = MemoryStore(), Inside(_asks_and_dies, _dies, _dies, _dies, _asks)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s")
        (approval,) = await asked(supervisor)
        await anyio.sleep(WEEK)
        assert inside.lives == 4
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert (inside.lives, _kinds(store)) == (5, ["ok"])


async def test_the_silence_of_a_process_withdraws_nothing_that_an_earlier_one_asked():
    """The silent process is ended and started again three times; the next one begins after the decision."""
    store, inside = MemoryStore(), Inside(_asks_and_dies, *[_hangs] * 4, _asks)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(first_progress_timeout=60.0), "go", session="s")
        (approval,) = await asked(supervisor)
        await anyio.sleep(WEEK)
        assert inside.lives == 5
        assert [each.id for each in await supervisor.find_approvals()] == [approval.id]
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert (inside.lives, _kinds(store)) == (6, ["ok"])


async def test_an_agent_that_only_dies_fails_its_run():
    """What it asked is approved, so no decision could start it again."""
    store, inside = await _left_waiting(), Inside(*[_dies] * 9)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s")
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        outcome = await run.outcome()
    assert (outcome.kind, inside.lives) == ("failed", 4)
    assert "not started again" in outcome.cause
    assert _was_not_asked_again(store)


@pytest.mark.parametrize("restart", ["temporary", "transient"])
async def test_a_stall_that_ends_the_run_leaves_no_approved_call_without_a_result(restart):
    """The result says why, and that nothing happened. A retry asks a person anew."""
    store, inside = await _left_waiting(), Inside(_hangs, _hangs, _asks)
    budgets = {"first_progress_timeout": 10.0, "restart": restart, "max_restarts": 1, "restart_period": 1e6}
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(**budgets), "go", session="s")
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        assert (await run.outcome()).kind == "stalled"
        assert _was_not_asked_again(store)
        inside.turns = [_asks] * 3
        run = await supervisor.retry("s", by="ana")
        (again,) = await asked(supervisor)
        assert again.id != approval.id
        await allow(supervisor, again)
        assert await run.result() == "done"


def _was_not_asked_again(store):
    """Whether the only call has this result, and has not begun."""
    (result,) = events(store, "s", e.ToolCallFinished)
    assert "not asked for again" in result.content
    details = bytes(result.details)
    return (
        b'"not_asked_again"' in details and b'"effect":"none"' in details and not events(store, "s", e.ToolCallStarted)
    )


async def test_a_call_that_was_allowed_when_the_agent_died_is_told_as_ended():
    """It may have run: its approval is used, and the same call is a new request."""

    async def allowed(agent):
        agent.ask("c0", "rm y")
        await agent.answer(agent.ask())
        agent.die()
        await anyio.sleep_forever()

    store, inside = MemoryStore(), Inside(allowed, _asks, _says_done)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s")
        approvals = {each.arguments["command"]: each for each in await asked(supervisor, 2)}
        await allow(supervisor, approvals["rm x"])
        while inside.lives < 2:
            await anyio.sleep(1)
        for approval in await asked(supervisor, 2):
            assert approval.id != approvals["rm x"].id
            await deny(supervisor, approval)
        assert await run.result() == "done"
    assert "did not say how this call had ended" in inside.prompts[1]
    assert sorted(_kinds(store)) == ["denied", "denied", "error"]


async def test_equal_requests_stand_for_each_other():
    """A person approves the second one of two. The one message that comes gets this decision."""

    async def twice(agent):
        agent.ask("c1")
        await agent.asks("c2")

    store, inside = MemoryStore(), Inside(_asks, _asks)
    async with open_supervisor(store) as supervisor:
        await supervisor.start(Inside(twice).agent(), "go", session="s")
        await asked(supervisor, 2)
        store = fork(store)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s")
        first, second = sorted(await asked(supervisor, 2), key=lambda each: each.created_at)
        await allow(supervisor, second)
        await anyio.sleep(60)
        assert _kinds(store) == ["ok"]
        await allow(supervisor, first)
        await run.result()
    assert (_kinds(store), len(events(store, "s", e.ToolCallRequested))) == (["ok", "ok"], 2)


@pytest.mark.parametrize("can_load", [True, False])
async def test_a_process_is_given_back_only_if_its_session_can_be_opened_again(can_load):
    store, inside = MemoryStore(), Inside(_asks, _asks, can_load=can_load)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(passivate_after=300.0), "go", session="s")
        (approval,) = await asked(supervisor)
        await anyio.sleep(290)
        assert not store.get_session("s").is_asleep
        await anyio.sleep(20)
        assert store.get_session("s").is_asleep is can_load
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert (inside.lives, _kinds(store)) == (2 if can_load else 1, ["ok"])


async def test_a_chosen_option_has_allowed_nothing_before_the_agent_asks_again():
    """An agent without an option that rejects asks by its own names of its options. A kill keeps the choice, too."""
    options = ({"optionId": "allow_once", "name": "Do it", "kind": "allow_once"},)

    async def asks(agent):
        await agent.asks(options=options)
        agent.say("done")

    store = await _killed_when_told(await _left_waiting(asks), Answer(value="Do it", by="ana"))
    assert events(store, "s", e.ToolCallStarted) == []
    async with open_supervisor(store) as supervisor:
        assert await (await supervisor.start(Inside(asks).agent(), "go", session="s")).result() == "done"
    assert (_kinds(store), len(events(store, "s", e.QuestionAsked))) == (["ok"], 1)
