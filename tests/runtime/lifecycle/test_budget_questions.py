"""B2, B3: the question about a budget is an approval as any other, and no operation of the run that waits for it."""

from datetime import timedelta

import anyio
import pytest
from scenes import ForkingStore, effects, events, fork, knowing_no_agents, names, opened

from supervisor import Approve, Budget, Context, Deny, MemoryStore, StepContext, Usage, agent, ask
from supervisor.channels import Channel
from supervisor.core import events as e
from supervisor.core.approvals.people import ApproverRule, People, Person
from supervisor.core.budgets import TOOL, is_aside
from supervisor.core.values import Approval
from supervisor.runtime.lifecycle.claim import LOOK_SECONDS, SILENT
from supervisor.seam.store import StoreAway

pytestmark = pytest.mark.anyio
HOUR = 3600.0


async def request(step: StepContext, who: str) -> str:
    effects.append(who)
    await anyio.sleep(1)
    step.used(Usage(model="m", input_tokens=90, output_tokens=10, usd=0.1))
    return who


@agent
async def worker(ctx: Context, times: int) -> int:
    for number in range(times):
        async with ctx.model_call():
            await ctx.step(request, f"w{number}")
    return times


@agent
async def boss(ctx: Context, workers: int) -> int:
    runs = [await ctx.spawn(worker, 4) for _ in range(workers)]
    return sum([await run.result() for run in runs])


async def asked(supervisor, count=1):
    """Wait until so many questions about budgets have been asked; return the last one."""
    found: list[Approval] = []
    with anyio.fail_after(HOUR):
        while len(found) < count:
            await anyio.sleep(1)
            found = [each for each in await supervisor.find_approvals(pending=False) if each.tool == TOOL]
    return found[-1]


async def left_at_its_question(killed_after=100.0) -> MemoryStore:
    """Return the store of a process that was killed while a tree waits for its budget: in memory, and later asleep."""
    store = MemoryStore()
    async with opened(store, passivate_after=50) as supervisor:
        await supervisor.start(boss, 2, session="s", budget=Budget(requests=3))
        await asked(supervisor)
        await anyio.sleep(killed_after)
        return fork(store)


@pytest.mark.parametrize("killed_after", [10, 100], ids=["in memory", "asleep"])
@pytest.mark.parametrize("how", ["asks", "approved", "raised"])
async def test_a_tree_that_waits_for_its_budget_is_never_silent(how, killed_after):
    """R5: neither while the question waits, nor after it was decided while no process ran the tree."""
    store = await left_at_its_question(killed_after)
    if how != "asks":
        with knowing_no_agents():
            async with opened(store) as supervisor:
                if how == "approved":
                    (question,) = await supervisor.find_approvals()
                    more = Approve(by="ann", arguments={"requests": 50})
                    assert not (await supervisor.decide(question.id, more)).running
                else:
                    await supervisor.raise_budget("s", Budget(requests=50), by="ann")
    await anyio.sleep(SILENT.total_seconds() * 2)
    async with opened(store, adopt=True) as supervisor:
        await anyio.sleep(10 * LOOK_SECONDS)
        assert store.owns("s")
        if how == "asks":
            assert len(await supervisor.find_approvals()) == 1
        else:
            assert await (await supervisor.get_run("s")).result() == 8


async def test_a_tree_whose_budget_was_raised_is_silent_again_when_it_has_gone_on():
    """R5: a raise is acted on once."""

    @agent(inactivity_timeout=1e9)
    async def wedged(ctx: Context) -> None:
        await ctx.run(worker, 2)
        await anyio.sleep_forever()

    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(wedged, session="s", budget=Budget(requests=1))
        await supervisor.decide((await asked(supervisor)).id, Approve(by="ann"))
        await anyio.sleep(100)
        left = fork(store)
        await supervisor.cancel("s")
    await anyio.sleep((SILENT + timedelta(minutes=1)).total_seconds())
    async with opened(left, adopt=True) as supervisor:
        await anyio.sleep(10 * LOOK_SECONDS)
        assert not left.owns("s")


