"""A program that declares an agent runs the sessions that it decides or sends to, without a daemon (R2)."""

import pytest
from scenes import deploy, effects, knowing_no_agents, opened
from watching import next_of

from supervisor import Approve, Context, Deny, MemoryStore, agent
from supervisor.system import loading

pytestmark = pytest.mark.anyio


@agent
async def deploys(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).content


@agent
async def answers(ctx: Context, text: str) -> str:
    effects.append(text)
    return text


async def _left_waiting(store) -> str:
    """Start an agent in a program that ends. Return its approval."""
    async with opened(store) as supervisor:
        run = await supervisor.start(deploys, "prod", session="s")
        return (await next_of(run.watch_approvals())).id


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_decision_runs_the_call_where_the_agent_is_declared(kind, tmp_path):
    """The program was started again and only decides. The call runs once, and the result says that it runs."""
    store = MemoryStore() if kind == "memory" else tmp_path / "state.db"
    approval = await _left_waiting(store)
    async with opened(store) as supervisor:
        decided = await supervisor.decide(approval, Approve(by="ana"))
        assert (decided.kind, decided.running) == ("accepted", True)
        assert (await (await supervisor.get_run("s")).outcome()).value == "prod"
    assert effects == ["prod"]


async def test_the_same_decision_again_runs_a_call_that_had_not_run():
    """A program that cannot run the agent recorded the first decision."""
    store = MemoryStore()
    approval = await _left_waiting(store)
    with knowing_no_agents():
        async with opened(store) as supervisor:
            assert not (await supervisor.decide(approval, Approve(by="ana"))).running
    async with opened(store) as supervisor:
        decided = await supervisor.decide(approval, Approve(by="ana"))
        assert (decided.kind, decided.running) == ("already", True)
        assert (await (await supervisor.get_run("s")).outcome()).value == "prod"


async def test_a_program_without_the_agent_records_a_decision_and_says_that_it_does_not_run():
    """The command line is such a program: the decision counts, the view names no owner, and nothing runs."""
    store = MemoryStore()
    approval = await _left_waiting(store)
    with knowing_no_agents():
        async with opened(store) as supervisor:
            decided = await supervisor.decide(approval, Deny(by="ana"))
            assert (decided.kind, decided.running) == ("accepted", False)
            assert not (await supervisor.send("s", "hello")).running
            assert (await supervisor.get_session("s")).owner is None
    assert effects == []


async def test_an_open_session_tells_whether_a_process_runs_it():
    """It waits in both cases, and its status is the same. One that has ended does not run."""
    store = MemoryStore()
    approval = await _left_waiting(store)
    with knowing_no_agents():
        async with opened(store) as supervisor:
            left = await supervisor.get_session("s")
    async with opened(store) as supervisor:
        await supervisor.resume("s")
        found = await supervisor.get_session("s")
        assert (left.running, found.running, left.status) == (False, True, found.status)
        await supervisor.decide(approval, Deny(by="ana"))
        await (await supervisor.get_run("s")).outcome()
        assert not (await supervisor.get_session("s")).running


async def test_a_message_to_an_idle_session_begins_a_turn_that_runs_here():
    """A program that has declared the agent sends. The result says that the turn runs."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(answers, "first", session="s")).result()
    async with opened(store) as supervisor:
        assert (await supervisor.send("s", "second")).running
        assert (await (await supervisor.get_run("s")).outcome()).value == "second"
    assert effects == ["first", "second"]


def test_an_agent_is_declared_when_its_module_is_imported():
    """It is found by its module's name and by its file. A module that was not imported is not imported for it."""
    assert loading.find_declared(f"{__name__}:deploys") is deploys
    assert loading.find_declared(f"{__file__}:answers") is answers
    assert loading.find_declared(f"{__file__}:nobody") is None
    assert loading.find_declared("json.tool:main") is None
