"""Passivation: a run that only waits leaves memory, and an answer brings it back. Nothing is lost in between."""

import anyio
import pytest
from scenes import HeldStore, events, fork, knowing_no_agents, names, opened, sessions_in_memory
from watching import next_of

from supervisor import Answer, Approve, Context, Deny, MemoryStore, StoreDied, agent, tool
from supervisor.core import events as e
from supervisor.core.errors import StoreRefused, SupervisorError
from supervisor.seam.store import StoreAway

pytestmark = pytest.mark.anyio
DAY = 86_400.0
effects: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    effects.clear()


@tool
async def deploy(target: str) -> str:
    effects.append(target)
    return f"deployed {target}"


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def parent(ctx: Context) -> list[str]:
    children = [await ctx.spawn(deployer, target) for target in "abc"]
    return [await child.result() for child in children]


async def test_a_run_that_waits_for_a_person_leaves_memory_and_only_the_answered_one_wakes():
    """R2: a decision wakes the child, and the child's outcome wakes the parent. No other run wakes."""
    store = MemoryStore()
    async with opened(store, passivate_after=60) as supervisor:
        run = await supervisor.start(parent)
        async with run.watch_approvals() as reader:
            asked = {approval.arguments["target"]: approval for approval in [await anext(reader) for _ in "abc"]}
            await anyio.sleep(200)
            assert sessions_in_memory(supervisor) == set()
            assert supervisor._runner.attempts.live == {}
            assert (await supervisor.get_session(run.session)).status == "waiting_approval"
            await supervisor.decide(asked["b"].id, Approve(by="ana"))
            await anyio.sleep(1)
            assert effects == ["b"]
            attempts = [names(store, view.id).count("AttemptStarted") for view in await supervisor.find_sessions()]
            assert attempts == [1, 1, 2, 1]  # the parent waits for its first child, not for this one
            await anyio.sleep(200)
            for target in "ac":
                await supervisor.decide(asked[target].id, Approve(by="ana"))
            assert await run.result() == ["ok"] * 3
            assert effects[0] == "b"
            assert sorted(effects) == ["a", "b", "c"]


async def test_the_waits_of_a_passivated_run_are_in_its_journal():
    """R1: so any process can tell whether the run stays passivated."""
    store = MemoryStore()
    async with opened(store, passivate_after=60) as supervisor:
        run = await supervisor.start(deployer, "a")
        async with run.watch_approvals() as reader:
            await anyio.sleep(100)
            (asleep,) = events(store, run.session, e.RunPassivated)
            (call,) = events(store, run.session, e.ToolCallRequested)
            assert asleep.waiting_for == (call.operation,)
            await supervisor.decide((await anext(reader)).id, Deny(by="ana"))
            assert await run.result() == "denied"


@pytest.mark.parametrize("target", ["child", "parent"])
async def test_a_decision_at_any_instant_around_a_passivation_is_never_lost(target):
    """R2: forty instants, from well before the passivation to well after it, all lead to the same end."""
    started = deployer if target == "child" else parent
    for n in range(40):
        effects.clear()
        store = MemoryStore()
        async with opened(store, passivate_after=1.0) as supervisor:
            run = await supervisor.start(started, *(["a"] if started is deployer else []))
            async with run.watch_approvals() as reader:
                begun = anyio.current_time()
                found = [await anext(reader) for _ in range(1 if started is deployer else 3)]
                await anyio.sleep_until(begun + 1.0 + (n - 20) * 0.0005)
                for _ in range(n % 5):
                    await anyio.lowlevel.checkpoint()
                for approval in found:
                    assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "accepted"
                with anyio.fail_after(100):
                    assert await run.result() in ("ok", ["ok"] * 3)
        assert len(effects) == len(found)


