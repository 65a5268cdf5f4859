"""The journal: one way to write, shared commits, and the fate of waiting callers when the disk fails."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import anyio
import msgspec
import pytest
from scenes import FaultyStore, HeldStore, also_native, deploy, effects, events, fork, only_asyncio, opened, replayed
from watching import next_of

from supervisor import (
    Approve,
    Context,
    MemoryStore,
    SqliteStore,
    StoreDied,
    StoreRefused,
    SupervisorError,
    agent,
    open_supervisor,
    tool,
)
from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent

pytestmark = pytest.mark.anyio
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    await anyio.sleep(1)
    return name


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def waits(ctx: Context) -> str:
    return await ctx.receive()


@agent
async def works(ctx: Context, name: str) -> str:
    for n in range(3):
        await ctx.call(effect, f"{name}{n}")
    return name


@agent
async def parent(ctx: Context) -> list[str]:
    children = [await ctx.spawn(works, name) for name in "abc"]
    return [await child.result() for child in children]


def _withdrawal(supervisor, approval) -> e.ApprovalWithdrawn:
    now = supervisor._runner.clock.now()
    return e.ApprovalWithdrawn(at=now, operation=approval.operation, approval=approval.id, reason="test")


async def test_a_plan_that_raises_fails_only_its_caller():
    """A5: fifty plans are in one batch. Each that raises gets its own exception, and the others are committed."""
    results: dict[int, str] = {}
    store = MemoryStore()

    async def append(journal, n: int) -> None:
        def plan(view):
            if n % 3 == 0:
                raise LookupError(n)
            session = view.session("s")
            return [("s", e.StateSaved(at=session.facts.at, state=session.input, counts={str(n): 0}))]

        try:
            await journal.append(plan)
            results[n] = "committed"
        except LookupError as error:
            results[n] = f"raised {error.args[0]}"

    async with opened(store) as supervisor:
        run = await supervisor.start(asks, "x", session="s")
        await next_of(run.watch_approvals())
        async with anyio.create_task_group() as tasks:
            for n in range(50):
                tasks.start_soon(append, supervisor._runner.journal, n)
        assert results == {n: f"raised {n}" if n % 3 == 0 else "committed" for n in range(50)}
        saved = [int(next(iter(event.counts))) for event in events(store, "s", e.StateSaved)]
        assert sorted(saved) == [n for n in range(50) if n % 3]
        await run.cancel()


async def test_a_plan_that_is_refused_half_way_leaves_nothing():
    """A5: its first events are legal, and its last one is not. None of them is written, live or on disk."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(asks, "x", session="s")
        approval = await next_of(run.watch_approvals())
        before = [row.position for row in store.rows(0)]
        withdrawal = _withdrawal(supervisor, approval)
        with pytest.raises(IllegalEvent):
            await supervisor._runner.journal.append(lambda view: [("s", withdrawal), ("s", withdrawal)])
        assert [row.position for row in store.rows(0)] == before
        assert supervisor._runner.journal.states["s"] == replayed(store, "s")
        assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "accepted"
        assert await run.result() == "ok"


async def test_a_plan_sees_the_changes_of_earlier_plans_in_its_batch():
    """A3: ten withdrawals wait for one commit. The first one is legal, and the others are not."""
    refused = []

    async def withdraw(journal, event) -> None:
        try:
            await journal.append(lambda view: [("s", event)])
        except IllegalEvent:
            refused.append(event)

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(asks, "x", session="s")
        approval = await next_of(run.watch_approvals())
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(withdraw, supervisor._runner.journal, _withdrawal(supervisor, approval))
        assert len(refused) == 9
        assert len(events(store, "s", e.ApprovalWithdrawn)) == 1
        await run.cancel()


