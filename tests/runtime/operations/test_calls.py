"""T: every call gets exactly one result of a known shape, even if its tool misbehaves."""

import anyio
import pytest
from scenes import events, fork, opened
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, ToolContext, ToolFailed, ToolResult, agent, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
HUGE = 17 * 2**20


class Odd:
    """A value that JSON cannot hold."""


@tool(policy="allow", timeout=30)
async def lasts(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "done"


@tool(policy="allow")
async def returns(what: str) -> int:
    odd = {"text": "five", "object": Odd(), "surrogate": "\ud800", "float": 1.5, "huge": "x" * HUGE}
    return odd[what]


@tool(policy="allow")
async def raises() -> None:
    raise ValueError("no such thing \ud800")


@tool(policy="allow")
async def fails_with_output(context: ToolContext) -> None:
    raise ToolFailed("half of it \ud800", exit_code=3, odd=Odd(), effect="done")


@tool(policy="allow")
async def says_all() -> ToolResult[int]:
    return ToolResult(kind="ok", content="five", value=5, details={"rows": 5})


@tool(policy="allow")
async def echoes(value: str) -> str:
    return value


@tool(policy="allow", timeout=30)
async def big(value: str) -> str:
    return value * HUGE


async def _result(tool, *args, store=None):
    """Call a tool in its own agent, and return the result, which the journal holds, too."""
    got = []

    @agent
    async def caller(ctx: Context) -> None:
        got.append(await ctx.call(tool, *args))

    async with opened(MemoryStore() if store is None else store) as supervisor:
        run = await supervisor.start(caller)
        assert (await run.outcome()).kind == "succeeded"
        (finished,) = events(supervisor.store, run.session, e.ToolCallFinished)
        assert (finished.kind, finished.content) == (got[0].kind, got[0].content)
    return got[0]


@pytest.mark.parametrize(
    ("used", "args", "reason"),
    [
        (raises, (), "exception"),
        (returns, ("text",), "invalid_result"),
        (returns, ("object",), "invalid_result"),
        (returns, ("surrogate",), "invalid_result"),
        (returns, ("float",), "invalid_result"),
        (returns, ("nothing",), "exception"),
        (big, ("x",), "too_large"),
        (fails_with_output, (), None),
    ],
)
async def test_a_call_has_one_result_that_the_journal_can_hold(used, args, reason):
    """T1: exceptions, values that do not fit JSON or the annotation, and results that are too large are errors with a
    reason."""
    result = await _result(used, *args)
    assert (result.kind, result.value, result.is_error) == ("error", None, True)
    assert result.details["reason"] == reason
    assert result.details["effect"] in ("maybe", "done")
    assert len(result.content) < 2000


async def test_a_tool_that_fails_keeps_its_output_and_details():
    """T8: `content` is its output so far, and the tool adds details."""
    result = await _result(fails_with_output)
    assert result.content.startswith("half of it")
    assert result.details["exit_code"] == 3
    assert isinstance(result.details["odd"], str)
    assert result.details["effect"] == "done"


async def test_an_ok_result_has_content_value_reason_and_effect():
    """T8: the value as annotated, `content` as text, details with reason and effect."""
    text, whole = await _result(echoes, "ünïcode"), await _result(says_all)
    assert (text.kind, text.content, text.value, text.is_error) == ("ok", "ünïcode", "ünïcode", False)
    assert dict(text.details) == {"reason": None, "effect": "done"}
    assert (whole.content, whole.value, whole.details["rows"], whole.details["effect"]) == ("five", 5, 5, "done")


@pytest.mark.parametrize(("seconds", "kind"), [(29.999, "ok"), (30.0, "ok"), (30.001, "error"), (1e9, "error")])
async def test_ending_exactly_at_the_deadline_is_no_timeout(seconds, kind):
    """T3: the deadline is hard, and a call that ends at it has ended in time."""
    started = anyio.current_time()
    result = await _result(lasts, seconds)
    assert result.kind == kind
    assert anyio.current_time() - started <= 30.5
    if kind == "error":
        assert (result.details["reason"], result.details["effect"]) == ("deadline", "maybe")


async def test_the_deadline_counts_from_the_effect_and_not_from_the_question():
    """T3: even if a person thinks for long, the call has all its time."""

    @tool(timeout=30)
    async def asked_first() -> str:
        await anyio.sleep(29)
        return "done"

    @agent
    async def waits(ctx: Context) -> str:
        return (await ctx.call(asked_first)).kind

    async with opened(passivate_after=1e9) as supervisor:
        run = await supervisor.start(waits)
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(86_400)
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"


@pytest.mark.parametrize("bad", [(Odd(),), ("\ud800",), (5,), (float("nan"),)])
async def test_arguments_that_cannot_be_journaled_raise_at_once(bad):
    """A5: the caller gets the error, and the journal has no such call."""
    told = []

    @agent
    async def careless(ctx: Context) -> None:
        try:
            await ctx.call(echoes, *bad)
        except InvalidInput as error:
            told.append(error)

    async with opened() as supervisor:
        run = await supervisor.start(careless)
        assert (await run.outcome()).kind == "succeeded"
        assert len(told) == 1
        assert events(supervisor.store, run.session, e.ToolCallRequested) == []


async def test_a_call_that_is_cancelled_while_it_runs_has_an_interrupted_result_with_its_output():
    """T1: the journal gets `interrupted`, the caller the cancellation, never a result."""
    running, got = anyio.Event(), []

    @tool(policy="allow", timeout=None)
    async def leaves_output(context: ToolContext) -> str:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            assert context.is_cancelled
            context.leave(ToolResult(kind="interrupted", content="so far", details={"rows": 2}))

    @agent
    async def caller(ctx: Context) -> None:
        got.append(await ctx.call(leaves_output))

    async with opened() as supervisor:
        run = await supervisor.start(caller)
        await running.wait()
        await run.cancel()
        assert (await run.outcome()).kind == "cancelled"
        (finished,) = events(supervisor.store, run.session, e.ToolCallFinished)
        assert (finished.kind, finished.content) == ("interrupted", "so far")
        assert b'"rows":2' in bytes(finished.details)
        assert b'"effect":"maybe"' in bytes(finished.details)
        assert got == []


@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_a_call_that_was_lost_in_a_crash_is_answered_or_runs_again_if_idempotent(is_idempotent):
    """R1, T2: a call that was executing without a result is lost. It never runs again, unless its tool is
    idempotent."""
    runs, running = [], anyio.Event()

    @tool(policy="allow", timeout=None, idempotent=is_idempotent)
    async def effect() -> str:
        runs.append("run")
        if len(runs) == 1:
            running.set()
            await anyio.sleep_forever()
        return "done"

    @agent
    async def caller(ctx: Context) -> list[str]:
        result = await ctx.call(effect)
        return [result.kind, str(result.details["reason"]), str(result.details["effect"])]

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(caller, session="s")
        await running.wait()
        killed = fork(store)
        await run.cancel()
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        expected = ["ok", "None", "done"] if is_idempotent else ["interrupted", "lost", "maybe"]
        assert await run.result() == expected
        assert len(runs) == (2 if is_idempotent else 1)
        assert len(events(killed, "s", e.ToolCallFinished)) == 1


async def test_a_tool_that_cancels_itself_fails_that_run_alone():
    """W1: a native cancellation inside a tool cancels no other run."""

    @tool(policy="allow")
    async def cancels_its_own_scope() -> str:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep(1)
        return "survived"

    result = await _result(cancels_its_own_scope)
    assert (result.kind, result.value) == ("ok", "survived")


@tool(policy="allow")
async def waits(seconds: float) -> float:
    return seconds


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
async def test_a_number_that_json_does_not_have_is_refused_by_the_name_of_its_argument(seconds):
    """It would become null, and the error would name null."""

    @agent
    async def caller(ctx: Context) -> str:
        try:
            await ctx.call(waits, seconds)
        except InvalidInput as error:
            return str(error)
        return "taken"

    async with opened() as supervisor:
        assert "seconds" in await (await supervisor.start(caller)).result()
