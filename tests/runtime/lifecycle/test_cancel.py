"""W8: a cancel ends a session and all sessions below it, once and finally."""

from functools import partial

import anyio
import pytest
from scenes import ForkingStore, HeldStore, deploy, effects, events, fork, opened, sessions_in_memory
from watching import next_of

from supervisor import Approve, Context, MemoryStore, NotFound, RunStopping, agent, tool
from supervisor.core import events as e
from supervisor.runtime.attempt.host import StopReason
from supervisor.runtime.plans.end import Ending
from supervisor.testing import wrapped

pytestmark = pytest.mark.anyio


@tool(policy="allow", timeout=None)
async def slow(name: str, seconds: float) -> str:
    await anyio.sleep(seconds)
    effects.append(name)
    return name


@agent
async def listener(ctx: Context) -> str:
    return await ctx.receive()


@agent
async def leaf(ctx: Context, target: str) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ctx.call, deploy, target)
        tasks.start_soon(ctx.call, slow, target, 1000.0)


@agent
async def middle(ctx: Context, name: str) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ctx.run, leaf, f"{name}1")
        tasks.start_soon(ctx.run, leaf, f"{name}2")


@agent
async def top(ctx: Context) -> list[str]:
    children = [await ctx.spawn(middle, name) for name in "ab"]
    return [(await child.outcome()).kind for child in children]


async def _asked(run, count: int) -> list:
    async with run.watch_approvals() as reader:
        return [await anext(reader) for _ in range(count)]


async def test_a_cancel_ends_the_session_and_all_below_it_deepest_first():
    """W8: waits end at once and approvals are withdrawn. Each call has one result, and each run one outcome."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(top)
        found = await _asked(run, 4)
        cancelled = anyio.current_time()
        await supervisor.cancel(run.session, reason="enough", by="ana")
        outcome = await run.outcome()
        assert anyio.current_time() - cancelled < 1
        assert outcome.kind == "cancelled"
        assert "ana" in outcome.cause
        assert "enough" in outcome.cause
        views = await supervisor.find_sessions()
        assert [view.outcome["kind"] for view in views] == ["cancelled"] * 7
        parents = {view.id: view.parent for view in views}
        ended = [row.session for row in store.rows(0) if isinstance(row.event, e.RunFinished)]
        assert len(ended) == 7
        assert all(parents[session] not in ended[:n] for n, session in enumerate(ended))
        assert {(await supervisor.decide(approval.id, Approve(by="bob"))).kind for approval in found} == {"closed"}
        for view in views:
            calls = events(store, view.id, e.ToolCallRequested)
            assert len(events(store, view.id, (e.ToolCallFinished, e.OperationAbandoned))) == len(calls)
    assert effects == []


@agent
async def slower_below(ctx: Context, unwinding: list[float]) -> None:
    first, *below = unwinding
    try:
        await (ctx.run(slower_below, below) if below else ctx.receive())
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(first)


async def test_a_run_that_unwinds_after_its_parent_has_left_does_not_wait(enter):
    """W13: a task that ends a session above it also ends this one, perhaps while it waits for the sessions below."""
    async with opened() as supervisor:

        async def told_late(append, plan, *options):
            await append(plan, *options)
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.5)

        enter(wrapped(supervisor._runner.journal, "append", told_late))
        run = await supervisor.start(slower_below, [0.0, 1.0, 2.0, 2.75])
        await anyio.sleep(10)
        await supervisor.cancel(run.session)
        assert (await run.outcome()).kind == "cancelled"
        await anyio.sleep(10)
        stuck = sessions_in_memory(supervisor)
        supervisor._runner.attempts.endings.update(dict.fromkeys(stuck, Ending(kind="cancelled")))
        supervisor._runner.attempts.note_change()  # wake a stuck task, so that this test fails and does not hang
    assert not stuck


async def test_a_cancel_never_takes_parent_or_siblings():
    """W8: the parent is told, and goes on."""
    async with opened(unattended="ask") as supervisor:
        run = await supervisor.start(top)
        found = await _asked(run, 4)
        first = next(view for view in await supervisor.find_sessions() if view.path == ("top", "middle"))
        await supervisor.cancel(first.id)
        for approval in found:
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == ["cancelled", "succeeded"]
        assert sorted(effects) == ["b1", "b1", "b2", "b2"]


async def test_a_second_cancel_and_a_cancel_of_an_ended_run_change_nothing():
    """W8: the first cancel counts. An unknown session raises NotFound."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(top)
        await _asked(run, 4)
        async with anyio.create_task_group() as tasks:
            for n in range(10):
                tasks.start_soon(partial(supervisor.cancel, run.session, reason=f"reason {n}"))
        assert (await run.outcome()).kind == "cancelled"
        await run.cancel("again")
        assert len(events(store, run.session, e.CancelRequested)) == 1
        assert len(events(store, run.session, e.RunFinished)) == 1
        with pytest.raises(NotFound):
            await supervisor.cancel("nosuch")


