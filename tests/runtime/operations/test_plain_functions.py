"""Functions without async as tools and steps: they run in threads, apart from the event loop."""

import contextvars
import threading
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from scenes import opened

from supervisor import Context, MemoryStore, StepFailed, ToolContext, ToolFailed, agent, tool
from supervisor.core.declarations.tool_context import StepContext
from supervisor.core.errors import RunStopping
from supervisor.runtime.attempt import bodies
from supervisor.runtime.attempt.bodies import GRACE_SECONDS
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="no one")
let_go = threading.Event()
seen: list[object] = []


@pytest.fixture(autouse=True)
def fresh():
    global let_go
    let_go = threading.Event()
    seen.clear()
    yield
    let_go.set()


@tool(policy="allow")
def charge(amount: int) -> str:
    thread = threading.current_thread()
    seen.append((thread is threading.main_thread(), thread.daemon, who.get(), Path.cwd()))
    return f"charged {amount}"


@tool(policy="allow")
def refuse(context: ToolContext) -> str:
    context.heartbeat()
    raise ToolFailed(f"no: {context.session}")


def adds(context: StepContext, one: int, other: int) -> int:
    context.heartbeat()
    context.stream(f"{one + other}")
    return one + other


def fails() -> None:
    raise ValueError("no")


async def doubled(number: int) -> int:
    await checkpoint()
    return 2 * number


@tool(policy="allow", timeout=5)
def polls(context: ToolContext) -> str:
    while not context.is_cancelled:
        let_go.wait(0.001)
    return "heard"


@tool(policy="allow", timeout=5)
def stuck(context: ToolContext) -> None:
    let_go.wait()
    try:
        context.heartbeat()
    except RunStopping:
        seen.append("sealed")


async def test_a_plain_function_runs_in_a_daemon_thread_with_the_agents_context_variables():
    """Its working directory is that of the process, whatever the folder of the session is."""

    @agent
    async def shop(ctx: Context) -> list[object]:
        who.set("ana")
        failed = await ctx.call(refuse)
        return [(await ctx.call(charge, 5)).value, failed.kind, failed.content, await ctx.step(adds, 1, other=2)]

    async with opened(MemoryStore()) as supervisor:
        run = await supervisor.start(shop)
        assert await run.result() == ["charged 5", "error", f"no: {run.session}", 3]
    assert seen == [(False, True, "ana", Path.cwd())]


async def test_the_exception_of_a_plain_step_is_its_result():
    """As that of an async one."""

    @agent
    async def tries(ctx: Context) -> str:
        try:
            await ctx.step(fails)
        except StepFailed as error:
            return error.error_type
        return ""

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(tries)).result() == "ValueError"


async def test_an_awaitable_that_a_plain_function_returns_is_awaited_in_the_loop():
    """So a lambda may name a coroutine with its arguments."""

    @agent
    async def names(ctx: Context) -> int:
        return await ctx.named("twice").step(lambda: doubled(4))

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(names)).result() == 8


async def test_a_plain_tool_sees_its_deadline_and_may_end_before_it_is_left():
    """What it returns is the result of its call, which says that it came late."""

    @agent
    async def waits(ctx: Context) -> list[object]:
        result = await ctx.call(polls)
        return [result.kind, result.value, result.details["late"] < GRACE_SECONDS]

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(waits)).result() == ["ok", "heard", True]


async def test_left_threads_give_back_their_places_and_do_nothing_more(enter):
    """So others run meanwhile, although there are no more places than threads that were left."""
    enter(replaced(bodies, "MOST_THREADS", 2))

    @agent
    async def goes_on(ctx: Context) -> str:
        async with ctx.task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(_one)
        return (await ctx.call(charge, 1)).kind

    async def _one(ctx: Context) -> None:
        await ctx.call(stuck)

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(goes_on)).result() == "ok"
        assert supervisor.functions_left == 2
    let_go.set()
    while len(seen) < 3:  # the clock stands: it would not wait for threads
        await checkpoint()
    assert seen[1:] == ["sealed"] * 2


async def test_a_step_whose_thread_still_runs_is_not_begun_again():
    """R1: by no restart, which would do at the same time what must be done once after the other."""

    def charges() -> int:
        seen.append("began")
        let_go.wait()
        return len(seen)

    @agent(inactivity_timeout=1, restart="transient", max_restarts=1, restart_delay=0.1)
    async def works(ctx: Context) -> int:
        return await ctx.named("once").step(charges)

    async with opened(MemoryStore()) as supervisor:
        run = await supervisor.start(works)
        await anyio.sleep(1 + GRACE_SECONDS + 0.3)
        assert seen == ["began"]
        let_go.set()
        while supervisor.functions_left:  # the clock stands: it would not wait for the thread
            await checkpoint()
        assert await run.result() == 2