@pytest.mark.parametrize("nth", range(2, 20))
@pytest.mark.parametrize("step", ["write", "commit"])
async def test_a_commit_that_is_refused_suspends_the_tree_and_resuming_goes_on(nth, step):
    """A5: each commit is refused once, at either of its steps. No run of the tree fails, nothing runs twice, and the
    tree comes to its end."""

    def refuse() -> None:
        raise StoreRefused("no room")

    store = FaultyStore(nth, refuse, step)
    async with opened(store) as supervisor:
        run = await supervisor.start(parent, session="s")
        with anyio.fail_after(1000):
            while True:
                try:
                    outcome = await run.outcome()
                    break
                except SupervisorError:
                    await supervisor.resume("s")
        assert outcome.value == ["a", "b", "c"]
        calls = {name: effects.count(name) for name in effects}
        lost = [
            event
            for view in await supervisor.find_sessions()
            for event in events(store, view.id, e.ToolCallFinished)
            if event.kind != "ok"
        ]
        assert set(calls.values()) == {1}
        assert len(lost) <= 3
        for view in await supervisor.find_sessions():
            assert len(events(store, view.id, e.RunFinished)) == 1


@pytest.mark.parametrize("nth", range(3, 14))
async def test_when_the_store_dies_all_waiting_callers_are_told(nth):
    """A5: after a failed sync no state in memory is trusted. Waiters, callers and the closing program get the error."""

    def die() -> None:
        raise StoreDied("the disk failed")

    store, told = FaultyStore(nth, die), []

    async def wait_for(run) -> None:
        try:
            await run.outcome()
        except StoreDied:
            told.append(run.session)

    with pytest.raises(StoreDied):  # noqa: PT012 # what is tested is how the block is left
        async with open_supervisor(store) as supervisor:
            async with anyio.create_task_group() as tasks:
                with anyio.fail_after(1000):
                    runs = [await supervisor.start(parent, session=name) for name in ("s", "t")]
                    for run in runs:
                        tasks.start_soon(wait_for, run)
            assert told
            with pytest.raises(StoreDied):
                await supervisor.start(works, "x")
    after = fork(store)
    async with opened(after, unattended="allow") as supervisor:
        for run in await supervisor.resume_all():
            assert (await run.outcome()).kind == "succeeded"


@pytest.mark.parametrize("nth", range(1, 40))
async def test_a_scope_of_the_programs_that_is_cancelled_at_its_nth_append_loses_nothing(nth):
    """A1: cancel everywhere: the scope is cancelled in the middle of a commit, which is never given up."""
    scope = anyio.CancelScope()
    store, decided = FaultyStore(nth, scope.cancel), []
    with scope:
        async with open_supervisor(store) as supervisor:
            runs = [await supervisor.start(asks, name, session=name) for name in "xy"]
            runs.append(await supervisor.start(parent, session="s"))
            for run in runs[:2]:
                approval = await next_of(run.watch_approvals())
                decided.append(approval.id)
                await supervisor.decide(approval.id, Approve(by="ana"))
            for run in runs:
                await run.outcome()
    for view in store.find_sessions():
        assert replayed(store, view.id).is_open == (view.outcome is None)
    async with opened(store, unattended="allow") as supervisor:
        for name in "xy":
            assert await (await supervisor.start(asks, name, session=name)).result() == "ok"
        assert await (await supervisor.start(parent, session="s")).result() == ["a", "b", "c"]
        approvals = [approval.id for approval in await supervisor.find_approvals(pending=False)]
    assert len(approvals) == 2
    assert set(decided) <= set(approvals)
    assert len(effects) == len(set(effects)) == 11


@agent
async def fans_out(ctx: Context) -> int:
    async with anyio.create_task_group() as tasks:
        for n in range(100):
            tasks.start_soon(ctx.call, effect, str(n))
    return len(effects)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_many_callers_share_commits(kind, tmp_path):
    """A1: a caller that finds the writer idle commits at once, and later callers wait for one commit."""
    commits = []
    base = MemoryStore if kind == "memory" else SqliteStore

    class Counting(base):
        def commit(self) -> None:
            commits.append(None)
            super().commit()

    store = Counting() if kind == "memory" else Counting(tmp_path / "state.db")

    async with opened(store) as supervisor:
        run = await supervisor.start(fans_out)
        assert await run.result() == 100
        written = len(store.journal(run.session))
    assert written > 300
    assert len(commits) < 100