async def test_a_decision_that_is_committed_with_the_passivation_wakes_the_run():
    """R2: both orders in one batch let the run go on."""
    for first in ("decision", "passivation"):
        async with opened(passivate_after=1.0) as supervisor:
            run = await supervisor.start(deployer, "a")
            approval = await next_of(run.watch_approvals())
            attempt = supervisor._runner.attempts.live[run.session]
            await anyio.sleep(0.9)
            quiet = supervisor._runner.passivation
            acts = [(supervisor.decide, approval.id, Approve(by="ana")), (quiet._passivate, attempt, attempt.rest)]
            async with anyio.create_task_group() as tasks:
                for act in acts if first == "decision" else acts[::-1]:
                    tasks.start_soon(*act)
            with anyio.fail_after(10):
                assert await run.result() == "ok"


@agent
async def hears(ctx: Context) -> str:
    """Races a message against a call that stays undecided."""
    heard: list[str] = []
    with anyio.CancelScope() as scope:
        async with ctx.task_group() as tasks:

            async def listen(inner: Context) -> None:
                heard.append(await inner.receive())
                scope.cancel()

            tasks.start_soon(listen)
            tasks.start_soon(lambda inner: inner.call(deploy, "never"))
    return heard[0]


@pytest.mark.parametrize("ticks", range(12))
async def test_a_message_that_ends_another_wait_at_the_instant_of_a_passivation_is_acted_upon(ticks):
    """R2: a run is not passivated for a wait that its agent is about to end."""
    async with opened(passivate_after=1.0) as supervisor:
        run = await supervisor.start(hears, session="s")
        await next_of(run.watch_approvals())
        attempt = supervisor._runner.attempts.live["s"]
        await anyio.sleep_until(attempt.quiet_since + 1.0)
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        await supervisor.send("s", "news")
        with anyio.fail_after(100):
            assert await run.result() == "news"


async def test_a_passivation_that_waited_for_the_disk_is_dropped_if_the_agent_has_gone_on_meanwhile():
    """R2: the append that journals the waits checks that they are still the same."""
    has_slept, may_go_on = anyio.Event(), anyio.Event()

    @agent
    async def sleeps_and_asks(ctx: Context) -> str:
        with anyio.CancelScope() as scope:
            async with ctx.task_group() as tasks:

                async def sleep(inner: Context) -> None:
                    await inner.sleep(3)
                    has_slept.set()
                    await may_go_on.wait()  # as code does that takes a while to act upon its result
                    scope.cancel()

                tasks.start_soon(sleep)
                tasks.start_soon(lambda inner: inner.call(deploy, "never"))
        return "slept"

    store = HeldStore()
    async with opened(store, passivate_after=1.0) as supervisor:
        run = await supervisor.start(sleeps_and_asks, session="s")
        await next_of(run.watch_approvals())
        store.is_held = True
        await has_slept.wait()
        store.is_held = False
        await anyio.sleep(0.5)
        may_go_on.set()
        with anyio.fail_after(100):
            assert await run.result() == "slept"
    assert events(store, "s", e.RunPassivated) == []


async def test_a_run_that_works_while_it_waits_stays_in_memory():
    """W2: a step in flight is no wait."""

    @agent(inactivity_timeout=1000)
    async def busy(ctx: Context) -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.call, deploy, "a")
            await ctx.step(_works)
        return "done"

    async with opened(passivate_after=60) as supervisor:
        run = await supervisor.start(busy)
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(200)
        assert list(supervisor._runner.attempts.live) == [run.session]
        await anyio.sleep(400)
        assert supervisor._runner.attempts.live == {}
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "done"
        assert effects == ["worked", "a"]


async def _works() -> None:
    await anyio.sleep(500)
    effects.append("worked")


