"""B2, B3 on Temporal: a used-up budget asks a person in the workflow's own journal; prices are of activities."""

from functools import partial

import anyio
import pytest
from temporal_server import histories, namespace, working
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from supervisor import Approve, Budget, Context, Deny, StepContext, Usage, agent, tool
from supervisor.core.events import ToolCallRequested, UsageSpent
from supervisor.temporal import open_temporal
from supervisor.temporal.client import starting
from supervisor.temporal.settings import PayloadsInUtf8
from supervisor.temporal.wire import Start
from supervisor.temporal.workflow.workflows import WORKFLOWS, Offer
from supervisor.testing import replaced

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


async def unpriced(step: StepContext, number: int) -> int:
    step.used(Usage("m", input_tokens=10, output_tokens=1))
    return number


@agent
async def pricing(ctx: Context, times: int) -> int:
    for number in range(times):
        await ctx.step(unpriced, number)
    return times


async def test_a_price_is_fixed_by_the_worker_that_ran_the_request():
    """A workflow that is replayed, by a worker with other prices, asks for none: what is journaled holds. A budget in
    dollars counts it."""
    url, priced = await namespace(), [0.5]

    def prices(usage: Usage) -> float:
        asked_for.append(usage.model)
        return priced[0]

    asked_for: list[str] = []
    async with open_temporal(url) as supervisor:
        async with working(url, [pricing], prices=prices, cached=0):  # each task replays the whole history
            run = await supervisor.start(pricing, 5, session="s", budget=Budget(usd=1.0))
            question = await asked(supervisor, "s")
            assert "1.00 of 1.00 USD" in question.why
        priced[0] = 9.0
        async with working(url, [pricing], prices=prices, cached=0):
            await supervisor.decide(question.id, Approve(by="ana", arguments={"usd": 90.0}))
            assert await run.result() == 5
        assert len(asked_for) == 5
        spent = [each.event for each in await supervisor.find_entries("s") if isinstance(each.event, UsageSpent)]
        assert [each.usage.usd for each in spent] == [0.5, 0.5, 9.0, 9.0, 9.0]
        assert (await supervisor.get_session("s")).usage.usd == 28.0
    await replay(url)


@agent(approval_expires_in=4.0, budget=Budget(requests=1))
async def hasty(ctx: Context, rounds: int) -> int:
    """Works on while one of its requests waits: so its tree goes on in a new workflow with an open question."""

    async def work(branch: Context) -> None:
        for number in range(rounds):
            await branch.call(look, str(number))

    async with ctx.task_group() as tasks:
        tasks.start_soon(work)
        return await think_often(ctx, 3)


@agent(budget=Budget(requests=1))
async def moving(ctx: Context, rounds: int) -> int:
    return await hasty.fn(ctx, rounds)


@pytest.fixture
def moves_often(enter):
    """Sessions that this process starts go on in a new workflow after 40 events."""
    enter(replaced(starting, "Start", partial(Start, continue_after=40)))


async def is_moved(url: str) -> None:
    while len(await histories(url, 'WorkflowId = "s"')) < 2:
        await anyio.sleep(0.1)


async def test_an_open_question_goes_on_in_the_next_workflow(moves_often):
    """The same one, with the sum of what was spent before; when it is raised, the run goes on."""
    url = await namespace()
    async with working(url, [moving]), open_temporal(url) as supervisor:
        run = await supervisor.start(moving, 12, session="s")
        question = await asked(supervisor, "s")
        await is_moved(url)
        assert [each.id for each in await supervisor.find_approvals(limit=None)] == [question.id]
        assert (await supervisor.decide(question.id, Approve(by="ana", arguments={"requests": 2}))).kind == "accepted"
        while (second := await asked(supervisor, "s")).id == question.id:
            await anyio.sleep(0.1)
        assert (made, "2 of 2 requests" in second.why) == ([0, 1], True)
        await supervisor.decide(second.id, Approve(by="ana"))
        assert await run.result() == 3
        assert (await supervisor.get_session("s")).usage.requests == 3


@pytest.mark.parametrize("rounds", [0, 12], ids=["in its workflow", "in the next one"])
async def test_a_question_about_a_budget_expires(rounds, moves_often):
    """The run ends as cancelled; the cause says why. A timer of the next workflow expires it as well."""
    url = await namespace()
    async with working(url, [hasty]), open_temporal(url) as supervisor:
        run = await supervisor.start(hasty, rounds, session="s")
        question = await asked(supervisor, "s")
        if rounds:
            await is_moved(url)
            assert (await supervisor.get_approval(question.id)).status == "pending"
        outcome = await run.outcome()
        assert (outcome.kind, "no person has decided in time" in (outcome.cause or "")) == ("cancelled", True)
        assert (await supervisor.get_approval(question.id)).status == "expired"


async def test_a_cancel_withdraws_the_question():
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        run = await supervisor.start(thinking, 5, session="s", budget=Budget(requests=1))
        question = await asked(supervisor, "s")
        await supervisor.cancel("s", by="ana")
        assert (await run.outcome()).kind == "cancelled"
        assert (await supervisor.get_approval(question.id)).status == "withdrawn"


@agent
async def looks_once(ctx: Context, number: int) -> str:
    return (await ctx.call(look, str(number))).kind


@agent
async def has_looked(ctx: Context, times: int) -> int:
    for number in range(times):
        await ctx.run(looks_once, number)
    return times


@agent(budget=Budget(calls=20))
async def saving(ctx: Context, times: int) -> int:
    for number in range(ctx.saved or 0, times):
        await ctx.call(look, str(number))
        await ctx.save(number + 1)
    return times


@pytest.mark.parametrize(("spec", "budget"), [(has_looked, Budget(calls=20)), (saving, None)])
async def test_calls_before_a_move_count(spec, budget, moves_often):
    """Those of sub-agents that have ended, and those before a save: so their number is exact."""
    url = await namespace()
    async with working(url, [has_looked, looks_once, saving]), open_temporal(url) as supervisor:
        run = await supervisor.start(spec, 21, session="s", budget=budget)
        question = await asked(supervisor, "s")
        assert len(await histories(url, 'WorkflowId = "s"')) > 1
        entries = (await supervisor.get_tree("s", entries=None)).entries
        assert sum(isinstance(each.event, ToolCallRequested) and each.event.tool == look.name for each in entries) == 20
        await supervisor.decide(question.id, Approve(by="ana"))
        assert await run.result() == 21


async def replay(url: str) -> None:
    """Replay the history of session "s" with the agents as they are now."""
    replayer = Replayer(
        workflows=WORKFLOWS,
        interceptors=[Offer({each.name: each for each in [*AGENTS, pricing]}, 30.0)],
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
