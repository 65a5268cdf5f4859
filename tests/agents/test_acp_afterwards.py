"""After the death of a supervisor: no process before a decision, and each decision is used once (R1)."""

import anyio
import pytest
from acp_inside import Inside
from acp_scenes import allow, asked, deny, events
from dying import fork

from supervisor import MemoryStore, open_supervisor
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


async def _asks(agent):
    await agent.asks()
    agent.say("done")


async def _left_waiting(count=1):
    """Return the store of a process that was killed while this many sessions waited for a person."""
    store = MemoryStore()
    async with open_supervisor(store) as supervisor:
        for number in range(count):
            await supervisor.start(Inside(_asks).agent(), "go", session=f"s{number}")
        await asked(supervisor, count)
        return fork(store)


async def test_a_hundred_waiting_sessions_start_no_process():
    store, inside = await _left_waiting(100), Inside(_asks)
    agent = inside.agent()
    async with open_supervisor(store) as supervisor:
        runs = [await supervisor.start(agent, "go", session=f"s{number}") for number in range(100)]
        approvals = await asked(supervisor, 100)
        await anyio.sleep(3600)
        assert inside.lives == 0
        await allow(supervisor, approvals[0])
        await next(run for run in runs if run.session == approvals[0].session).result()
        assert inside.lives == 1


async def _goes_on(decide, *turns):
    """Let a person decide what an earlier process asked, and return the store and the agent that goes on."""
    store, inside = await _left_waiting(), Inside(*turns)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s0")
        (approval,) = await asked(supervisor)
        await decide(supervisor, approval)
        await run.result()
    return store, inside


async def test_an_approved_call_that_is_asked_for_again_runs_without_asking():
    store, inside = await _goes_on(allow, _asks)
    assert "approved" in inside.prompts[0]
    assert len(events(store, "s0", e.ApprovalDecided)) == 1
    assert [each.kind for each in events(store, "s0", e.ToolCallFinished)] == ["ok"]


async def test_an_approved_call_that_is_not_asked_for_again_has_no_effect():
    async def other(agent):
        agent.say("I do without")

    store, _ = await _goes_on(allow, other)
    (result,) = events(store, "s0", e.ToolCallFinished)
    assert (result.kind, b'"effect":"none"' in bytes(result.details)) == ("error", True)


async def test_a_denial_answers_the_same_call_once():
    said = []

    async def turn(agent):
        said.append(await agent.asks("again"))
        agent.say("done")

    store, inside = await _goes_on(deny, turn)
    assert said == ["reject_once"]
    assert "denied" in inside.prompts[0]
    assert len(events(store, "s0", e.ToolCallRequested)) == 1


async def test_a_decision_is_used_once():
    """The second request for the same call asks a person again."""
    store, inside = await _left_waiting(), Inside(_asks_twice)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s0")
        (first,) = await asked(supervisor)
        await allow(supervisor, first)
        (second,) = await asked(supervisor)
        assert second.id != first.id
        await deny(supervisor, second)
        await run.result()


async def _asks_twice(agent):
    await agent.asks("c1")
    await agent.asks("c2")


async def test_another_input_is_another_call():
    async def turn(agent):
        await agent.asks(command="rm -rf /")

    store, inside = await _left_waiting(), Inside(turn)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s0")
        (first,) = await asked(supervisor)
        await allow(supervisor, first)
        (second,) = await asked(supervisor)
        assert second.arguments["command"] == "rm -rf /"
        await deny(supervisor, second)
        await run.result()


async def test_an_agent_that_cannot_load_begins_anew_and_is_told():
    store = await _left_waiting()
    inside = Inside(_asks, can_load=False)
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s0")
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        await run.result()
    assert "could not be opened again" in inside.prompts[0]
    assert any("could not be opened again" in each.text for each in events(store, "s0", e.Reported))


async def test_a_decision_after_the_turn_starts_the_agent_again():
    """Two requests wait. One is decided, and the agent does not come back to the other one."""
    both = Inside(_asks_two)
    store = MemoryStore()
    async with open_supervisor(store) as supervisor:
        await supervisor.start(both.agent(), "go", session="s0")
        await asked(supervisor, 2)
        left = fork(store)

    async def nothing(agent):
        agent.say("nothing more")

    inside = Inside(_asks, nothing)
    async with open_supervisor(left) as supervisor:
        run = await supervisor.start(inside.agent(), "go", session="s0")
        approvals = {each.arguments["command"]: each for each in await asked(supervisor, 2)}
        await allow(supervisor, approvals["rm x"])
        await anyio.sleep(3600)
        assert inside.lives == 1
        await allow(supervisor, approvals["rm y"])
        await run.result()
    assert inside.lives == 2
    assert sorted(each.kind for each in events(left, "s0", e.ToolCallFinished)) == ["error", "ok"]


async def _asks_two(agent):
    agent.ask("c1", "rm x")
    await agent.asks("c2", "rm y")


async def test_a_run_that_left_memory_goes_on_with_a_new_process():
    """A declared `passivate_after` ends the process; the decision starts another one, which must ask again."""
    inside, store = Inside(_asks, _asks), MemoryStore()
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(passivate_after=1.0), "go")
        (approval,) = await asked(supervisor)
        await anyio.sleep(3600)
        assert store.get_session(run.session).is_asleep
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert (inside.lives, len(events(store, run.session, e.ToolCallRequested))) == (2, 1)


async def test_a_restart_after_a_stall_begins_with_what_is_known():
    """A person had approved the call, and the agent fell silent before it asked again."""

    async def hangs(agent):
        await anyio.sleep_forever()

    store, inside = await _left_waiting(), Inside(hangs, _asks)
    budgets = {"restart": "transient", "first_progress_timeout": 10.0, "inactivity_timeout": 10.0}
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(inside.agent(**budgets), "go", session="s0")
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert (inside.lives, "Your process ended" in inside.prompts[1]) == (2, True)
    assert len(events(store, "s0", e.ToolCallRequested)) == len(events(store, "s0", e.ToolCallStarted)) == 1
