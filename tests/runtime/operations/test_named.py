"""Named operations are identified by their names, whatever their arguments. A step can report about itself."""

import itertools
from contextlib import contextmanager

import anyio
import pytest
from scenes import events, fork, opened
from watching import next_of

from supervisor import Answer, Approve, Context, InvalidInput, MemoryStore, StepContext, StepFailed, agent, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
effects: list = []
attempts = itertools.count()


@pytest.fixture(autouse=True)
def _nothing_has_run():
    effects.clear()


@tool
async def asked(name: str) -> str:
    effects.append(name)
    return name


@tool(policy="allow")
async def allowed(name: str) -> str:
    effects.append(name)
    return name


@contextmanager
def closing_all(coroutines):
    """Close the coroutines that the block does not await."""
    try:
        yield
    finally:
        for each in coroutines:
            each.close()


async def approved_after_a_crash(program) -> object:
    """Run an agent until it asks, kill its process, approve in the next one; return the result."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(program, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        return await run.result()


async def test_a_named_step_is_found_whatever_its_arguments():
    """R1: they differ in each attempt, and JSON cannot hold them."""

    @agent
    async def steps(ctx: Context) -> int:
        unlike = next(attempts)

        async def counts(what: object) -> int:
            effects.append(what)
            return unlike

        found = await ctx.named("request 1").step(counts, object())
        await ctx.call(asked, "x")
        return found - unlike

    assert await approved_after_a_crash(steps) == -1
    assert [*map(type, effects)] == [object, str]


async def test_a_named_call_waits_under_its_name_and_runs_once():
    """T1: the model's arguments are the same in each attempt, and its ids need not be."""

    @agent
    async def calls(ctx: Context) -> str:
        found = await ctx.named("call 1").call(asked, "x")
        return found.content

    assert await approved_after_a_crash(calls) == "x"
    assert effects == ["x"]


async def test_a_named_question_keeps_its_answer():
    @agent
    async def asks(ctx: Context) -> str:
        return await ctx.named("color").ask(f"Which color? ({next(attempts)})")

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(asks, session="s")
        question = await next_of(run.watch_approvals())
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(question.id, Answer(by="ana", value="red"))
        assert await run.result() == "red"
    assert len(events(killed, "s", e.QuestionAsked)) == 1


async def test_a_call_of_another_tool_under_the_same_name_is_another_operation():
    """R1: a run whose code calls another tool is blocked, and its result is not that of the first one."""
    which = [allowed, asked]

    @agent
    async def calls(ctx: Context) -> str:
        await ctx.named("call 1").call(which[0], "x")
        await ctx.call(asked, "y")
        return "done"

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(calls, session="s")
        await next_of(run.watch_approvals())
        killed = fork(store)
    which.reverse()
    async with opened(killed) as supervisor:
        await supervisor.resume("s")
        while (view := await supervisor.get_session("s")).status != "blocked":
            await anyio.sleep(1)
    assert view.status == "blocked"
    assert effects == ["x"]


@pytest.mark.parametrize("kind", ["step", "call", "ask"])
async def test_a_name_is_used_once(kind):
    """Otherwise the second operation would get the result of the first, or wait for its place."""

    async def nothing() -> None: ...

    @agent
    async def repeats(ctx: Context) -> str:
        await ctx.named("first").step(nothing)
        again = ctx.named("first")
        second = {"step": again.step(nothing), "call": again.call(allowed, "x"), "ask": again.ask("Again?")}
        with closing_all(second.values()), pytest.raises(InvalidInput, match="first"):
            await second[kind]
        await ctx.branch("other").named("first").step(nothing)
        return "done"

    async with opened() as supervisor:
        assert await (await supervisor.start(repeats)).result() == "done"
    assert effects == []


async def test_after_a_save_a_name_is_free_again():
    """A saved run forgets its operations, and an attempt that begins with the save does not know their names."""

    async def counts() -> int:
        effects.append("ran")
        return len(effects)

    @agent
    async def saves(ctx: Context) -> int:
        if ctx.saved is None:
            await ctx.named("turn").step(counts)
            await ctx.save("one")
        found = await ctx.named("turn").step(counts)
        await ctx.call(asked, "x")
        return found

    assert await approved_after_a_crash(saves) == 2
    assert effects == ["ran", "ran", "x"]


@pytest.mark.parametrize("name", ["", "a/b", "a#1", "a:b"])
async def test_a_name_is_a_word_of_an_operation_id(name):
    @agent
    async def misnames(ctx: Context) -> None:
        with pytest.raises(InvalidInput):
            ctx.named(name)

    async with opened() as supervisor:
        await (await supervisor.start(misnames)).result()


async def test_the_result_of_a_named_step_is_json():
    async def returns_an_object() -> object:
        return object()

    @agent
    async def steps(ctx: Context) -> str:
        with pytest.raises(StepFailed) as failure:
            await ctx.named("request 1").step(returns_an_object)
        return failure.value.step

    async with opened() as supervisor:
        assert await (await supervisor.start(steps)).result() == "request 1"


async def _beats(step: StepContext, seconds: float) -> str:
    for _ in range(3):
        await anyio.sleep(seconds)
        step.heartbeat()
    return step.operation


@pytest.mark.parametrize("is_named", [False, True])
async def test_the_heartbeats_of_a_step_hold_off_the_watchdog(is_named):
    """W5: and its context is no argument, so that the step is named by what it is given."""

    @agent(inactivity_timeout=10)
    async def works(ctx: Context) -> str:
        return await (ctx.named("slow") if is_named else ctx).step(_beats, 9)

    store = MemoryStore()
    async with opened(store) as supervisor:
        operation = await (await supervisor.start(works, session="s")).result()
    (done,) = events(store, "s", e.OperationFinished)
    assert operation == done.operation


async def test_a_step_without_heartbeats_stalls():
    """The cause names the step that is under way, also next to what waits."""

    @agent(inactivity_timeout=10)
    async def works(ctx: Context) -> str:
        return await ctx.step(_beats, seconds=11)

    async with opened() as supervisor:
        outcome = await (await supervisor.start(works)).outcome()
    assert outcome.kind == "stalled"
    assert outcome.cause.endswith("doing: step _beats")


async def test_a_function_in_a_task_group_gets_the_context_of_its_branch_first():
    """A function that does not take it is refused at once, and the error says so."""

    async def one(path: str, count: int) -> None: ...

    @agent
    async def works(ctx: Context) -> None:
        async with ctx.task_group() as group:
            group.start_soon(one, "a", 1)

    async with opened() as supervisor:
        outcome = await (await supervisor.start(works)).outcome()
    assert "one cannot be started" in outcome.cause
    assert "async def one(ctx: Context, ...)" in outcome.cause
