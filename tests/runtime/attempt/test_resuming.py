"""R: a resumed agent takes the same path over its journal, and no call runs twice."""

import random

import anyio
import pytest
from scenes import ForkingStore, events, fork, knowing_no_agents, names, opened, replayed
from watching import next_of

from supervisor import (
    Approve,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    RunBlocked,
    SqliteStore,
    StepFailed,
    agent,
    tool,
)
from supervisor.core import events as e
from supervisor.testing import slow_disk

pytestmark = pytest.mark.anyio
effects: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    effects.clear()


class Killed(Exception):
    """Raised by the body of a supervisor to leave it half-way."""


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


@tool
async def asked(name: str) -> str:
    effects.append(name)
    await anyio.sleep(random.random())
    return name


@tool(policy="allow", timeout=None)
async def slow(name: str, seconds: float) -> str:
    effects.append(name)
    await anyio.sleep(seconds)
    return name


@agent
async def collects(ctx: Context) -> list[str]:
    """Collects parallel results in the order in which they complete, and acts on that order."""
    done = []

    async def one(name: str) -> None:
        done.append((await ctx.call(asked, name)).content)
        done.append((await ctx.call(effect, f"{name} after {len(done)}")).content)

    async with anyio.create_task_group() as tasks:
        for name in "abcd":
            tasks.start_soon(one, name)
    done.append((await ctx.call(effect, " ".join(done))).content)
    return done


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_results_collected_in_completion_order_are_collected_so_again(kind, tmp_path):
    """R1: left at fifty random points, the run asks no approval twice and does nothing twice."""
    lives = seed = 0
    while lives < 50:
        effects.clear()
        seed += 1
        random.seed(seed)
        store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / f"{seed}.db")
        ids, is_over = set(), False
        while not is_over:
            lives += 1
            try:
                async with opened(store) as supervisor:
                    run = await supervisor.start(collects, session="s")
                    with anyio.move_on_after(random.random()) as moved:
                        async with run.watch_approvals() as watch:
                            async for approval in watch:
                                ids.add(approval.id)
                                await anyio.sleep(random.random() / 4)
                                await supervisor.decide(approval.id, Approve(by="ana"))
                    is_over = not moved.cancelled_caught
                    if not is_over:
                        raise Killed
                    assert (await run.outcome()).kind == "succeeded"
            except Killed:
                pass
        assert len(ids) == 4
        assert len(effects) == len(set(effects)) == 9


async def test_killed_after_every_commit_it_does_nothing_twice_and_loses_nothing():
    """R1: a resume after each commit comes to the same end, with the same approvals."""
    random.seed(1)
    store = ForkingStore(look=lambda: list(effects))
    async with opened(store) as supervisor:
        run = await supervisor.start(collects, session="s")
        async with run.watch_approvals() as watch:
            async for approval in watch:
                await supervisor.decide(approval.id, Approve(by="ana"))
        assert (await run.outcome()).kind == "succeeded"
    for copy, before in store.copies[:-1]:
        effects[:] = before
        known = {approval.id for approval in copy.find_approvals(pending=False)}
        async with opened(copy, unattended="allow") as supervisor:
            run = await supervisor.resume("s")
            assert (await run.outcome()).kind == "succeeded"
        found = [approval.id for approval in copy.find_approvals(pending=False)]
        assert known <= set(found)
        assert len(found) == 4
        assert len(set(effects)) == len(effects)
        calls = events(copy, "s", e.ToolCallRequested)
        assert len(events(copy, "s", e.ToolCallFinished)) == len(calls)


async def test_live_state_is_the_replayed_state_at_every_commit():
    """R1: the journal is the truth, and the state in memory equals it."""

    class Compared(MemoryStore):
        def commit(self) -> None:
            super().commit()
            checked.append(len(self._entries))

    checked, store = [], Compared()
    async with opened(store, unattended="allow") as supervisor:
        run = await supervisor.start(collects, session="s")
        journal = supervisor._runner.journal
        while await run.find_outcome() is None:
            if "s" in journal.states and not journal.count_notes("s"):
                assert journal.states["s"] == replayed(store, "s")
            await anyio.sleep(0.01)
    assert len(checked) > 10


