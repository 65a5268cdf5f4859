"""Slow commits run in a thread: later work waits for them, and they wait for no other thread."""

import asyncio
import threading
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import anyio
import anyio.to_thread
import pytest
from scenes import also_native, effects, events, names, only_asyncio, opened
from watching import next_of

from supervisor import Approve, Context, MemoryStore, agent, open_supervisor, tool
from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent
from supervisor.runtime.operations.reports import MOST
from supervisor.testing import slow_disk

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _every_commit_is_slow(no_commit_is_slow):
    with slow_disk():
        yield


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


async def note() -> str:
    return "noted"


@agent
async def limited(ctx: Context, seconds: tuple[float, float]) -> bool:
    """Works under a time limit, while a step is committed at the last moment."""
    limit, work = seconds

    async def beside(inner: Context) -> None:
        await anyio.sleep(9.5)
        await inner.step(note)

    async with ctx.task_group() as group:
        group.start_soon(beside)
        async with ctx.move_on_after(limit) as timer:
            await anyio.sleep(work)
    return timer.expired


@pytest.fixture
def commits_take(enter):
    """Make each commit take so many seconds of the virtual clock, for which a thread does not wait."""
    return lambda seconds: enter(slow_disk(seconds))


@pytest.mark.parametrize(("limit", "work"), [(10.0, 10.2), (10.2, 10.0), (10.0, 10.0)])
async def test_a_time_limit_that_ends_during_a_commit_ends_once(commits_take, limit, work):
    """W1: the block is cancelled or ends in time, whichever is journaled first, and never both."""
    commits_take(1)
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(limited, (limit, work), session="s")
        expired = await run.result()
    (finished,) = [each for each in events(store, "s", e.OperationFinished) if each.kind == "timer"]
    assert bytes(finished.value) == (b"true" if expired else b"false")


@agent
async def fails_once(ctx: Context) -> str:
    await ctx.sleep(5)
    if ctx.run_number < 2 and ctx.session == "retried":
        raise ValueError
    return "awake"


@only_asyncio
@pytest.mark.parametrize("act", ["resumed", "retried"])
async def test_a_tree_is_run_whose_claim_asyncio_cancels_while_it_is_committed(commits_take, act):
    """R2: the claim is on disk, and no other process would run the tree."""
    commits_take(1)
    store = MemoryStore()
    with suppress(LookupError):
        async with opened(store) as supervisor:
            await supervisor.start(fails_once, session=act)
            await anyio.sleep(3 if act == "resumed" else 30)
            raise LookupError
    async with opened(store) as supervisor:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await (supervisor.resume(act) if act == "resumed" else supervisor.retry(act))
        with anyio.fail_after(100):
            assert await (await supervisor.get_run(act)).result() == "awake"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_commit_waits_for_no_other_thread():
    """W11: tasks that wait for a decision use all worker threads, and the decision is committed."""
    decided = threading.Event()
    async with open_supervisor(MemoryStore()) as supervisor, anyio.create_task_group() as tasks:
        for _ in range(int(anyio.to_thread.current_default_thread_limiter().total_tokens)):
            tasks.start_soon(partial(anyio.to_thread.run_sync, decided.wait, 60))
        try:
            with anyio.fail_after(30):
                run = await supervisor.start(deployer, "x")
                approval = await next_of(run.watch_approvals())
                await supervisor.decide(approval.id, Approve(by="ana"))
                assert await run.result() == "ok"
        finally:
            decided.set()


@tool(policy="allow")
async def quick() -> str:
    await anyio.sleep(0.5)
    effects.append("quick")
    return "done"


@tool(policy="allow")
async def long() -> None:
    await anyio.sleep(8)


@agent
async def takes_long(ctx: Context) -> str:
    return (await ctx.call(long)).kind


@agent
async def calls_twice(ctx: Context) -> list[str]:
    return [(await ctx.call(quick)).kind for _ in range(2)]


