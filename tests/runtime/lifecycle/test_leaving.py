"""Closing a supervisor: runs that can go on do so, waiting runs are passivated, and nothing is lost or withdrawn."""

import asyncio
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from scenes import LONG, HeldStore, deploy, effects, events, names, only_asyncio, opened, sessions_in_memory
from watching import next_of

from supervisor import (
    Approve,
    Budget,
    Context,
    JournalEntry,
    MemoryStore,
    SqliteStore,
    StoreDied,
    agent,
    open_supervisor,
    tool,
)
from supervisor.core import events as e
from supervisor.seam.store import StoreAway
from supervisor.testing import AutojumpLoop, replaced, slow_disk
from supervisor.wiring import app

pytestmark = pytest.mark.anyio


class Interrupted(BaseException):
    """Like KeyboardInterrupt, it is no Exception."""


@tool(policy="allow", timeout=None)
async def slow(seconds: float) -> str:
    await anyio.sleep(seconds)
    effects.append("slow")
    return "slow"


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def works(ctx: Context, seconds: float) -> str:
    kind = (await ctx.call(slow, seconds)).kind
    await ctx.call(deploy, "after")
    return kind


async def test_leaving_normally_waits_for_working_runs_and_passivates_waiting_ones():
    """W8: nothing is withdrawn, no waiting run gets an outcome, and leaving does not wait for a minute."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(works, 1000.0, session="works")
        await supervisor.start(deployer, "x", session="waits")
        left = anyio.current_time()
    assert 1000 <= anyio.current_time() - left <= 1001
    assert effects == ["slow"]
    for session in ("works", "waits"):
        assert names(store, session)[-1] == "RunPassivated"
    assert [approval.status for approval in store.find_approvals()] == ["pending"] * 2


async def test_leaving_is_as_quick_for_a_run_that_was_waiting_before():
    """W8: a wait that begins while we leave is not kept for as long as one that began before."""
    store = MemoryStore()

    @agent
    async def twice(ctx: Context) -> None:
        await ctx.call(deploy, "first")
        await ctx.call(slow, 5.0)
        await ctx.call(deploy, "second")

    async with opened(store) as supervisor:
        run = await supervisor.start(twice, session="s")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(1)
        await supervisor.decide(approval.id, Approve(by="ana"))
        await anyio.sleep(1)
        left = anyio.current_time()
    assert anyio.current_time() - left < 5
    assert names(store, "s")[-1] == "RunPassivated"


async def _thinks(ctx: Context) -> None:
    async with ctx.model_call():
        await anyio.sleep(30)


async def _gives_up(ctx: Context) -> None:
    with suppress(LookupError):
        async with ctx.move_on_after(50):
            await anyio.sleep(30)
            raise LookupError


@pytest.mark.parametrize("goes_on", [_thinks, _gives_up])
async def test_leaving_waits_for_work_next_to_an_approval_and_no_longer(goes_on):
    """W8: when a model call ends, or the block of a timer, only the wait for a person is left of the run."""

    @agent
    async def both(ctx: Context) -> None:
        async with ctx.task_group() as group:
            group.start_soon(goes_on)
            await ctx.call(deploy, "x")

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(both, session="s")
        await next_of(run.watch_approvals())
        left = anyio.current_time()
    assert anyio.current_time() - left < 40
    assert names(store, "s")[-1] == "RunPassivated"


@pytest.mark.parametrize("error", [LookupError, Interrupted, KeyboardInterrupt, SystemExit])
async def test_the_bodys_exception_leaves_bare_and_everything_can_be_resumed(error):
    """W8: it is in no group. Nothing is withdrawn, and no outcome is written."""
    store = MemoryStore()
    with pytest.raises(error) as raised:  # noqa: PT012 # what is tested is how the block is left
        async with open_supervisor(store) as supervisor:
            await supervisor.start(works, 5.0, session="works")
            await supervisor.start(deployer, "x", session="waits")
            await anyio.sleep(1)
            raise error("mine")
    assert type(raised.value) is error
    assert effects == ["slow"]
    for session in ("works", "waits"):
        assert events(store, session, (e.RunFinished, e.ApprovalWithdrawn, e.OperationAbandoned)) == []
    async with opened(store, unattended="allow") as supervisor:
        runs = await supervisor.resume_all()
        assert [await run.result() for run in runs] == ["ok", "ok"]
    assert sorted(effects) == ["after", "slow", "x"]


async def test_leaving_by_a_cancellation_stops_everything_resumably():
    """W8: the cancellation is re-raised, and nothing is withdrawn."""
    store = MemoryStore()
    with anyio.CancelScope() as scope:
        async with open_supervisor(store) as supervisor:
            await supervisor.start(deployer, "x", session="waits")
            await anyio.sleep(1)
            scope.cancel()
            await anyio.sleep(LONG)
    assert scope.cancelled_caught
    assert [approval.status for approval in store.find_approvals()] == ["pending"]
    assert events(store, "waits", e.RunFinished) == []


async def test_a_call_that_outlasts_the_shutdown_is_ended_and_its_result_says_so():
    """R8: the time is bounded. The replay gets `interrupted`, and the call does not run again."""
    store = MemoryStore()
    with pytest.raises(LookupError):  # noqa: PT012 # what is tested is how the block is left
        async with open_supervisor(store) as supervisor:
            await supervisor.start(works, 1000.0, session="s")
            await anyio.sleep(1)
            left = anyio.current_time()
            raise LookupError
    assert 10 <= anyio.current_time() - left <= 11
    (finished,) = events(store, "s", e.ToolCallFinished)
    assert finished.kind == "interrupted"
    async with opened(store, unattended="allow") as supervisor:
        run = await supervisor.resume("s")
        assert await run.result() == "interrupted"
    assert effects == ["after"]


async def test_an_agent_that_a_stop_holds_does_not_stall():
    """R8: an operation that may not begin during a graceful stop is no inactivity of its agent."""

    @agent(inactivity_timeout=1)
    async def ticks(ctx: Context) -> None:
        while True:
            await ctx.sleep(0.1)

    store = MemoryStore()
    with anyio.CancelScope() as scope:
        async with opened(store) as supervisor:
            await supervisor.start(works, 5.0, session="works")
            await supervisor.start(ticks, session="ticks")
            await anyio.sleep(1)
            scope.cancel()
    assert effects == ["slow"]
    assert not events(store, "ticks", e.RunFinished)


async def test_an_operation_in_an_agents_finally_does_nothing_during_suspension():
    """W8: the context is sealed. The clean-up is done when the run really ends."""

    @agent
    async def cleans_up(ctx: Context) -> str:
        try:
            return (await ctx.call(deploy, "x")).kind
        finally:
            with anyio.CancelScope(shield=True):
                await ctx.call(slow, 0.0)
                effects.append("clean")

    store = MemoryStore()
    with pytest.raises(LookupError):  # noqa: PT012 # what is tested is how the block is left
        async with open_supervisor(store) as supervisor:
            run = await supervisor.start(cleans_up, session="s")
            approval = await next_of(run.watch_approvals())
            raise LookupError
    assert effects == []
    async with opened(store) as supervisor:
        await supervisor.decide(approval.id, Approve(by="ana"))
        run = await supervisor.resume("s")
        assert await run.result() == "ok"
    assert effects == ["x", "slow", "clean"]


@pytest.mark.parametrize("waits_for", ["a person", "a message", "a child", "a timer", "a time limit", "nothing"])
async def test_an_agent_that_waits_inside_a_shield_does_not_delay_the_stop(waits_for):
    """R8: the time is bounded. No cancellation reaches that wait, but its operation finds the context sealed."""

    @agent
    async def shielded(ctx: Context) -> None:
        child = await ctx.spawn(deployer, "x")
        with anyio.CancelScope(shield=True):
            match waits_for:
                case "a person":
                    await ctx.call(deploy, "y")
                case "a message":
                    await ctx.receive()
                case "a child":
                    await child.outcome()
                case "a timer":
                    await ctx.sleep(LONG)
                case "a time limit":
                    async with ctx.move_on_after(LONG):
                        await ctx.ask("when?")
                case _:
                    while True:
                        await ctx.step(anyio.sleep, 1.0)

    store = MemoryStore()
    with anyio.fail_after(100), pytest.raises(LookupError):  # noqa: PT012 # what is tested is how the block is left
        async with open_supervisor(store) as supervisor:
            await supervisor.start(shielded, session="s")
            await anyio.sleep(5)
            raise LookupError
    assert events(store, "s", (e.RunFinished, e.ApprovalWithdrawn, e.OperationAbandoned)) == []


@only_asyncio
@pytest.mark.parametrize("when", ["the agent returns", "its end is committed"])
async def test_a_native_cancellation_that_comes_too_late_for_an_agent_harms_no_other_run(when):
    """W1: its run has succeeded. The supervisor goes on."""

    class Cancelling(MemoryStore):
        def write(self, rows) -> None:
            super().write(rows)
            if when == "its end is committed" and any(isinstance(row.event, e.RunFinished) for row in rows):
                asyncio.current_task().cancel()

    @agent
    async def late(ctx: Context) -> str:
        if when == "the agent returns":
            asyncio.current_task().cancel()
        return "done"

    async with opened(Cancelling()) as supervisor:
        assert await (await supervisor.start(late)).result() == "done"
        await anyio.sleep(1)
        assert await (await supervisor.start(works, 1)).result() == "ok"


@only_asyncio
async def test_a_second_native_cancellation_stops_the_executing_calls():
    """R8: it passes through the shield, and ends calls that otherwise could have finished."""
    store = MemoryStore()

    async def program() -> None:
        async with open_supervisor(store) as supervisor:
            await supervisor.start(works, 1000.0, session="works")
            await supervisor.start(deployer, "x", session="waits")
            await anyio.sleep(LONG)

    task = asyncio.create_task(program())
    for _ in range(2):
        await anyio.sleep(1)
        task.cancel()
    with anyio.fail_after(5), pytest.raises(asyncio.CancelledError):
        await task
    for session in ("works", "waits"):
        assert events(store, session, (e.RunFinished, e.ApprovalWithdrawn)) == []


@agent
async def waits_in_every_way(ctx: Context) -> list[str]:
    async def asks(inner: Context) -> None:
        await inner.ask("when?")

    async def sleeps(inner: Context) -> None:
        async with inner.move_on_after(2 * LONG):
            await inner.sleep(LONG)

    async with ctx.task_group() as group:
        group.start_soon(asks)
        group.start_soon(sleeps)
        return [await ctx.run(deployer, "below")]


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_program_whose_tasks_are_all_cancelled_at_once_by_asyncio_loses_nothing(enter, is_slow):
    """W8: a second Ctrl-C does so. The cancellation belongs to no scope, and no operation is ended, withdrawn or
    abandoned."""
    if is_slow:  # every commit is in a thread, which holds no virtual clock: so the clock is the real one
        enter(slow_disk())
        enter(replaced(app, "SHUTDOWN_TIMEOUT_SECONDS", 0.1))
    store = MemoryStore()

    async def program() -> None:
        async with open_supervisor(store) as supervisor:
            await supervisor.start(works, 1000.0, session="works")
            await supervisor.start(deployer, "x", session="waits")
            await supervisor.start(waits_in_every_way, session="tree")
            while len(store.find_approvals()) < 3 or not events(store, "works", e.ToolCallStarted):
                await anyio.sleep(0.01)
            for task in asyncio.all_tasks():
                task.cancel()
            await anyio.sleep(LONG)

    loops = None if is_slow else AutojumpLoop
    with asyncio.Runner(loop_factory=loops) as runner, pytest.raises(asyncio.CancelledError):
        runner.run(program())
    assert [approval.status for approval in store.find_approvals()] == ["pending"] * 3
    for session in store.find_sessions():
        assert events(store, session.id, (e.RunFinished, e.OperationAbandoned)) == []
    assert [each.kind for each in events(store, "works", e.ToolCallFinished)] == ["interrupted"]


async def test_an_agent_that_ends_the_process_fails_no_run():
    """W1: all runs are suspended and none fails, not even the one that raised."""

    @agent
    async def exits(ctx: Context) -> None:
        await anyio.sleep(1)
        raise Interrupted

    store = MemoryStore()
    with pytest.raises(BaseException) as raised:  # noqa: PT012 # what is tested is how the block is left
        async with open_supervisor(store) as supervisor:
            await supervisor.start(deployer, "x", session="waits")
            await supervisor.start(works, 5.0, session="works")
            await supervisor.start(exits, session="exits")
            await anyio.sleep(LONG)
    assert _leaves(raised.value) == [Interrupted]
    for session in ("waits", "works", "exits"):
        assert events(store, session, e.RunFinished) == []
    assert len(store.find_approvals()) == 1


def _leaves(error: BaseException) -> list[type[BaseException]]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [type(error)]


async def test_leaving_a_store_that_was_replaced_raises(tmp_path):
    """A5: it raises even if the replacement was not noticed before. Otherwise a session would seem to be missing."""
    path, other = tmp_path / "state.db", tmp_path / "other.db"
    async with open_supervisor(other):
        pass
    with pytest.raises(StoreDied):
        async with open_supervisor(path):
            other.rename(path)


async def test_a_run_that_does_not_end_is_named_while_the_stop_goes_on(caplog):
    """W13, R8: the log says which run, and what it does. No event loop drops a task, so leaving still waits."""

    @tool(policy="allow", timeout=None)
    async def shielding() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(100)

    @agent
    async def stubborn(ctx: Context) -> None:
        await ctx.call(shielding)

    with anyio.CancelScope() as scope:
        async with open_supervisor(MemoryStore()) as supervisor:
            await supervisor.start(stubborn, session="s")
            await anyio.sleep(1)
            left = anyio.current_time()
            scope.cancel()
    assert 98 < anyio.current_time() - left < 101
    assert [("session='s'" in line, "call shielding" in line) for line in _named(caplog)] == [(True, True)]


def _named(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("run.abandoned")]


async def test_a_command_that_waits_for_the_store_as_the_supervisor_is_left_is_committed():
    """A commit is never given up half-way: a caller that waits for one is told its result."""
    store, told = HeldStore(), []

    async def decide(supervisor, approval: str) -> None:
        told.append((await supervisor.decide(approval, Approve(by="ana"))).kind)

    async with anyio.create_task_group() as others:
        with anyio.CancelScope() as scope:
            async with opened(store, passivate_after=1.0) as supervisor:
                await supervisor.start(deployer, "x", session="s")
                await anyio.sleep(5)
                assert sessions_in_memory(supervisor) == set()
                (approval,) = store.find_approvals()
                store.is_held = True
                others.start_soon(decide, supervisor, approval.id)
                await anyio.sleep(1)
                others.start_soon(_let_go, store)
                scope.cancel()
    assert told == ["accepted"]
    assert names(store, "s")[-1] == "ApprovalDecided"


async def _let_go(store) -> None:
    await anyio.sleep(5)
    store.is_held = False


class OftenAway(MemoryStore):
    """Its server does not answer the first two times that it is asked for timers."""

    unanswered = 2

    def next_due(self):
        if self.unanswered:
            self.unanswered -= 1
            raise StoreAway("the server does not answer")
        return super().next_due()


@agent
async def sleeper(ctx: Context) -> str:
    await ctx.sleep(100)
    return "awake"


async def test_a_supervisor_that_is_left_while_its_server_is_away_waits_for_the_timers_of_its_runs():
    """It asks for them again, and ends when they have."""
    async with opened(store := OftenAway(), passivate_after=1) as supervisor:
        store.unanswered = 0
        await supervisor.start(sleeper, session="s")
        await anyio.sleep(5)
        store.unanswered = 2
    assert store.get_session("s").outcome.kind == "succeeded"


class RaisedAtTheEnd(SqliteStore):
    """Another process raises the budget of session `s` when no task of this supervisor is left."""

    runner: Any = None

    def has_changed(self) -> bool:
        if self.runner is not None and self.runner.is_closed:
            self.runner = None
            other = SqliteStore(self.path)
            other.open()
            with closing(other):
                other.begin()
                raised = e.BudgetRaised(at=datetime.now(UTC), by="bob", calls=9)
                other.write([JournalEntry(other.last_position() + 1, "s", raised)])
                other.commit()
        return super().has_changed()


async def test_entries_that_come_as_the_last_task_has_ended_are_left_to_the_next_process(tmp_path):
    """The supervisor is left as ever."""
    store = RaisedAtTheEnd(tmp_path / "state.db")
    async with opened(store) as supervisor:
        await supervisor.start(deployer, "a", session="s", budget=Budget(calls=0))
        with anyio.fail_after(100):
            while not await supervisor.find_approvals():
                await anyio.sleep(1)
        store.runner = supervisor._runner
    store.open()
    with closing(store):
        assert names(store, "s")[-1] == "BudgetRaised"
