"""The results of an agent's operations are journaled, and a replay gets the same ones."""

from functools import partial

import anyio
import pytest
from scenes import events, fork, names, only_asyncio, opened
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, StepFailed, agent, tool
from supervisor.core import events as e
from supervisor.core.errors import Suspended

pytestmark = pytest.mark.anyio
effects: list = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    effects.clear()


@tool
async def asked(name: str) -> str:
    effects.append(name)
    return name


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


async def _doubles(number: int) -> int:
    effects.append(number)
    return number * 2


def _doubles_plainly(number: int) -> int:
    effects.append(number)
    return number * 2


async def _returns_text() -> int:
    return "five"


async def _returns_an_object() -> object:
    return object()


async def test_now_and_random_are_journaled():
    """R1: a replay gets the same instant and the same number, with their types."""
    seen = []

    @agent
    async def looks(ctx: Context) -> None:
        seen.append([await ctx.now(), await ctx.random(), await ctx.now(), await ctx.random()])
        await ctx.call(asked, "x")

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(looks, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    await anyio.sleep(1000)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert (await run.outcome()).kind == "succeeded"
    assert seen[0] == seen[1]
    assert seen[0][1] != seen[0][3]
    assert seen[0][0].tzinfo is not None


@pytest.mark.parametrize("doubles", [_doubles, _doubles_plainly])
async def test_a_step_with_a_committed_result_does_not_run_again(doubles):
    """R1: its value comes from the journal's bytes, in the first attempt, too. A function without async has run when it
    returns: it is no error, for which a restart would run it again."""

    @agent
    async def steps(ctx: Context) -> int:
        total = await ctx.step(doubles, 1) + await ctx.step(doubles, number=1) + await ctx.step(doubles, 2)
        await ctx.call(asked, "x")
        return total

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(steps, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == 8
    assert effects == [1, 1, 2, "x"]


class _Ledger:
    async def doubles(self, number: int) -> int:
        return await _doubles(number)

    async def __call__(self, number: int) -> int:
        return await _doubles(number)


async def test_a_step_of_a_partial_is_the_step_of_its_function():
    """R1: the arguments of the partial count, so a replay finds the step and tells it from another one."""

    @agent
    async def steps(ctx: Context) -> list[int]:
        found = [await ctx.step(partial(_doubles, 1)), await ctx.step(partial(partial(_doubles), number=2))]
        found.append(await ctx.step(_Ledger().doubles, 3))
        await ctx.call(asked, "x")
        return found

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(steps, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == [2, 4, 6]
    assert effects == [1, 2, 3, "x"]


@pytest.mark.parametrize("step", [_Ledger(), partial(_Ledger(), 1), lambda number: _doubles(number)])
async def test_a_step_without_a_name_is_refused(step):
    """A replay could not tell it from another one. Nothing has run."""

    @agent
    async def steps(ctx: Context) -> str:
        try:
            await ctx.step(step, 1)
        except InvalidInput:
            return "refused"
        return "taken"

    async with opened() as supervisor:
        assert await (await supervisor.start(steps)).result() == "refused"
    assert effects == []


@pytest.mark.parametrize("step", [_returns_text, _returns_an_object])
async def test_a_step_whose_result_does_not_fit_fails_in_the_same_way_in_every_attempt(step):
    """R1: a result that JSON or the annotation cannot hold is a failure of the step, which the agent sees."""

    @agent
    async def steps(ctx: Context) -> str:
        try:
            await ctx.step(step)
        except StepFailed as failure:
            await ctx.call(asked, "x")
            return failure.error_type
        return "no error"

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(steps, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "InvalidInput"


async def test_a_closure_is_no_step():
    """R1: a resumed run could not find it again."""

    @agent
    async def careless(ctx: Context) -> None:
        async def inner() -> None: ...

        with pytest.raises(InvalidInput):
            await ctx.step(inner)

    async with opened() as supervisor:
        assert (await (await supervisor.start(careless)).outcome()).kind == "succeeded"


async def test_a_resumed_agent_begins_at_its_saved_state_and_ids_keep_counting():
    """R1: completed operations are dropped by a save, and identical ones after it are new."""
    begun = []

    @agent
    async def counts(ctx: Context) -> list[int]:
        done = ctx.saved or []
        begun.append(list(done))
        while len(done) < 4:
            await ctx.call(asked, "same")
            done.append(len(done))
            await ctx.save(done)
        return done

    store = MemoryStore()
    for _ in range(4):
        async with opened(store) as supervisor:
            run = await supervisor.start(counts, session="s")
            await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
            await anyio.sleep(1)
    async with opened(store) as supervisor:
        assert await (await supervisor.start(counts, session="s")).result() == [0, 1, 2, 3]
    assert effects == ["same"] * 4
    assert [0] in begun
    assert len({event.operation for event in events(store, "s", e.ToolCallRequested)}) == 4


@pytest.mark.parametrize("at", ["before", "after"])
async def test_killed_around_a_save_nothing_is_done_twice(at):
    """R1: before the save the journal has the operations, and after it the state."""

    @agent
    async def saves(ctx: Context) -> list[str]:
        if ctx.saved is None:
            await ctx.call(effect, "first")
            if at == "after":
                await ctx.save(["first"])
        await ctx.call(asked, "second")
        return ["done"]

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(saves, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == ["done"]
    assert effects == ["first", "second"]


async def test_a_failed_run_leaves_its_saved_state_as_partial_output():
    """W9: the outcome keeps it."""

    @agent
    async def fails(ctx: Context) -> None:
        await ctx.save({"rows": 3})
        raise LookupError("no more rows")

    async with opened() as supervisor:
        outcome = await (await supervisor.start(fails)).outcome()
        assert (outcome.kind, outcome.partial) == ("failed", {"rows": 3})


@pytest.mark.parametrize("returned", [object(), "five", "\ud800", float("inf")])
async def test_an_agent_that_returns_a_value_of_the_wrong_type_has_failed(returned):
    """W9: it has one outcome, with a readable cause."""

    @agent
    async def odd(ctx: Context) -> int:
        return returned

    async with opened() as supervisor:
        outcome = await (await supervisor.start(odd)).outcome()
        assert outcome.kind == "failed"
        assert outcome.cause


async def test_an_agent_that_raises_text_that_cannot_be_written_has_failed():
    """W9: a lone surrogate in an exception's text is shown escaped."""

    @agent
    async def odd(ctx: Context) -> int:
        raise ValueError("bad \ud800 text")

    async with opened() as supervisor:
        outcome = await (await supervisor.start(odd)).outcome()
        assert outcome.kind == "failed"
        assert "bad" in outcome.cause


@pytest.mark.parametrize("name", ["", "a/b", "a#b", "a:b"])
async def test_a_branch_has_a_plain_name(name):
    """A2: a name that could make two ids equal is refused."""

    @agent
    async def careless(ctx: Context) -> None:
        with pytest.raises(InvalidInput):
            ctx.branch(name)

    async with opened() as supervisor:
        assert (await (await supervisor.start(careless)).outcome()).kind == "succeeded"


@only_asyncio
async def test_a_native_cancellation_of_a_call_neither_loses_it_nor_harms_the_store():
    """T1: asyncio's own timeouts ignore shields. The call is journaled as abandoned, and the agent goes on."""
    import asyncio

    @agent
    async def impatient(ctx: Context) -> str:
        try:
            async with asyncio.timeout(5):
                await ctx.call(asked, "x")
        except TimeoutError:
            return (await ctx.call(effect, "after")).kind
        return "no timeout"

    store = MemoryStore()
    async with opened(store, passivate_after=1e9) as supervisor:
        run = await supervisor.start(impatient, session="s")
        approval = await next_of(run.watch_approvals())
        assert await run.result() == "ok"
        assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "closed"
        assert "OperationAbandoned" in names(store, "s")
        assert effects == ["after"]


@pytest.mark.parametrize("error", [Suspended(), BaseExceptionGroup("of nothing else", [Suspended()])])
async def test_a_cancellation_or_suspension_raised_by_the_agent_fails_only_its_run(error):
    """W1: the agent raises it alone or in a group, and the supervisor goes on."""

    @agent
    async def odd(ctx: Context) -> str:
        raise error

    async with opened() as supervisor:
        for _ in range(2):
            assert (await (await supervisor.start(odd)).outcome()).kind == "failed"


async def test_an_agent_whose_scope_is_cancelled_at_every_append_goes_on():
    """T1: cancel everywhere: a call that a scope of the agent cancels at any instant has one result."""
    scopes, commits = [], []

    class Cancelling(MemoryStore):
        nth = 0

        def commit(self) -> None:
            commits.append(None)
            if len(commits) == self.nth and scopes:
                scopes[0].cancel()
            super().commit()

    @agent
    async def cut(ctx: Context) -> str:
        with anyio.CancelScope() as scope:
            scopes[:] = [scope]
            await ctx.call(effect, "inside")
            await ctx.call(asked, "inside, too")
            await ctx.sleep(1)
        scopes.clear()
        return (await ctx.call(asked, "after")).kind

    for nth in range(1, 14):
        effects.clear()
        commits.clear()
        store = Cancelling()
        store.nth = nth
        async with opened(store, unattended="allow") as supervisor:
            run = await supervisor.start(cut, session="s")
            assert await run.result() == "ok"
        assert len(effects) == len(set(effects))
        assert effects[-1] == "after"
        calls = events(store, "s", e.ToolCallRequested)
        answers = events(store, "s", (e.ToolCallFinished, e.OperationAbandoned))
        assert len([event for event in answers if event.operation.startswith("call:")]) == len(calls)
