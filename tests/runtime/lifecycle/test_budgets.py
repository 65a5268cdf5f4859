"""B2 and B3: a budget is kept, and a person is asked before more is spent."""

import sys
from collections import Counter

import anyio
import pytest
from scenes import ForkingStore, deploy, effects, events, fork, knowing_no_agents, opened

from supervisor import (
    Approve,
    Budget,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    NotEntitled,
    SessionConflict,
    StepContext,
    Usage,
    agent,
    allow,
    ask,
    deny,
    foreign_tool,
    tool,
)
from supervisor.core import events as e
from supervisor.core.approvals.people import ApproverRule, People, Person
from supervisor.core.budgets import TOOL, read_budget

pytestmark = pytest.mark.anyio


async def request(step: StepContext, number: int, who: str) -> int:
    effects.append(f"{who}{number}")
    await anyio.sleep(1)
    step.used(Usage(model="m", input_tokens=90, output_tokens=10, usd=0.1))
    return number


@agent
async def worker(ctx: Context, who: str) -> int:
    for number in range(10):
        async with ctx.model_call():
            await ctx.step(request, number, who)
    return 10


@agent
async def boss(ctx: Context, workers: int) -> int:
    runs = [await ctx.spawn(worker, f"w{number}") for number in range(workers)]
    return sum([await run.result() for run in runs])


async def asked(supervisor, count=1):
    """Wait until so many questions about budgets have been asked; return the pending ones."""
    while True:
        found = [each for each in await supervisor.find_approvals(pending=False) if each.tool == TOOL]
        if len(found) >= count:
            return [each for each in found if each.status == "pending"]
        await anyio.sleep(1)


async def test_requests_are_exact_and_one_question_is_asked():
    """However many runs reach the limit at once. What waits leaves memory, and all of it goes on."""
    store = MemoryStore()
    async with opened(store, passivate_after=5) as supervisor:
        run = await supervisor.start(boss, 5, session="s", budget=Budget(requests=12))
        (question,) = await asked(supervisor)
        await anyio.sleep(1000)
        assert len(effects) == 12
        assert question.arguments == {"requests": 24}
        assert "12 of 12 requests" in question.why
        assert "worker, m: 1.20 USD" in question.note
        assert not [row.id for row in store.find_sessions(is_awake=True)]
        await supervisor.decide(question.id, Approve(by="ann", arguments={"requests": 100}))
        assert await run.result() == 50
        assert len(effects) == 50
    assert [each.by for each in events(store, "s", e.BudgetRaised)] == ["ann"]


async def test_a_denial_ends_the_run_and_says_why():
    """With everything below it, as a cancel does."""
    async with opened() as supervisor:
        run = await supervisor.start(boss, 2, budget=Budget(requests=3))
        (question,) = await asked(supervisor)
        await supervisor.decide(question.id, Deny(by="ann", reason="that is enough"))
        outcome = await run.outcome()
        assert outcome.kind == "cancelled"
        assert outcome.cause == (
            "cancelled by ann: the budget of the tree of boss is used up (3 of 3 requests): that is enough"
        )
        assert {each.outcome["kind"] for each in await supervisor.find_sessions()} == {"cancelled"}


async def test_a_budget_may_end_the_run_without_a_person():
    async with opened() as supervisor:
        run = await supervisor.start(boss, 2, budget=Budget(usd=0.5, on_exhausted="end"))
        outcome = await run.outcome()
        assert outcome.kind == "cancelled"
        assert "0.50 of 0.50 USD" in outcome.cause
        assert not await supervisor.find_approvals(pending=False)