async def test_a_cancel_ends_a_passivated_tree():
    """W8: no run of the tree wakes for it, and each has an outcome, deepest first."""
    store = MemoryStore()
    async with opened(store, passivate_after=60) as supervisor:
        run = await supervisor.start(parent)
        async with run.watch_approvals() as reader:
            found = [await anext(reader) for _ in "abc"]
            await anyio.sleep(DAY)
            await run.cancel("never mind")
            assert (await run.outcome()).kind == "cancelled"
            assert [view.outcome["kind"] for view in await supervisor.find_sessions()] == ["cancelled"] * 4
            ended = [row.session for row in store.rows(0) if isinstance(row.event, e.RunFinished)]
            assert ended[-1] == run.session
            assert [names(store, view.id).count("AttemptStarted") for view in await supervisor.find_sessions()] == [
                1
            ] * 4
            assert [(await supervisor.decide(approval.id, Approve(by="ana"))).kind for approval in found] == [
                "closed"
            ] * 3


async def test_a_passivated_run_is_still_asleep_after_a_restart():
    """R1: `resume` begins no attempt of a run without an answer. The decision does."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(parent, session="s")
        async with run.watch_approvals() as reader:
            found = [await anext(reader) for _ in "abc"]
    async with opened(store) as supervisor:
        (run,) = await supervisor.resume_all()
        await anyio.sleep(DAY)
        assert sum(len(events(store, view.id, e.AttemptStarted)) for view in await supervisor.find_sessions()) == 4
        for approval in found:
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == ["ok"] * 3


async def test_killed_while_it_goes_to_sleep_it_is_found_asleep_or_awake():
    """R1: a kill before the entry or after it loses nothing."""
    store = MemoryStore()
    async with opened(store, passivate_after=1) as supervisor:
        run = await supervisor.start(deployer, "a", session="s")
        approval = await next_of(run.watch_approvals())
        awake = fork(store)
        await anyio.sleep(10)
        asleep = fork(store)
    assert "RunPassivated" not in names(awake, "s")
    assert names(asleep, "s")[-1] == "RunPassivated"
    for killed in (awake, asleep):
        effects.clear()
        async with opened(killed) as supervisor:
            run = await supervisor.resume("s")
            await supervisor.decide(approval.id, Approve(by="ana"))
            assert await run.result() == "ok"
        assert effects == ["a"]


@agent
async def listens(ctx: Context) -> None:
    async with ctx.move_on_after(365 * DAY):
        for _ in range(20):
            await ctx.receive()


async def test_a_passivated_run_with_a_far_timer_has_one_appointment():
    """It has one after any number of wakes in between; else the alarm would keep callbacks until the timer is due."""
    async with opened(passivate_after=60) as supervisor:
        run = await supervisor.start(listens, session="s")
        for _ in range(19):
            await anyio.sleep(200)
            await supervisor.send("s", "go on")
        await anyio.sleep(200)
        assert sum(callback is not None for _, _, callback in supervisor._runner.alarm._heap) == 1
        await supervisor.send("s", "enough")
        await run.result()
        await anyio.sleep(200)
        assert sum(callback is not None for _, _, callback in supervisor._runner.alarm._heap) == 0


async def test_an_agent_says_how_long_its_runs_wait_in_memory():
    """The declaration beats the supervisor's setting in both directions. None: no wait is long enough."""
    waits = {"default": 60, 5.0: 5, 500.0: 500, None: 10 * DAY}
    async with opened(passivate_after=60) as supervisor:
        runs = {}
        for own in waits:
            spec = agent(name=f"waits {own}", passivate_after=own)(deployer.fn)
            runs[own] = await supervisor.start(spec, "a")
        await anyio.sleep(1)
        begun = anyio.current_time() - 1
        for seconds in (4, 6, 59, 61, 499, 501, 9 * DAY):
            await anyio.sleep_until(begun + seconds)
            awake = {own for own, longest in waits.items() if longest > seconds}
            assert sessions_in_memory(supervisor) == {runs[own].session for own in awake}