async def test_nothing_that_needs_a_person_or_a_child_begins_during_a_cancel():
    """W8: spawn and calls that ask raise RunStopping. Other operations are bounded by `stop_timeout`."""
    raised = []

    @agent(stop_timeout=10)
    async def cleans_up(ctx: Context) -> None:
        try:
            await anyio.sleep(50)
        finally:
            with anyio.CancelScope(shield=True):
                for begin in (lambda: ctx.spawn(top), lambda: ctx.call(deploy, "late")):
                    try:
                        await begin()
                    except RunStopping as error:
                        raised.append(type(error))
                await ctx.call(slow, "cleaned", 5.0)

    async with opened() as supervisor:
        run = await supervisor.start(cleans_up)
        await anyio.sleep(1)
        await run.cancel()
        assert (await run.outcome()).kind == "cancelled"
        assert raised == [RunStopping] * 2
        assert effects == ["cleaned"]
        assert len(await supervisor.find_sessions()) == 1


@tool(policy="allow", timeout=None)
async def shielded(seconds: float) -> str:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(seconds)
    return "late"


async def test_a_call_that_ends_after_its_run_was_abandoned_has_one_result(caplog):
    """T1: the call got its result together with the run's outcome. A later result is dropped, and is no error."""

    @agent(stop_timeout=10)
    async def calls(ctx: Context) -> None:
        await ctx.call(shielded, 100.0)

    async with opened() as supervisor:
        run = await supervisor.start(calls, session="s")
        await anyio.sleep(1)
        await run.cancel()
        assert (await run.outcome()).kind == "abandoned"
        await anyio.sleep(200)
        assert [event.kind for event in events(supervisor.store, "s", e.ToolCallFinished)] == ["interrupted"]
        assert "s" not in supervisor._runner.attempts.refusals
    assert [record.getMessage() for record in caplog.records if "refused" in record.getMessage()] == []


async def test_a_spawn_that_is_committed_after_the_stop_begins_no_sub_agent():
    """W8: the append waited for another process's lock, and the run was stopped meanwhile."""
    store = HeldStore()

    @agent(inactivity_timeout=60)
    async def spawns(ctx: Context) -> None:
        store.is_held = True
        await ctx.spawn(top)

    async with opened(store) as supervisor:
        run = await supervisor.start(spawns, session="s")
        await anyio.sleep(30)
        supervisor._runner.attempts.live["s"].stop(StopReason("stalled", "a test"))
        store.is_held = False
        assert (await run.outcome()).kind == "stalled"
        assert [view.id for view in await supervisor.find_sessions()] == ["s"]


async def test_a_run_that_is_being_cancelled_is_not_passivated(caplog):
    """W8: the cancel was committed just before, in the same batch."""
    store = HeldStore()
    async with opened(store, passivate_after=50) as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(listener, session="s")
        await anyio.sleep(49)
        store.is_held = True
        tasks.start_soon(run.cancel)
        await anyio.sleep(5)
        store.is_held = False
        assert (await run.outcome()).kind == "cancelled"
    assert events(store, "s", e.RunPassivated) == []
    assert caplog.records == []


async def test_a_clean_up_that_takes_too_long_is_abandoned():
    """W13: after `stop_timeout` the run is abandoned with an error in the log, and its parent is told at once."""
    may_end = anyio.Event()

    @agent(stop_timeout=10)
    async def never_ends(ctx: Context) -> None:
        with anyio.CancelScope(shield=True):
            await may_end.wait()

    @agent
    async def parent(ctx: Context) -> str:
        child = await ctx.spawn(never_ends)
        await ctx.sleep(1)
        await child.cancel()
        return (await child.outcome()).kind

    async with opened() as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(parent)
        with anyio.fail_after(20):
            assert await run.result() == "abandoned"
        assert 10.9 <= anyio.current_time() - started <= 11.5
        may_end.set()