async def _numbered(number: int) -> int:
    await anyio.sleep(0.1)
    return number


@agent
async def counts_what_others_have(ctx: Context) -> None:
    """Asks for an operation that depends on the other tasks' results, in the instant in which they get them."""
    done = []

    async def others(number: int) -> None:
        done.append(await ctx.step(_numbered, number))

    async def counts(context: Context) -> None:
        await anyio.sleep(0.1)
        await context.call(effect, f"counted {len(done)}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(counts, ctx.branch("counts"))
        for number in range(8):
            tasks.start_soon(others, number)


async def test_an_operation_depends_on_the_results_its_agent_had_when_it_asked():
    """R1: results that other tasks get while the operation begins do not count; a replay would give them too early."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(counts_what_others_have, session="s")).result()
    for copy, _ in store.copies[:-1]:
        async with opened(copy) as supervisor:
            run = await supervisor.resume("s")
            assert (await run.outcome()).kind == "succeeded"


@agent
async def gives_up_in_the_last_moment(ctx: Context, after: float) -> list[int]:
    """One task cancels the other while the other's result is about to be written."""
    got = []

    async def number(context: Context) -> None:
        got.append(await context.step(_numbered, 1))

    async with anyio.create_task_group() as group:
        group.start_soon(number, ctx.branch("number"))
        await anyio.sleep(after)
        await ctx.now()
        group.cancel_scope.cancel()
    return got


@agent
async def keeps_the_store_busy(ctx: Context) -> None:
    for number in range(20):
        await ctx.send(str(number))


@pytest.mark.parametrize("after", [0.105, 0.115])
async def test_a_cancelled_operation_gets_no_result_although_it_is_committed(after, enter):
    """R1: the result's place is after the result that ended the wait. A replay is cancelled before its turn."""
    enter(slow_disk(0.03))
    async with opened() as supervisor:
        await supervisor.start(keeps_the_store_busy)
        run = await supervisor.start(gives_up_in_the_last_moment, after)
        assert await run.result() == []
        ends = [
            row.event.kind
            for row in await supervisor.find_entries(run.session)
            if isinstance(row.event, e.OperationFinished)
        ]
        assert ends == ["now", "step"]


async def test_identical_calls_in_two_branches_are_two_calls():
    """R1: `branch` names them the same in every attempt. Neither runs twice, or in place of the other."""

    @agent
    async def twice(ctx: Context) -> list[str]:
        got = []

        async def one(context: Context) -> None:
            got.append((await context.call(asked, "same")).kind)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, ctx.branch("left"))
            tasks.start_soon(one, ctx.branch("right"))
        return got

    store = MemoryStore()
    for life in range(5):
        async with opened(store) as supervisor:
            run = await supervisor.start(twice, session="s")
            async with run.watch_approvals() as reader:
                pending = [await anext(reader) for _ in range(2 if life < 2 else 1)]
                if life == 2:
                    pass
                elif life == 1:
                    await supervisor.decide(pending[0].id, Approve(by="ana"))
                elif life == 4:
                    await supervisor.decide(pending[0].id, Approve(by="ana"))
                    assert await run.result() == ["ok", "ok"]
    assert len(store.find_approvals(pending=False)) == 2
    assert effects == ["same", "same"]


async def test_identical_operations_of_two_live_tasks_are_refused():
    """R1: their order could change from attempt to attempt. The error says what to do."""

    @agent
    async def careless(ctx: Context) -> str:
        refused = []

        async def one() -> None:
            try:
                await ctx.call(slow, "same", 5)
            except InvalidInput as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            tasks.start_soon(one)
        (hint,) = refused
        return hint

    async with opened() as supervisor:
        assert "branch" in await (await supervisor.start(careless)).result()
        assert effects == ["same"]


