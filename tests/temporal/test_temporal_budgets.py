"""B2, B3 on Temporal: a used-up budget asks a person in the workflow's own journal; prices are of activities."""

import anyio
import pytest
from temporal_server import histories, namespace, working
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from supervisor import Approve, Budget, Context, Deny, StepContext, Usage, agent, tool
from supervisor.temporal import open_temporal
from supervisor.temporal.settings import PayloadsInUtf8
from supervisor.temporal.workflow.workflows import WORKFLOWS, Offer

pytestmark = pytest.mark.anyio
made: list[int] = []


async def think(step: StepContext, number: int) -> int:
    made.append(number)
    step.used(Usage("m", input_tokens=10, output_tokens=1, usd=0.5))
    return number


@tool(policy="allow")
async def look(what: str) -> str:
    return what


async def think_often(ctx: Context, times: int) -> int:
    for number in range(times):
        await ctx.step(think, number)
    return times


@agent
async def thinking(ctx: Context, times: int) -> int:
    return await think_often(ctx, times)


@agent
async def modelling(ctx: Context, times: int) -> int:
    for number in range(times):
        async with ctx.model_call():
            await ctx.step(think, number)
    return times


@agent(budget=Budget(requests=2))
async def bounded_child(ctx: Context, times: int) -> int:
    return await think_often(ctx, times)


@agent
async def parent(ctx: Context, times: int) -> int:
    return await ctx.run(bounded_child, times)


@agent
async def calling(ctx: Context, times: int) -> int:
    for number in range(times):
        await ctx.call(look, str(number))
    return times


AGENTS = [thinking, modelling, parent, bounded_child, calling]


@pytest.fixture(autouse=True)
async def bounded():
    made.clear()
    with anyio.fail_after(120):
        yield


async def asked(supervisor, session: str):
    while True:
        for each in await supervisor.find_approvals(limit=None):
            if each.session == session and each.tool == "supervisor.budget":
                return each
        await anyio.sleep(0.05)


@pytest.mark.parametrize("spec", [thinking, modelling])
async def test_a_used_up_budget_asks_once_and_goes_on_when_it_is_raised(spec):
    """With what was spent; the person may edit the amount."""
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        run = await supervisor.start(spec, 5, session="s", budget=Budget(requests=2))
        first = await asked(supervisor, "s")
        assert (made, first.arguments) == ([0, 1], {"requests": 4})
        assert (await supervisor.decide(first.id, Approve(by="ana", arguments={"requests": 3}))).kind == "accepted"
        second = await asked(supervisor, "s")
        assert (second.id != first.id, len(made)) == (True, 3)
        await supervisor.decide(second.id, Approve(by="ana"))
        assert await run.result() == 5
        assert (await supervisor.get_session("s")).usage.requests == 5


async def test_denied_it_ends_the_run_and_the_cause_names_all():
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        run = await supervisor.start(thinking, 5, session="s", budget=Budget(usd=1.0))
        first = await asked(supervisor, "s")
        await supervisor.decide(first.id, Deny(by="ana", reason="enough"))
        outcome = await run.outcome()
        assert outcome.kind == "cancelled"
        assert all(word in (outcome.cause or "") for word in ("budget", "1.00", "ana", "enough"))


async def test_raised_by_an_operator_it_goes_on():
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        run = await supervisor.start(calling, 3, session="s", budget=Budget(calls=1))
        await asked(supervisor, "s")
        await supervisor.raise_budget("s", Budget(calls=9), by="ana")
        assert await run.result() == 3


async def test_a_sub_agents_budget_asks_in_its_session():
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        run = await supervisor.start(parent, 3, session="s")
        while not (found := list(await supervisor.find_approvals(limit=None))):
            await anyio.sleep(0.05)
        assert (found[0].tool, found[0].session != "s") == ("supervisor.budget", True)
        await supervisor.decide(found[0].id, Approve(by="ana"))
        assert await run.result() == 3


async def replay(url: str) -> None:
    """Replay the history of session "s" with the agents as they are now."""
    replayer = Replayer(
        workflows=WORKFLOWS,
        interceptors=[Offer({each.name: each for each in AGENTS}, 30.0)],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=DataConverter(payload_converter_class=PayloadsInUtf8),
    )
    (history,) = (await histories(url, 'WorkflowId = "s"')).values()
    await replayer.replay_workflow(WorkflowHistory.from_json("s", history))


async def test_a_run_goes_on_as_it_began_when_its_code_gets_a_budget(monkeypatch):
    """What began without one is bound by none; a history with one says so, and replays."""
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        await (await supervisor.start(thinking, 3, session="s")).result()
    monkeypatch.setattr(thinking, "budget", Budget(requests=1))
    await replay(url)
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        run = await supervisor.start(thinking, 2, session="s")
        await supervisor.decide((await asked(supervisor, "s")).id, Approve(by="ana"))
        assert await run.result() == 2
    await replay(url)
    monkeypatch.undo()
    with pytest.raises(Exception, match="TMPRL1100"):
        await replay(url)