@also_native("how", "scope", "error")
@pytest.mark.parametrize("seconds", [2, 30])
async def test_a_stop_while_executing_is_committed_cancels_no_effect(commits_take, how, seconds):
    """R8: the call ends and its result is written. If the commit takes longer than the stop, its effect never
    begins."""
    commits_take(seconds)
    store = MemoryStore()
    with suppress(LookupError, asyncio.CancelledError), anyio.CancelScope() as scope:
        async with open_supervisor(store) as supervisor:
            await supervisor.start(calls_twice, session="s")
            await anyio.sleep(seconds / 2)
            assert names(store, "s")[-1] == "AttemptStarted"
            if how == "error":
                raise LookupError
            (scope if how == "scope" else asyncio.current_task()).cancel()
            await anyio.sleep(1)
    if how == "native":
        asyncio.current_task().uncancel()
    (finished,) = events(store, "s", e.ToolCallFinished)
    assert effects == ["quick"] * (seconds == 2)
    assert (finished.kind, b'"none"' in bytes(finished.details)) == (
        ("ok", False) if effects else ("interrupted", True)
    )


async def test_a_call_that_is_approved_during_a_stop_does_not_begin(commits_take):
    """R8: it is decided, and begins after the next start, with its whole deadline."""
    commits_take(1)
    store = MemoryStore()
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            async with open_supervisor(store) as supervisor:
                run = await supervisor.start(deployer, "x", session="waits")
                await supervisor.start(takes_long, session="works")
                approval = await next_of(run.watch_approvals())
                tasks.start_soon(supervisor.decide, approval.id, Approve(by="ana"))
                scope.cancel()
    assert events(store, "waits", e.ApprovalDecided)
    assert not events(store, "waits", e.ToolCallStarted)


@agent
async def goes_on_calling(ctx: Context) -> None:
    while True:
        await ctx.call(quick)


async def test_a_stop_ends_when_the_last_call_has_its_result(commits_take):
    """R8: the writer wakes the call's task and the stop in one step. The stop ends whichever of them runs first."""
    commits_take(0.1)
    for number in range(20):
        with anyio.CancelScope() as scope:
            async with open_supervisor(MemoryStore()) as supervisor:
                await supervisor.start(goes_on_calling)
                await anyio.sleep(3 + 0.03 * number)
                stopped = anyio.current_time()
                scope.cancel()
        assert anyio.current_time() - stopped < 1.5


@agent
async def narrates(ctx: Context) -> None:
    for n in range(2 * MOST):
        await ctx.report("plan", str(n))


@agent
async def narrates_aside(ctx: Context) -> None:
    """One task reports while another one's entries are being committed."""

    async def narrate(inner: Context) -> None:
        for n in range(30):
            await inner.report("plan", str(n))
            await anyio.sleep(0.5)

    async with ctx.task_group() as group:
        group.start_soon(narrate)
        for _ in range(5):
            await ctx.call(quick)


@pytest.mark.parametrize(("spec", "count"), [(narrates, 2 * MOST), (narrates_aside, 30)])
async def test_reports_during_a_commit_are_written_with_the_next_one(commits_take, spec, count):
    """Those that the commit writes are not written again, and none is dropped with them."""
    commits_take(3)
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(spec, session="s")).result()
    assert [each.text for each in events(store, "s", e.Reported)] == [str(n) for n in range(count)]


async def test_a_report_during_a_commit_of_notes_alone_is_kept(commits_take):
    """Also if another plan of the batch, with entries of the same session, is refused half-way."""
    commits_take(3)
    store, now = MemoryStore(), datetime.now(UTC)
    legal, illegal = e.MessageSent(at=now, text="x"), e.ChildEnded(at=now, child="none", kind="failed")

    async def refused(journal) -> None:
        with pytest.raises(IllegalEvent):
            await journal.append(lambda view: [("s", legal), ("s", illegal)])

    def report(text: str) -> e.Reported:
        return e.Reported(at=now, kind="plan", text=text)

    async with opened(store) as supervisor:
        journal = supervisor._runner.journal
        run = await supervisor.start(deployer, "x", session="s")
        await next_of(run.watch_approvals())
        await anyio.sleep(30)
        await journal.note("s", lambda: report("first"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.append, lambda view: view.write_notes("s"))
            tasks.start_soon(refused, journal)
            await anyio.sleep(1)
            await journal.note("s", lambda: report("second"))
        await run.cancel()
        await run.outcome()
    assert [each.text for each in events(store, "s", e.Reported)] == ["first", "second"]