async def test_text_that_utf_8_cannot_hold_fails_one_caller_and_not_the_batch():
    """A5: the text is found before the store is called. No other caller of the batch notices."""

    @agent
    async def odd(ctx: Context) -> str:
        await ctx.save({"text": "fine"})
        return "fine"

    async with opened() as supervisor:
        runs = [await supervisor.start(odd, requester=who) for who in ("bob", "b\ud800b")]
        await supervisor.cancel((await supervisor.start(asks, "x")).session, reason="because \ud800", by="an\ud800a")
        assert [await run.result() for run in runs] == ["fine", "fine"]


@only_asyncio
@pytest.mark.parametrize("what", ["step", "send", "spawn", "cancel"])
async def test_a_native_timeout_that_comes_with_a_commit_blocks_no_later_result(what):
    """W5: the agent does not take that result, goes on, and is given the next one."""
    store = HeldStore()

    @agent
    async def times_out(ctx: Context) -> str:
        child = await ctx.spawn(waits)
        store.is_held = True
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                match what:
                    case "step":
                        await ctx.step(anyio.sleep, 0.0)
                    case "send":
                        await ctx.send("hello")
                    case "spawn":
                        await ctx.spawn(waits)
                    case _:
                        await child.cancel()
        await ctx.send("went on")
        raise LookupError

    async with opened(store) as supervisor:
        run = await supervisor.start(times_out)
        await anyio.sleep(5)
        store.is_held = False
        assert "LookupError" in str((await run.outcome()).cause)


async def test_a_state_that_a_plan_has_read_stays_in_memory_if_another_plan_fails():
    """A5: the same batch loads a tree, and refuses the second event of another plan."""
    store = HeldStore()
    async with opened(store) as supervisor:
        await supervisor.start(asks, "a", session="left")
        await supervisor.start(asks, "b", session="s")
        await anyio.sleep(1)
    async with opened(store, unattended="allow") as supervisor:
        run = await supervisor.resume("left")
        store.is_held = True
        said = e.MessageReceived(at=STARTED, message="m", text="hello", by="ana")
        halfway = [("s", said), ("s", e.RunStarted(at=STARTED, input=msgspec.Raw(b"null")))]

        async def fail() -> None:
            with pytest.raises(IllegalEvent):
                await supervisor._runner.journal.append(lambda view: halfway)

        async with anyio.create_task_group() as tasks:
            await anyio.sleep(1)
            tasks.start_soon(fail)
            await anyio.sleep(1)
            store.is_held = False
        assert await run.result() == "ok"


@also_native("how", "scope")
async def test_a_cancellation_that_comes_while_a_commit_gathers_neither_ends_the_wait_nor_is_lost(how):
    """W8: the caller goes on when its entry is on disk. A scope cancels it at its next checkpoint. A native
    cancellation comes only once, and is raised at the end of the append."""
    is_native, happened, scope, tasks = how == "native", [], anyio.CancelScope(), []

    async def say(journal) -> None:
        tasks.append(asyncio.current_task() if is_native else None)
        with scope:
            try:
                await journal.append(lambda view: [("s", e.MessageSent(at=STARTED, text="hello"))])
                happened.append("went on")
                await anyio.lowlevel.checkpoint()
            except anyio.get_cancelled_exc_class():
                happened.append(f"cancelled, {len(events(store, 's', e.MessageSent))} on disk")
                if not is_native:
                    raise
                tasks[0].uncancel()

    store = HeldStore()
    async with opened(store) as supervisor, anyio.create_task_group() as group:
        await supervisor.start(asks, "a", session="s")
        await next_of(supervisor.watch_approvals())
        store.is_held = True
        group.start_soon(say, supervisor._runner.journal)
        await anyio.sleep(1)
        tasks[0].cancel() if is_native else scope.cancel()
        await anyio.sleep(1)
        assert not happened
        store.is_held = False
        await anyio.sleep(1)
        assert happened == ["went on", "cancelled, 1 on disk"][is_native:]
        await supervisor.cancel("s")
