"""Commits that take long, in a thread: what happens meanwhile waits for them, and they wait for nobody."""

import threading
from functools import partial

import anyio
import anyio.to_thread
import pytest
from scenes import events, opened

from supervisor import Approve, Context, MemoryStore, agent, open_supervisor, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _every_commit_is_slow(monkeypatch):
    monkeypatch.setattr("supervisor.runtime.journal.SLOW_COMMIT", 0.0)


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
    """Works with a limit, for so long; beside it a step is committed at the last moment."""
    limit, work = seconds

    async def beside(inner: Context) -> None:
        await anyio.sleep(9.5)
        await inner.step(note)

    async with ctx.task_group() as group:
        group.start_soon(beside)
        async with ctx.move_on_after(limit) as timer:
            await anyio.sleep(work)
    return timer.expired


@pytest.mark.parametrize(("limit", "work"), [(10.0, 10.2), (10.2, 10.0), (10.0, 10.0)])
async def test_a_time_limit_that_ends_during_a_commit_ends_once(monkeypatch, limit, work):
    """W1: cut off or left in time, whichever is journaled first, and never both."""

    async def slowly(commit) -> None:  # a thread does not hold the virtual clock
        await anyio.sleep(1)
        commit()

    monkeypatch.setattr("supervisor.runtime.journal.in_thread", slowly)
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(limited, (limit, work), session="s")
        expired = await run.result()
    (finished,) = [each for each in events(store, "s", e.OperationFinished) if each.kind == "timer"]
    assert bytes(finished.value) == (b"true" if expired else b"false")


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_commit_waits_for_no_thread_of_anybody_else():
    """W11: all worker threads are taken by what waits for somebody's decision, and the decision is committed."""
    decided = threading.Event()
    async with open_supervisor(MemoryStore()) as supervisor, anyio.create_task_group() as tasks:
        for _ in range(int(anyio.to_thread.current_default_thread_limiter().total_tokens)):
            tasks.start_soon(partial(anyio.to_thread.run_sync, decided.wait, 60))
        try:
            with anyio.fail_after(30):
                run = await supervisor.start(deployer, "x")
                approval = await anext(run.approvals())
                await supervisor.decide(approval.id, Approve(by="ana"))
                assert await run.result() == "ok"
        finally:
            decided.set()