async def test_task_groups_of_two_live_tasks_are_refused_on_one_context():
    """R1: their numbers could change from attempt to attempt."""

    async def numbered(ctx: Context, name: str) -> None:
        await ctx.call(effect, name)

    @agent
    async def careless(ctx: Context) -> str:
        refused = []

        async def opens(context: Context, name: str) -> None:
            try:
                async with context.task_group() as group:
                    group.start_soon(numbered, name)
            except InvalidInput as error:
                refused.append(str(error))

        async with anyio.create_task_group() as tasks:
            for name in "ab":
                tasks.start_soon(opens, ctx, name)
                tasks.start_soon(opens, ctx.branch(name), f"{name} on its own")
        (hint,) = refused
        return hint

    async with opened() as supervisor:
        assert "branch" in await (await supervisor.start(careless)).result()
        assert len(effects) == 3


async def test_a_task_group_of_the_context_gives_each_child_its_branch():
    """R1: children are numbered in program order, so identical operations differ in every attempt."""

    async def one(ctx: Context, got: list) -> None:
        got.append((await ctx.call(asked, "same")).kind)

    @agent
    async def grouped(ctx: Context) -> int:
        got = []
        for _ in range(2):
            async with ctx.task_group() as group:
                for _ in range(3):
                    group.start_soon(one, got)
        return len(got)

    store, finished = MemoryStore(), 0
    while not finished:
        async with opened(store) as supervisor:
            run = await supervisor.start(grouped, session="s")
            with anyio.move_on_after(1):
                await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
            with anyio.move_on_after(5):
                finished = await run.result()
    assert finished == 6
    assert effects == ["same"] * 6
    assert len(store.find_approvals(pending=False)) == 6