async def test_each_sleeper_is_woken_by_an_entry_in_its_own_journal():
    """The process that claims the tree adds those that are missing: the one that decided ran nothing."""
    store = await left_at_its_question()
    sleepers = [row.id for row in store.find_sessions(is_open=True) if row.waits_for_budget]
    assert len(sleepers) == 2
    with knowing_no_agents():
        async with opened(store) as supervisor:
            (question,) = await supervisor.find_approvals()
            await supervisor.decide(question.id, Approve(by="ann", arguments={"requests": 50}))
    assert not any(events(store, session, e.BudgetAnswered) for session in sleepers)
    async with opened(store) as supervisor:
        assert await (await supervisor.resume("s")).result() == 8
    assert [len(events(store, session, e.BudgetAnswered)) for session in sleepers] == [1, 1]


class Wall(Channel):
    """Keeps what it is given to show."""

    name = "wall"

    def __init__(self) -> None:
        self.posts: list[tuple[str, str | None, bool]] = []

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    async def post(self, approval, card):
        self.posts.append((approval.tool, card, approval.reminded_at is not None))
        return "card"

    async def retire(self, approval, card):
        self.posts.append((approval.tool, card, False))


async def test_people_have_a_card_of_the_question_and_are_reminded_of_it():
    """Once, and the card is retired when an operator raises the budget."""
    wall = Wall()
    async with opened(channels=[wall], passivate_after=60, remind_after=HOUR) as supervisor:
        run = await supervisor.start(worker, 4, session="s", budget=Budget(requests=2))
        await anyio.sleep(30 * HOUR)
        assert wall.posts == [(TOOL, None, False), (TOOL, "card", True)]
        await supervisor.raise_budget("s", Budget(requests=50), by="ann")
        assert await run.result() == 4
        await anyio.sleep(10)
        assert wall.posts[2:] == [(TOOL, "card", False)]


async def test_two_people_may_have_to_raise_a_budget():
    people = People(
        [Person(name=name, roles=("approver",)) for name in ("ann", "bob")],
        [ApproverRule(approvers=("ann", "bob"), quorum=2, rule=ask(TOOL))],
    )
    async with opened(people=people) as supervisor:
        run = await supervisor.start(worker, 4, budget=Budget(requests=2), requester="rita")
        question = await asked(supervisor)
        assert (await supervisor.decide(question.id, Approve(by="ann"))).kind == "counted"
        await anyio.sleep(100)
        assert len(effects) == 2
        assert (await supervisor.decide(question.id, Approve(by="bob"))).kind == "accepted"
        assert await run.result() == 4


async def slow() -> str:
    await anyio.sleep(40)
    effects.append("slow")
    return "slow"


async def test_a_call_in_flight_goes_on_while_the_question_is_open():
    """It was let begin, and its result is journaled."""

    @agent
    async def both(ctx: Context) -> list[str]:
        async def run_slow(ctx: Context) -> None:
            effects.append(await ctx.step(slow))

        async with ctx.task_group() as tasks:
            tasks.start_soon(run_slow)
            await ctx.run(worker, 3)
        return [*effects]

    async with opened() as supervisor:
        run = await supervisor.start(both, budget=Budget(requests=2))
        question = await asked(supervisor)
        await anyio.sleep(1000)
        assert effects == ["w0", "w1", "slow", "slow"]
        await supervisor.decide(question.id, Approve(by="ann"))
        await run.result()
        assert effects[2:].count("w2") == 1


async def fail_twice(number: int) -> None:
    if number in (1, 3, 5) and effects.count(f"fails {number}") < 2:
        effects.append(f"fails {number}")
        raise ConnectionError(number)


async def test_a_save_a_restart_and_a_retry_keep_the_question_and_the_sum():
    """They read operations, and the question is none; what was spent counts on."""

    @agent(restart="transient", max_restarts=1)
    async def frail(ctx: Context) -> int:
        for number in range(ctx.saved or 0, 6):
            await ctx.step(fail_twice, number)
            async with ctx.model_call():
                await ctx.step(request, f"f{number}")
            await ctx.save(number + 1)
        return len([each for each in effects if "fails" not in each])

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(frail, session="s", budget=Budget(requests=3))
        for _ in range(2):
            assert (await run.outcome()).kind == "failed"
            run = await supervisor.retry("s")
        question = await asked(supervisor)
        assert "3 of 3 requests" in question.why
        await supervisor.decide(question.id, Approve(by="ann", arguments={"requests": 5}))
        assert (await run.outcome()).kind == "failed"
        run = await supervisor.retry("s")
        question = await asked(supervisor, 2)
        assert "5 of 5 requests" in question.why
        await supervisor.decide(question.id, Approve(by="ann"))
        assert await run.result() == 6
        assert (await supervisor.get_session("s")).usage.requests == 6
    assert names(store, "s").count("RunRestarted") == 3