async def test_decision_raise_and_result_are_one_append():
    """So no crash separates them: in each state on disk there are all of them, or none."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(boss, 2, session="s", budget=Budget(requests=3))
        (question,) = await asked(supervisor)
        await supervisor.decide(question.id, Approve(by="ann", arguments={"requests": 50}))
        await run.result()
    for copy, _ in store.copies:
        decided = events(copy, "s", e.ApprovalDecided)
        assert len(decided) == len(events(copy, "s", e.BudgetRaised)) == len(events(copy, "s", e.ToolCallFinished))


async def test_wherever_the_process_dies_one_question_is_asked_and_the_sum_is_kept():
    """A later process finds the question, or asks it; it makes no request more than the budget allows."""
    store = ForkingStore(lambda: len(effects))
    async with opened(store) as supervisor:
        await supervisor.start(boss, 2, session="s", budget=Budget(requests=4))
        await asked(supervisor)
    for copy, _ in store.copies[1:]:
        counted = len(events_below(copy))
        effects.clear()
        async with opened(copy) as supervisor:
            await supervisor.resume("s")
            await asked(supervisor)
            await anyio.sleep(100)
            assert len(await supervisor.find_approvals()) == 1
        assert counted + len(effects) == 4


def events_below(store):
    return [each for row in store.find_sessions() for each in events(store, row.id, e.UsageSpent)]


async def test_a_replay_without_a_budget_follows():
    """An agent's path does not depend on its budget: the question is no operation of it."""
    store = ForkingStore()
    async with opened(store, passivate_after=2) as supervisor:
        run = await supervisor.start(bounded, session="s")
        (question,) = await asked(supervisor)
        await supervisor.decide(question.id, Approve(by="ann"))
        assert await run.result() == 10
    bounded.budget, kept = None, bounded.budget
    try:
        for copy, _ in store.copies[1:]:
            async with opened(copy) as supervisor:
                assert await (await supervisor.resume("s")).result() == 10
                assert (await supervisor.get_session("s")).blocked is None
    finally:
        bounded.budget = kept


@agent(budget=Budget(requests=6))
async def bounded(ctx: Context) -> int:
    return await ctx.run(worker, "w")


async def test_a_run_that_sleeps_is_woken_by_a_decision_of_another_process():
    """Also if no process ran the tree when it was made."""
    store = MemoryStore()
    async with opened(store, passivate_after=2) as supervisor:
        await supervisor.start(boss, 2, session="s", budget=Budget(requests=5))
        await asked(supervisor)
        await anyio.sleep(100)
    left = fork(store)
    with knowing_no_agents():
        async with opened(left) as supervisor:
            (question,) = await supervisor.find_approvals()
            decided = await supervisor.decide(question.id, Approve(by="ann", arguments={"requests": 50}))
            assert not decided.running
    async with opened(left) as supervisor:
        assert await (await supervisor.resume("s")).result() == 20


@agent(budget=Budget(requests=3))
async def frugal(ctx: Context, who: str) -> int:
    for number in range(5):
        async with ctx.model_call():
            await ctx.step(request, number, who)
    return 5


@agent
async def mixed(ctx: Context) -> list[int]:
    runs = [await ctx.spawn(frugal, "f"), await ctx.spawn(worker, "w")]
    return [await run.result() for run in runs]


async def test_a_sub_agents_budget_is_part_of_its_parents():
    """Its question is its own, and holds no other one up; and it widens nothing."""
    async with opened() as supervisor:
        run = await supervisor.start(mixed, budget=Budget(requests=14))
        (inner,) = await asked(supervisor)
        assert inner.path == ("mixed", "frugal")
        await anyio.sleep(100)
        assert len(effects) == 13
        await supervisor.decide(inner.id, Approve(by="ann"))
        (outer,) = await asked(supervisor, 2)
        assert outer.path == ("mixed",)
        assert len(effects) == 14
        await supervisor.decide(outer.id, Approve(by="ann"))
        assert await run.result() == [5, 10]


async def test_the_outermost_budget_that_is_used_up_is_asked_about_first():
    async with opened() as supervisor:
        await supervisor.start(mixed, budget=Budget(requests=0))
        (question,) = await asked(supervisor)
        await anyio.sleep(100)
        assert [each.path for each in await supervisor.find_approvals()] == [("mixed",)]
        assert question.path == ("mixed",)


@agent
async def caller(ctx: Context) -> list[str]:
    results = []
    for target in ("a", "b", "c"):
        results.append((await ctx.call(deploy, target)).kind)  # noqa: PERF401 # one after the other
    return results