async def test_a_cancel_that_was_accepted_is_finished_by_the_next_life():
    """W8: a tree that is killed at any commit after the cancel is not resumed. It ends as it was told to."""
    store = ForkingStore(look=lambda: any(isinstance(row.event, e.CancelRequested) for row in store.rows(0)))
    async with opened(store) as supervisor:
        run = await supervisor.start(top, session="s")
        await _asked(run, 4)
        await run.cancel()
        await run.outcome()
    accepted = [copy for copy, is_cancelled in store.copies if is_cancelled]
    assert len(accepted) >= 2
    for copy in accepted:
        async with opened(copy) as supervisor:
            await supervisor.resume_all()
            assert (await (await supervisor.get_run("s")).outcome()).kind == "cancelled"
            assert {view.outcome["kind"] for view in await supervisor.find_sessions()} == {"cancelled"}
            assert list(await supervisor.find_approvals()) == []
    assert effects == []


async def test_a_cancel_of_a_tree_without_an_owner_ends_it():
    """W8: the process that cancels claims the tree and ends it."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(top, session="s")
        found = await _asked(run, 4)
        await supervisor.decide(found[0].id, Approve(by="ana"))
        await anyio.sleep(0.01)
        killed = fork(store)
        await run.cancel()
    effects.clear()
    async with opened(killed) as supervisor:
        await supervisor.cancel("s", by="ana")
        assert {view.outcome["kind"] for view in await supervisor.find_sessions()} == {"cancelled"}
    assert effects == []


async def test_of_a_decision_and_a_cancel_at_once_the_call_runs_or_is_withdrawn():
    """W8: the first commit of the two counts, never both, and the person is told."""
    for order in range(10):

        @agent
        async def asks(ctx: Context) -> str:
            return (await ctx.call(deploy, "x")).kind

        effects.clear()
        store = MemoryStore()
        async with opened(store) as supervisor:
            run = await supervisor.start(asks)
            (approval,) = await _asked(run, 1)
            results = []

            async def click(supervisor=supervisor, approval=approval, results=results) -> None:
                results.append((await supervisor.decide(approval.id, Approve(by="ana"))).kind)

            async with anyio.create_task_group() as tasks:
                for act in (click, run.cancel) if order % 2 else (run.cancel, click):
                    tasks.start_soon(act)
            outcome = await run.outcome()
            assert outcome.kind == "cancelled"
            assert results[0] in ("accepted", "closed")
            assert len(effects) == len(events(store, run.session, e.ToolCallStarted))
            assert results[0] == "accepted" or effects == []


async def test_a_run_that_was_cancelled_may_still_sleep_and_save_while_it_ends():
    """W8: a cancelled run asks no approval and spawns no sub-agent. Its other operations are bounded, not refused."""
    done = []

    @agent
    async def tidy(ctx: Context) -> None:
        try:
            await ctx.sleep(3600)
        finally:
            with anyio.CancelScope(shield=True):
                await ctx.sleep(5)
                await ctx.save("tidied")
                done.append("tidied")

    async with opened() as supervisor:
        run = await supervisor.start(tidy)
        await anyio.sleep(1)
        await run.cancel("enough")
        outcome = await run.outcome()
        assert (outcome.kind, outcome.partial, done) == ("cancelled", "tidied", ["tidied"])


async def test_a_run_that_ends_at_last_as_it_is_abandoned_is_abandoned_once():
    """W13: sealing the run ends its shielded waits, so it leaves memory before its outcome is written."""

    @agent(stop_timeout=10)
    async def sleeps_on(ctx: Context) -> None:
        with anyio.CancelScope(shield=True):
            await ctx.sleep(1000)

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(sleeps_on, session="s")
        await anyio.sleep(1)
        await run.cancel()
        assert (await run.outcome()).kind == "abandoned"
    assert len(events(store, "s", e.RunFinished)) == 1


async def test_a_clean_up_of_a_run_that_is_cancelled_during_its_replay_does_not_wait():
    """W8: the agent asks for no more of its journal, so no shielded operation can begin."""

    attempts = []

    @agent
    async def tidies(ctx: Context) -> None:
        attempts.append(ctx)
        try:
            if len(attempts) == 2:
                await anyio.sleep_forever()  # the cancel comes before the agent has asked for its journal
            await ctx.call(slow, "before", 0)
            await ctx.call(deploy, "a")
        finally:
            with anyio.CancelScope(shield=True):
                await ctx.call(slow, "clean-up", 0)

    store = MemoryStore()
    async with opened(store) as supervisor:
        await next_of((await supervisor.start(tidies, session="s")).watch_approvals())
        store = fork(store)  # killed here
    effects.clear()
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        while len(attempts) < 2:
            await anyio.lowlevel.checkpoint()
        cancelled = anyio.current_time()
        await run.cancel("enough")
        assert (await run.outcome()).kind == "cancelled"
        assert anyio.current_time() - cancelled < 1
    assert effects == []
