"""Tracebacks are journaled for people, and an agent reads none of them (runtime/attempt/tracebacks.py)."""

import traceback

import anyio
import pytest
from scenes import events, opened

from supervisor import Context, MemoryStore, RunFailed, StepFailed, agent, tool
from supervisor.core import events as e
from supervisor.runtime.attempt.tracebacks import LIMIT_BYTES, traceback_of

pytestmark = pytest.mark.anyio


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("it cannot be said")


@agent
async def looks_up(ctx: Context) -> str:
    return {"a": "b"}["c"]


@agent
async def parent(ctx: Context) -> str:
    child = await ctx.spawn(looks_up)
    try:
        return await child.result()
    except RunFailed as failed:
        return f"{failed} {failed.__cause__}"


async def _leaks(password: str) -> None:
    raise RuntimeError(f"login with {password!r} refused")


@tool(policy="allow", secret=["password"])
async def login(password: str) -> None:
    await _leaks(password)


@agent
async def logs_in(ctx: Context) -> str:
    result = await ctx.call(login, password="hunter2\nsecond line")
    try:
        await ctx.step(_leaks, "hunter2\nsecond line")
    except StepFailed as failed:
        return f"{result} {failed!r} {failed.__cause__}"
    return ""


@tool(policy="allow")
async def speechless() -> None:
    raise Unspeakable


@agent
async def ends_unspeakably(ctx: Context) -> str:
    await ctx.call(speechless)
    raise Unspeakable


async def test_the_exception_of_a_run_is_journaled_with_its_lines_and_raised_for_the_program():
    """The journal's outcome names file and line. `result()` has the exception itself as its cause."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(looks_up, session="s")
        with pytest.raises(RunFailed) as caught:
            await run.result()
    told = events(store, "s", e.RunFinished)[0].traceback
    assert __file__ in told
    assert '{"a": "b"}["c"]' in told
    assert "supervisor/runtime" not in told  # our frames are folded
    assert isinstance(caught.value.__cause__, KeyError)
    assert traceback.extract_tb(caught.value.__cause__.__traceback__)[-1].name == "looks_up"


async def test_a_parent_reads_no_traceback_and_no_exception_of_its_child():
    """A replay has neither, so an agent that read them would take another path."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        told = await (await supervisor.start(parent, session="p")).result()
    assert told == "failed: KeyError: 'c' None"
    assert not hasattr(events(store, "p", e.ChildEnded)[0], "traceback")


async def test_a_failed_step_and_tool_have_tracebacks_without_known_secrets():
    """The journal's tracebacks mask secret arguments. The agent gets no traceback."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        read = await (await supervisor.start(logs_in, session="s")).result()
    of_tool, of_step = events(store, "s", e.ToolCallFinished)[0], events(store, "s", e.OperationFinished)[0]
    for told in (of_tool.traceback, of_step.traceback):
        assert "in _leaks" in told
        assert "hunter2" not in told
        assert "second line" not in told
    assert "Traceback" not in read
    assert "in _leaks" not in read


async def test_an_exception_whose_text_raises_ends_only_its_run():
    """Its `__str__` is the user's code: neither the result nor the supervisor is lost if that raises."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        outcome = await (await supervisor.start(ends_unspeakably, session="s")).outcome()
        assert outcome.kind == "failed"
        assert (await (await supervisor.start(parent)).outcome()).kind == "succeeded"
    assert events(store, "s", e.ToolCallFinished)[0].kind == "error"


def test_a_long_traceback_keeps_its_beginning_and_its_end():
    """It has at most LIMIT bytes of UTF-8, and says what is left out."""
    try:
        raise ValueError("ü" * LIMIT_BYTES + "the end")
    except ValueError as error:
        told = traceback_of(error)
    assert LIMIT_BYTES - 200 < len(told.encode()) <= LIMIT_BYTES
    assert told.startswith("Traceback")
    assert told.rstrip().endswith("the end")
    assert "left out" in told


def test_groups_causes_and_cycles_are_shown_once():
    """An exception may be its own context, and the traceback still ends."""
    first, second = ValueError("first"), KeyError("second")
    first.__context__, second.__context__ = second, first
    group = ExceptionGroup("several", [first, anyio.EndOfStream()])
    told = traceback_of(group)
    assert told.count("ValueError: first") == 1
    assert "EndOfStream" in told