async def test_calls_are_exact_and_no_approved_call_waits():
    """A call is asked about after the budget has let it be journaled; then it runs, whatever else is used up."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(caller, session="s", budget=Budget(calls=2))
        for _ in range(2):
            await anyio.sleep(10)
            (call,) = await supervisor.find_approvals()
            assert call.tool == "deploy"
            await supervisor.decide(call.id, Approve(by="ann"))
        (question,) = await asked(supervisor)
        assert effects == ["a", "b"]
        requested = [each.tool for each in events(store, "s", e.ToolCallRequested)]
        assert requested == ["deploy", "deploy", TOOL]
        await supervisor.decide(question.id, Approve(by="ann"))
        await anyio.sleep(10)
        (call,) = await supervisor.find_approvals()
        await supervisor.decide(call.id, Approve(by="ann"))
        assert await run.result() == ["ok", "ok", "ok"]


async def test_a_request_waits_for_what_is_in_flight_before_a_person_is_asked():
    """It may turn out to be enough: a reservation is more than what is used in the end."""

    @agent
    async def careful(ctx: Context) -> None:
        async def one(ctx: Context, number: int) -> None:
            async with ctx.model_call(reserve=Usage(output_tokens=600)):
                await ctx.step(request, number, "c")

        async with ctx.task_group() as tasks:
            tasks.start_soon(one, 1)
            tasks.start_soon(one, 2)

    async with opened() as supervisor:
        run = await supervisor.start(careful, budget=Budget(tokens=1000))
        await anyio.sleep(0.5)
        assert len(effects) == 1
        await run.result()
        assert len(effects) == 2
        assert not await supervisor.find_approvals(pending=False)


async def test_people_are_told_once_at_four_fifths():
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(boss, 1, session="s", budget=Budget(requests=10))
        await run.result()
    (noticed,) = events(store, "s", e.BudgetNoticed)
    assert noticed.text == "the budget of the tree of boss: 8 of 10 requests used"


async def test_people_are_told_that_a_price_is_not_known():
    """A budget in dollars cannot count it, and says so."""

    @agent
    async def unknown(ctx: Context) -> None:
        for _ in range(3):
            await ctx.used(Usage(model="unheard-of"))

    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(unknown, session="s", budget=Budget(usd=5))).result()
    assert not events(store, "s", e.BudgetNoticed)  # no request was bounded, so no budget was looked at


async def test_a_question_says_what_is_not_in_its_sums():
    """Dollars do not count requests of unknown price: who raises a budget is told how many they are."""

    @agent
    async def partly(ctx: Context) -> None:
        for _ in range(3):
            async with ctx.model_call():
                await ctx.used(Usage(model="unheard-of"))
        async with ctx.model_call():
            await ctx.used(Usage(model="m", usd=4.1))
        async with ctx.model_call():
            pass

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(partly, session="s", budget=Budget(usd=5))
        (question,) = await asked(supervisor)
        assert "(4.10 of 5.00 USD and 3 requests of unknown price)" in question.why
        assert str((await supervisor.get_session("s")).usage) == "4.10 USD and 3 requests of unknown price"
        await supervisor.decide(question.id, Deny(by="ann"))
        assert "4.10 of 5.00 USD and 3 requests of unknown price" in (await run.outcome()).cause
        assert [part.spent.unpriced for part in (await supervisor.get_usage("s", by="model")).parts] == [0, 3]


async def test_an_operator_raises_a_budget_and_its_question_ends():
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(boss, 1, session="s", budget=Budget(requests=3))
        (question,) = await asked(supervisor)
        await supervisor.raise_budget("s", Budget(requests=50), by="ann")
        assert await run.result() == 10
        assert (await supervisor.get_approval(question.id)).status == "withdrawn"
        with pytest.raises(InvalidInput, match="name a limit"):
            await supervisor.raise_budget("s", Budget(), by="ann")


async def test_a_lower_limit_changes_nothing():
    async with opened() as supervisor:
        run = await supervisor.start(boss, 1, session="s", budget=Budget(requests=10))
        await supervisor.raise_budget("s", Budget(requests=1), by="ann")
        assert await run.result() == 10


@pytest.mark.parametrize("make", [allow, deny])
async def test_no_rule_covers_a_budget(make):
    """An `ask` only says who may decide it."""
    with pytest.raises(InvalidInput, match="no rule covers"):
        make(TOOL)
    assert ask(TOOL).tool == TOOL


@pytest.mark.parametrize("make", [tool, lambda fn, name: foreign_tool(name, fn)])
async def test_no_tool_has_the_name_of_the_question(make):
    async def fn(arguments):
        return arguments

    with pytest.raises(ValueError, match="stands for questions about budgets"):
        make(fn, name=TOOL) if make is not tool else tool(name=TOOL)(fn)


async def test_a_raise_may_be_reserved_for_a_person():
    """Edited amounts as well; and no approver without that role raises it by a command."""
    people = People(
        [Person(name="ann", roles=("approver",)), Person(name="bob", roles=("approver",))],
        [ApproverRule(approvers=("ann",), rule=ask(TOOL))],
    )
    async with opened() as supervisor:
        supervisor.people = people
        run = await supervisor.start(boss, 1, session="s", budget=Budget(requests=3))
        (question,) = await asked(supervisor)
        for arguments in (None, {"requests": 50}):
            with pytest.raises(NotEntitled):
                await supervisor.decide(question.id, Approve(by="bob", arguments=arguments))
        with pytest.raises(NotEntitled):
            await supervisor.raise_budget("s", Budget(requests=50), by="bob")
        await supervisor.decide(question.id, Approve(by="ann", arguments={"requests": 50}))
        assert await run.result() == 10


async def test_unattended_allows_no_raise():
    """What no rule covers, no option does either: a person decides it."""
    async with opened(unattended="allow") as supervisor:
        await supervisor.start(boss, 1, budget=Budget(requests=3))
        (question,) = await asked(supervisor)
        await anyio.sleep(100)
        assert (await supervisor.get_approval(question.id)).status == "pending"
        assert len(effects) == 3


async def test_a_question_expires_as_its_agents_approvals_do():
    @agent(approval_expires_in=60, budget=Budget(requests=2))
    async def hasty(ctx: Context) -> int:
        return await ctx.run(worker, "h")

    async with opened() as supervisor:
        run = await supervisor.start(hasty)
        await asked(supervisor)
        outcome = await run.outcome()
        assert outcome.kind == "cancelled"
        assert "no person has decided in time" in outcome.cause


async def test_the_budget_of_a_start_holds_over_all_turns_and_that_of_an_agent_for_each_run():
    @agent(budget=Budget(requests=3))
    async def talker(ctx: Context, text: str) -> str:
        for number in range(2):
            async with ctx.model_call():
                await ctx.step(request, number, text)
        return text

    async with opened() as supervisor:
        run = await supervisor.start(talker, "one", session="s", budget=Budget(requests=5))
        await run.result()
        await supervisor.send("s", "two", by="ann")
        await (await supervisor.get_run("s", number=2)).result()
        assert not await supervisor.find_approvals(pending=False)
        await supervisor.send("s", "three", by="ann")
        (question,) = await asked(supervisor)
        assert "the tree of talker" in question.why
        assert len(effects) == 5


@agent
async def reader(ctx: Context, text: str) -> list[str]:
    async with ctx.model_call():
        await ctx.step(request, 0, text)
    return [message.text for message in ctx.transcript()]


async def test_people_see_the_question_in_the_transcript_and_the_agent_does_not():
    """So no agent's path depends on it."""
    async with opened() as supervisor:
        run = await supervisor.start(reader, "one", session="s", budget=Budget(requests=0))
        (question,) = await asked(supervisor)
        await supervisor.decide(question.id, Approve(by="ann", arguments={"requests": 10}))
        assert await run.result() == []
        await supervisor.send("s", "two", by="ann")
        assert await (await supervisor.get_run("s")).result() == ["one"]
        assert [each.approval for each in await supervisor.get_transcript("s") if each.kind == "approval"] == [
            question.id
        ]