@pytest.mark.parametrize("order", [("slow", "fast"), ("fast", "slow")])
async def test_a_race_takes_the_same_winner_again(order):
    """R1: in the replay, the call that the first result cancelled waits until it is cancelled again."""

    @agent
    async def races(ctx: Context) -> list[str]:
        won = []

        async def one(name: str, seconds: float) -> None:
            won.append((await ctx.call(slow, name, seconds)).content)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for name in order:
                tasks.start_soon(one, name, 5.0 if name == "slow" else 1.0)
        await ctx.call(asked, f"after {won}")
        await ctx.call(effect, "last")
        return won

    store = MemoryStore()
    for _ in range(3):
        async with opened(store) as supervisor:
            run = await supervisor.start(races, session="s")
            approval = await next_of(run.watch_approvals())
    async with opened(store) as supervisor:
        run = await supervisor.start(races, session="s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == ["fast"]
    assert sorted(effects) == ["after ['fast']", "fast", "last", "slow"]
    (abandoned,) = events(store, "s", e.OperationAbandoned)
    assert abandoned.operation.startswith("call:slow")


async def _fails(text: str) -> None:
    effects.append(text)
    raise LookupError(text)


async def test_a_step_that_failed_raises_step_failed_in_every_attempt():
    """R1: a replay raises with the same type and text, and the step does not run again."""

    @agent
    async def steps(ctx: Context) -> list[str]:
        try:
            await ctx.step(_fails, "no such key")
        except StepFailed as failure:
            await ctx.call(asked, "after")
            return [failure.error_type, failure.error]
        return []

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(steps, session="s")
        approval = await next_of(run.watch_approvals())
    async with opened(store) as supervisor:
        run = await supervisor.start(steps, session="s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == ["LookupError", "no such key"]
    assert effects == ["no such key", "after"]


async def _calls_another(ctx: Context) -> str:
    return (await ctx.call(effect, "something else")).kind


async def _returns_early(ctx: Context) -> str:
    return "early"


async def _passes_other_arguments(ctx: Context) -> str:
    await ctx.call(effect, "first")
    return (await ctx.call(asked, "another")).kind


async def _fails_early(ctx: Context) -> str:
    raise LookupError("early")


@pytest.mark.parametrize("changed", [_calls_another, _returns_early, _passes_other_arguments, _fails_early])
@pytest.mark.parametrize("is_decided", [False, True])
async def test_an_agent_that_changed_is_blocked_and_runs_nothing(changed, is_decided):
    """R1: the block names the entry that it did not ask for. Nothing is withdrawn or used up, and the old code goes
    on."""
    bodies = []

    @agent
    async def changing(ctx: Context) -> str:
        return await bodies[-1](ctx)

    async def original(ctx: Context) -> str:
        await ctx.call(effect, "first")
        return (await ctx.call(asked, "second")).kind

    store = MemoryStore()
    bodies.append(original)
    async with opened(store) as supervisor:
        run = await supervisor.start(changing, session="s")
        approval = await next_of(run.watch_approvals())
        killed = fork(store)
    bodies.append(changed)
    async with opened(killed) as supervisor:
        assert len(await supervisor.find_approvals()) == 1
        if is_decided:
            await supervisor.decide(approval.id, Approve(by="ana"))
        run = await supervisor.resume("s")
        with pytest.raises(RunBlocked) as caught:
            await run.outcome()
        assert caught.value.block.why == "path"
        assert (await supervisor.get_session("s")).status == "blocked"
        assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == (
            "already" if is_decided else "accepted"
        )
    assert effects == ["first"]
    bodies.append(original)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        assert await run.result() == "ok"
        assert (await supervisor.get_session("s")).status == "completed"
    assert effects == ["first", "second"]


async def test_an_agent_that_replays_slowly_has_not_diverged():
    """R1: a model call in a replay takes its time, and a blocked loop does not count."""

    @agent
    async def thinks(ctx: Context) -> str:
        async def think() -> None:
            async with ctx.model_call():
                await anyio.sleep(100)
            await ctx.call(effect, "thought")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(think)
            await ctx.call(asked, "first")
            await ctx.call(asked, "second")
        return "done"

    store = MemoryStore()
    async with opened(store, passivate_after=1e9) as supervisor:
        run = await supervisor.start(thinks, session="s")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
        await anyio.sleep(200)
        killed = fork(store)
        await run.cancel()
    async with opened(killed, unattended="allow") as supervisor:
        run = await supervisor.resume("s")
        assert await run.result() == "done"


async def test_a_replay_may_be_silent_for_as_long_as_the_agent_may():
    """R1: the runtime cannot see what the agent's own code waits for. So the replay has the whole inactivity budget."""

    @agent(inactivity_timeout=60)
    async def thinks(ctx: Context) -> str:
        async def think() -> None:
            await anyio.sleep(40)
            await ctx.call(effect, "thought")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(think)
            await ctx.call(asked, "first")
            await ctx.call(asked, "second")
        return "done"

    store = MemoryStore()
    async with opened(store, passivate_after=1e9) as supervisor:
        run = await supervisor.start(thinks, session="s")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
        await anyio.sleep(200)
        killed = fork(store)
        await run.cancel()
    async with opened(killed, unattended="allow") as supervisor:
        run = await supervisor.resume("s")
        assert await run.result() == "done"


@pytest.mark.parametrize("appends", [False, True])
async def test_three_attempts_in_a_row_that_append_nothing_are_the_last(appends):
    """R5: a run that dies with its process three times is abandoned. A run that appends entries is not."""

    lives = []

    @agent
    async def deadly(ctx: Context) -> None:
        for n in range(len(lives) if appends else 0):
            await ctx.call(effect, f"life {n}")
        await ctx.step(_kills)

    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(deadly, session="s")
        await anyio.sleep(0.01)
        lives.append(fork(store))
        await supervisor.cancel("s")
    kinds = []
    for _ in range(5):
        async with opened(lives[-1]) as supervisor:
            run = await supervisor.resume("s")
            await anyio.sleep(0.01)
            lives.append(fork(lives[-1]))
            await supervisor.cancel("s")
            kinds.append((await run.outcome()).kind)
    assert kinds[:2] == ["cancelled"] * 2
    assert kinds[2:] == (["cancelled"] * 3 if appends else ["abandoned"] * 3)


async def _kills() -> None:
    await anyio.sleep_forever()


async def test_a_waiting_run_that_is_killed_many_times_is_not_abandoned():
    """R5: an attempt that waits is no crash loop."""

    @agent
    async def waits(ctx: Context) -> str:
        return (await ctx.call(asked, "x")).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(waits, session="s")
        approval = await next_of(run.watch_approvals())
        store = fork(store)
    for _ in range(20):
        async with opened(store) as supervisor:
            await supervisor.resume("s")
            await anyio.sleep(1)
            killed = fork(store)
        store = killed
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "accepted"
        assert await run.result() == "ok"


async def test_a_resumed_run_keeps_requester_path_and_folder():
    """R4: approvals after a restart are asked on behalf of the same person."""

    @agent
    async def asks_twice(ctx: Context) -> None:
        await ctx.call(asked, "one")
        await ctx.call(asked, "two")

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(asks_twice, session="s", requester="bob")
        first = await next_of(run.watch_approvals())
    async with opened(store) as supervisor:
        await supervisor.decide(first.id, Deny(by="ana"))
        run = await supervisor.resume("s")
        second = await next_of(run.watch_approvals())
        for name in ("requester", "path", "cwd", "session", "root_session"):
            assert getattr(second, name) == getattr(first, name)
        assert second.requester == "bob"


async def test_opening_runs_nothing_and_a_decision_is_kept_for_the_process_that_runs_the_tree():
    """R2: a process that does not run the tree records a decision, and its result says so."""

    @agent
    async def waits(ctx: Context) -> str:
        return (await ctx.call(asked, "x")).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(waits, session="s")
        approval = await next_of(run.watch_approvals())
    with knowing_no_agents():
        async with opened(store) as supervisor:
            decided = await supervisor.decide(approval.id, Approve(by="ana"))
            assert (decided.kind, decided.running) == ("accepted", False)
            await anyio.sleep(100)
            assert effects == []
            assert (await supervisor.get_session("s")).outcome is None
    async with opened(store) as supervisor:
        (run,) = await supervisor.resume_all()
        assert await run.result() == "ok"
        assert "ApprovalDecided" in names(store, "s")


@agent
async def waits(ctx: Context) -> str:
    return (await ctx.call(asked, "x")).kind


async def test_one_process_at_a_time_owns_a_tree(tmp_path):
    """R6: a second process is told which one owns it, and may decide and cancel. Its `resume_all` leaves the tree
    out."""
    from supervisor import TreeOwned

    path = tmp_path / "state.db"
    async with opened(path) as one, opened(path) as other:
        run = await one.start(waits, session="s")
        approval = await next_of(run.watch_approvals())
        with pytest.raises(TreeOwned):
            await other.start(waits, session="s")
        with pytest.raises(TreeOwned):
            await other.resume("s")
        assert await other.resume_all() == []
        assert (await other.decide(approval.id, Approve(by="ana"))).kind == "accepted"
        assert await run.result() == "ok"
    assert effects == ["x"]


async def test_starting_is_idempotent_for_tasks_that_start_at_once():
    """R6: ten tasks start the same new session. There is one run, with one attempt."""

    @agent
    async def once(ctx: Context) -> str:
        return (await ctx.call(effect, "once")).content

    results = []

    async def one(supervisor) -> None:
        run = await supervisor.start(once, session="s")
        await supervisor.resume_all()
        results.append(await run.result())

    for _ in range(20):
        effects.clear()
        store = MemoryStore()
        async with opened(store) as supervisor, anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one, supervisor)
        assert effects == ["once"]
        assert len(events(store, "s", e.AttemptStarted)) == 1
    assert results == ["once"] * 200


async def test_an_operation_that_a_scope_cancels_as_it_begins_was_asked_for():
    """R1: trio chooses at random which of two tasks runs first. A loser that is cancelled one tick earlier also follows
    its journal."""
    ticks = [3, 0]

    @agent
    async def races(ctx: Context) -> str:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ctx.call, asked, "loser")
                for _ in range(ticks.pop(0)):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        return (await ctx.call(asked, "then")).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(races, session="s")
    assert names(store, "s").count("ToolCallRequested") == 2
    async with opened(store, unattended="allow") as supervisor:
        run = await supervisor.resume("s")
        with anyio.fail_after(1):
            assert await run.result() == "ok"