async def test_a_fork_takes_neither_the_question_nor_what_was_spent():
    """Nor a raise, nor a notice: they are facts of the session that it was made of."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(worker, 6, session="s", budget=Budget(requests=2))
        await supervisor.decide((await asked(supervisor)).id, Approve(by="ann"))
        await asked(supervisor, 2)
        assert names(store, "s").count("BudgetNoticed") == 2
        with knowing_no_agents():
            made = await supervisor.fork("s", before=len(names(store, "s")), by="ann")
        copied = events(store, made.session)
        assert not [each for each in copied if is_aside(getattr(each, "operation", ""))]
        assert not {"UsageSpent", "BudgetRaised", "BudgetNoticed"} & {*names(store, made.session)}
        assert "OperationFinished" in names(store, made.session)
        assert not (await supervisor.get_session(made.session)).usage


async def test_people_are_told_once_over_restarts_too():
    store = ForkingStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(worker, 10, session="s", budget=Budget(requests=10))).result()
    for copy, _ in store.copies[1:]:
        async with opened(copy) as supervisor:
            await (await supervisor.resume("s")).outcome()
        assert len(events(copy, "s", e.BudgetNoticed)) == 1


async def test_a_budget_that_is_raised_before_it_is_used_up_asks_no_person():
    async with opened() as supervisor:
        run = await supervisor.start(worker, 6, session="s", budget=Budget(requests=3))
        await anyio.sleep(1.5)
        await supervisor.raise_budget("s", Budget(requests=6), by="ann")
        assert await run.result() == 6
        assert not await supervisor.find_approvals(pending=False)


@pytest.mark.parametrize(("configured", "holds"), [(3, 5), (8, 8), (None, 100)])
async def test_the_larger_of_the_configured_and_the_raised_limit_holds(configured, holds):
    """Whichever is later: a configuration that bounds nothing asks nothing."""
    store = MemoryStore()
    async with opened(store, budget=Budget(requests=2)) as supervisor:
        await supervisor.start(worker, 100, session="s")
        await supervisor.raise_budget("s", Budget(requests=5), by="ann")
        await asked(supervisor)
        left = fork(store)
    budget = None if configured is None else Budget(requests=configured)
    async with opened(left, budget=budget) as supervisor:
        await supervisor.resume("s")
        await anyio.sleep(1000)
        assert len(events(left, "s", e.UsageSpent)) == holds
        assert len(await supervisor.find_approvals()) == (configured is not None)


async def test_a_replay_under_a_smaller_budget_follows_and_asks_before_the_next_new_request():
    """Wherever the process died: what is in the journal waits for no budget."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(worker, 4, session="s")).result()
    for copy, _ in store.copies[1:-1]:
        spent = len(events(copy, "s", e.UsageSpent))
        effects.clear()
        async with opened(copy, budget=Budget(requests=1)) as supervisor:
            await supervisor.resume("s")
            await anyio.sleep(100)
            assert (await supervisor.get_session("s")).blocked is None
            assert len(effects) == (1 if spent == 0 else 0)
            is_over = (await supervisor.get_session("s")).outcome is not None
            assert len(await supervisor.find_approvals()) == (not is_over)


async def test_nothing_overtakes_what_waits_for_the_same_limit():
    """A small request that would fit waits after a large one that does not; one that needs another limit does not."""

    @agent
    async def crowd(ctx: Context) -> None:
        async def one(ctx: Context, tokens: int, who: str, after: float) -> None:
            await ctx.sleep(after)
            async with ctx.model_call(reserve=Usage(output_tokens=tokens)):
                await ctx.step(request, who)

        async with ctx.task_group() as tasks:
            tasks.start_soon(one, 600, "first", 0.1)
            tasks.start_soon(one, 900, "large", 0.2)
            tasks.start_soon(one, 10, "small", 0.3)

    async with opened() as supervisor:
        run = await supervisor.start(crowd, budget=Budget(tokens=1000, requests=9))
        await run.result()
        assert effects == ["first", "large", "small"]
        assert not await supervisor.find_approvals(pending=False)