async def test_the_same_start_with_another_budget_is_a_conflict():
    async with opened() as supervisor:
        await (await supervisor.start(boss, 1, session="s", budget=Budget(requests=50))).result()
        await supervisor.start(boss, 1, session="s")
        with pytest.raises(SessionConflict, match="another budget"):
            await supervisor.start(boss, 1, session="s", budget=Budget(requests=60))


async def test_a_request_that_says_nothing_counts_as_one_of_unknown_tokens():
    """So the number of requests is exact, whatever their agents say."""

    async def silent() -> None:
        effects.append("asked")

    @agent(budget=Budget(requests=2))
    async def quiet(ctx: Context) -> None:
        for number in range(5):
            async with ctx.model_call():
                await ctx.named(f"request {number}").step(silent)

    async with opened() as supervisor:
        run = await supervisor.start(quiet)
        (question,) = await asked(supervisor)
        assert len(effects) == 2
        usage = (await supervisor.get_session(run.session)).usage
        assert (usage.requests, usage.uncounted) == (2, 2)
        assert "unknown model" in question.note


async def test_the_first_step_that_may_spend_waits_outside_of_a_model_call_too():
    """However many begin at once. A step that cannot say that it spends waits for no budget."""

    @agent
    async def loose(ctx: Context, who: str) -> int:
        return await ctx.step(request, await ctx.step(plain, 1), who)

    @agent
    async def crowd(ctx: Context) -> None:
        for run in [await ctx.spawn(loose, f"w{number}") for number in range(5)]:
            await run.result()

    async with opened() as supervisor:
        run = await supervisor.start(crowd, budget=Budget(requests=2))
        (question,) = await asked(supervisor)
        await anyio.sleep(100)
        assert (effects.count("plain"), len(effects)) == (5, 7)
        await supervisor.decide(question.id, Approve(by="ann"))
        (more,) = await asked(supervisor, 2)
        await supervisor.decide(more.id, Approve(by="ann"))
        await run.result()
        assert len(effects) == 10