async def test_a_supervisor_that_closes_passivates_also_a_run_that_no_wait_passivates():
    """R2: else the supervisor would stay open until a person decides."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(agent(passivate_after=None)(deployer.fn), "a")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(DAY)
        assert sessions_in_memory(supervisor) == {run.session}
    assert names(store, run.session)[-1] == "RunPassivated"
    async with opened(store) as supervisor:
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await (await supervisor.get_run(run.session)).result() == "ok"


@pytest.mark.parametrize("after", [-1, float("nan")])
def test_a_wait_of_less_than_no_time_is_refused_where_the_agent_is_declared(after):
    with pytest.raises(ValueError, match="passivate_after"):
        agent(passivate_after=after)(deployer.fn)


class DyingStore(HeldStore):
    is_dead = False

    def begin(self):
        if self.is_dead:
            raise StoreDied("it is gone")
        return super().begin()


async def test_a_store_that_dies_as_runs_are_passivated_ends_its_supervisor_with_that_reason():
    """Some runs have left memory by the time at which their entry is refused."""
    with pytest.raises(StoreDied):  # noqa: PT012 # the end of the supervisor may raise it, too
        async with opened(store := DyingStore(), passivate_after=1) as supervisor:
            runs = [await supervisor.start(deployer, str(number)) for number in range(20)]
            await supervisor.find_approvals()
            store.is_held = True
            await anyio.sleep(1.5)
            store.is_dead = True
            await runs[0].outcome()


class AwayStore(MemoryStore):
    """Does not answer the first question for a session after a commit, as one on a server that is restarted."""

    is_armed, is_away = False, False

    def commit(self):
        super().commit()
        self.is_away, self.is_armed = self.is_armed, False

    def get_session(self, session):
        if self.is_away:
            self.is_away = False
            raise StoreAway("it does not answer")
        return super().get_session(session)


class RefusingStore(AwayStore):
    """Refuses a commit, and does not answer the next question."""

    refuses = False

    def begin(self):
        if self.refuses:
            self.refuses, self.is_away = False, True
            raise StoreRefused("the disk is full")
        return super().begin()


async def test_a_run_whose_end_is_refused_while_the_server_is_away_ends_nothing_else():
    """Its tree is suspended for what was refused, and another one of the same process goes on."""

    @agent
    async def ends(ctx: Context) -> str:
        store.refuses = True
        return "ok"

    async with opened(store := RefusingStore()) as supervisor:
        run = await supervisor.start(ends)
        with pytest.raises(SupervisorError, match="the disk is full"):
            await run.outcome()
        other = await supervisor.start(deployer, "b")
        await supervisor.decide((await next_of(other.watch_approvals())).id, Approve(by="ana"))
        assert await other.result() == "ok"


async def test_a_server_that_is_away_as_a_decision_comes_wakes_the_run_later():
    """R2: the entry is on disk, and its process goes on."""
    async with opened(store := AwayStore(), passivate_after=1) as supervisor:
        run = await supervisor.start(deployer, "a")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(5)
        assert sessions_in_memory(supervisor) == set()
        store.is_armed = True
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert not store.is_armed
        assert await run.result() == "ok"


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_run_that_replays_sleeps_only_when_it_waits_for_all_that_its_journal_holds(leaves):
    """Else an answer to what it has not asked for again would wake no process. Its own code takes a while before it
    asks. `leaves`: the process that replays is left meanwhile."""

    @agent
    async def two_waits(ctx: Context) -> None:
        async def later(ctx: Context) -> None:
            await anyio.sleep(5)
            effects.append(await ctx.ask("Which?"))

        async with ctx.task_group() as group:
            group.start_soon(deployer.fn, "a")
            group.start_soon(later)

    async with opened(passivate_after=60) as supervisor:
        await supervisor.start(two_waits, session="s")
        await anyio.sleep(10)
        store = fork(supervisor.store)
    with knowing_no_agents():
        async with opened(store) as supervisor:
            (question,) = [each for each in await supervisor.find_approvals() if each.kind == "question"]
            await supervisor.decide(question.id, Answer(by="ana", value="this"))
    if leaves:
        async with opened(store) as supervisor:
            await supervisor.resume("s")
            await anyio.sleep(1)
    async with opened(store, passivate_after=1) as supervisor:
        await supervisor.resume("s")
        await anyio.sleep(10)
        assert effects == ["this"]
        assert sessions_in_memory(supervisor) == set()