async def test_a_request_reserves_as_much_as_the_largest_one_so_far():
    """So tokens are exceeded by no more than what those in flight take beyond that."""

    @agent
    async def crowd(ctx: Context) -> None:
        async def one(ctx: Context, who: str) -> None:
            async with ctx.model_call():
                await ctx.step(request, who)

        await one(ctx, "first")
        async with ctx.task_group() as tasks:
            for number in range(5):
                tasks.start_soon(one, f"{number}")

    async with opened() as supervisor:
        await supervisor.start(crowd, session="s", budget=Budget(tokens=350))
        await asked(supervisor)
        assert len(effects) == 3
        assert (await supervisor.get_session("s")).usage.tokens == 300


async def test_a_denial_of_a_sub_agents_budget_ends_that_one_alone():
    """The run whose budget it is, with all below it; its parent has the outcome."""

    @agent(budget=Budget(requests=1))
    async def frugal(ctx: Context) -> int:
        return await ctx.run(worker, 3)

    @agent
    async def parent(ctx: Context) -> list[str]:
        run = await ctx.spawn(frugal)
        other = await ctx.spawn(worker, 2)
        return [(await each.outcome()).kind for each in (run, other)]

    async with opened() as supervisor:
        run = await supervisor.start(parent)
        await supervisor.decide((await asked(supervisor)).id, Deny(by="ann"))
        assert await run.result() == ["cancelled", "succeeded"]


@pytest.mark.parametrize("options", [{}, {"unattended": "deny"}])
async def test_a_question_that_no_person_can_answer_says_what_helps(options):
    """No rule does: a larger budget."""
    async with opened(**options) as supervisor:
        run = await supervisor.start(worker, 4, budget=Budget(requests=2))
        outcome = await run.outcome()
    assert outcome.kind == "cancelled"
    assert "supervisor budget SESSION" in outcome.cause
    assert "allow(" not in outcome.cause
    assert "rules allow" not in outcome.cause


async def test_the_proposed_limits_let_go_on_what_waits():
    """The same again on top, as often as it takes for what is used and for what the first that waits reserves."""
    async with opened() as supervisor:
        await supervisor.start(worker, 4, budget=Budget(tokens=30))
        question = await asked(supervisor)
        assert (len(effects), question.arguments) == (1, {"tokens": 210})
        await supervisor.decide(question.id, Approve(by="ann"))
        assert (await asked(supervisor, 2)).arguments == {"tokens": 300}
        assert len(effects) == 2


class AwayStore(MemoryStore):
    """Does not answer some reads, as one on a server that is restarted. A transaction has a connection of its own."""

    away, is_writing = 0, False

    def begin(self):
        self.is_writing = True
        return super().begin()

    def commit(self):
        self.is_writing = False
        super().commit()

    def rollback(self):
        self.is_writing = False
        super().rollback()

    def journal(self, *args, **kwargs):
        if self.away > 0 and not self.is_writing:
            self.away -= 1
            raise StoreAway("it does not answer")
        return super().journal(*args, **kwargs)


async def test_a_server_that_is_away_while_budgets_are_looked_for_fails_no_run():
    """The parent has left memory, so that its budget is read; what is read half is not kept."""
    store = AwayStore()

    @agent
    async def sleeps(ctx: Context) -> str:
        await ctx.sleep(100)
        store.away = 5
        async with ctx.model_call():
            return await ctx.step(request, "late")

    @agent(budget=Budget(requests=1))
    async def parent(ctx: Context) -> list[str]:
        children = [await ctx.spawn(sleeps), await ctx.spawn(sleeps)]
        return [(await child.outcome()).kind for child in children]

    async with opened(store, passivate_after=10) as supervisor:
        run = await supervisor.start(parent, session="s")
        question = await asked(supervisor)
        assert store.away == 0
        await supervisor.decide(question.id, Approve(by="ana"))
        assert await run.result() == ["succeeded", "succeeded"]