def plain(number: int) -> int:
    effects.append("plain")
    return number


async def test_a_default_budget_bounds_each_tree_that_was_started_without_one():
    async with opened(budget=Budget(requests=2)) as supervisor:
        await supervisor.start(boss, 1)
        (question,) = await asked(supervisor)
        assert question.arguments == {"requests": 4}


async def test_a_larger_budget_in_the_configuration_withdraws_the_question():
    """It is looked at when a process claims the tree."""
    store = MemoryStore()
    async with opened(store, budget=Budget(requests=2), passivate_after=2) as supervisor:
        await supervisor.start(boss, 1, session="s")
        await asked(supervisor)
        await anyio.sleep(100)
    async with opened(fork(store), budget=Budget(requests=20)) as supervisor:
        assert await (await supervisor.resume("s")).result() == 10
        assert [each.status for each in await supervisor.find_approvals(pending=False)] == ["withdrawn"]


@pytest.mark.parametrize("on_exhausted", ["ask", "end"])
async def test_a_clean_up_that_waits_for_a_budget_goes_on_when_its_run_is_told_to_stop(on_exhausted):
    """B2: it is held up by none, also if it had begun to wait before."""

    @agent
    async def cleans(ctx: Context) -> None:
        await ctx.call(quick, 1)
        with anyio.CancelScope(shield=True):
            effects.append((await ctx.call(quick, 2)).kind)

    async with opened() as supervisor:
        run = await supervisor.start(cleans, budget=Budget(calls=1, on_exhausted=on_exhausted))
        if on_exhausted == "ask":
            await asked(supervisor)
            await run.cancel()
        assert (await run.outcome()).kind == "cancelled"
        assert effects[-1] == "ok"


async def test_a_cancel_withdraws_the_question():
    async with opened() as supervisor:
        run = await supervisor.start(boss, 1, budget=Budget(requests=2))
        (question,) = await asked(supervisor)
        await supervisor.cancel(run.session, by="ann")
        assert (await run.outcome()).kind == "cancelled"
        assert (await supervisor.get_approval(question.id)).status == "withdrawn"


@pytest.mark.parametrize("text", ["", "usd", "usd=x", "usd=1,usd=2", "dollars=1", "requests=1.5", "on_exhausted=end"])
async def test_a_text_that_is_no_budget_is_refused(text):
    with pytest.raises(InvalidInput):
        read_budget(text)
    assert read_budget("usd=5, requests=200,on_exhausted=end") == Budget(usd=5, requests=200, on_exhausted="end")


async def test_a_call_without_a_budget_costs_what_it_did():
    """Of the code about budgets, a step and a call ask a few times whether a budget is there, however many ran before,
    and whatever else is bounded in the process."""
    counted: Counter[str] = Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_filename.endswith(("/budgets.py", "/reservations.py", "/asides.py")):
            counted[frame.f_code.co_name] += 1

    @agent
    async def free(ctx: Context, times: int) -> None:
        for number in range(times):
            await ctx.call(quick, number)
            await ctx.step(plain, number)

    async with opened() as supervisor:
        costs = []
        for times in (0, 5, 10):
            counted.clear()
            before = sys.getprofile()
            sys.setprofile(count)
            try:
                await (await supervisor.start(free, times)).result()
            finally:
                sys.setprofile(before)
            costs.append(counted.total())
    first, then = costs[1] - costs[0], costs[2] - costs[1]
    assert then <= first <= then + 5, counted  # what bounds the run is looked for once
    assert then <= 5 * 5, counted


@tool(policy="allow")
async def quick(number: int) -> int:
    return number
