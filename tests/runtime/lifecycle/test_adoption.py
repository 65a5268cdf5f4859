"""A daemon claims and runs trees without an owner: at its start, and when an entry for them comes (R2, R5)."""

from contextlib import nullcontext
from datetime import timedelta

import anyio
import pytest
from scenes import events, fork, knowing_no_agents, opened, replayed

from supervisor import (
    Approve,
    Context,
    MemoryStore,
    StoreRefused,
    StoreUnreadable,
    agent,
    open_supervisor,
    tool,
)
from supervisor.core import events as e
from supervisor.runtime.lifecycle.claim import LOOK_SECONDS, SILENT
from supervisor.seam.store import StoreAway

pytestmark = pytest.mark.anyio
ran: list[str] = []


@tool
async def work(name: str) -> str:
    ran.append(name)
    return name


@tool(policy="allow", timeout=1e9)
async def never_ending() -> None:
    await anyio.sleep_forever()


@agent
async def worker(ctx: Context, name: str) -> str:
    return (await ctx.call(work, name)).content


@agent
async def listener(ctx: Context) -> str:
    return await ctx.receive()


@agent
async def echo(ctx: Context, text: str) -> str:
    return text


@agent(inactivity_timeout=1e9)
async def wedged(ctx: Context) -> None:
    await ctx.call(never_ending)


@agent(inactivity_timeout=1e9)
async def napper(ctx: Context) -> str:
    await ctx.sleep(SILENT.total_seconds() * 2)
    return "awake"


@agent
async def dozer(ctx: Context) -> str:
    await ctx.sleep(300)
    return "awake"


async def mend() -> str:
    if "mended" not in ran:
        ran.append("mended")
        raise ConnectionError
    return "mended"


@agent(restart="transient", restart_delay=60, restart_period=1e6)
async def failing_once(ctx: Context) -> str:
    return await ctx.step(mend)


async def left_by_another_process(spec, *values, session: str = "left") -> MemoryStore:
    """Return the store that a killed process leaves."""
    async with opened() as supervisor:
        await supervisor.start(spec, *values, session=session)
        await anyio.sleep(1)
        left = fork(supervisor.store)
        await supervisor.cancel(session)
        return left


async def test_a_daemon_claims_a_tree_without_an_owner():
    """R2: it does so at its start. A decision then lets the run go on in the daemon."""
    ran.clear()
    store = await left_by_another_process(worker, "once")
    async with opened(store, adopt=True) as supervisor:
        (asked,) = await supervisor.find_approvals()
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert (await (await supervisor.get_run("left")).outcome()).value == "once"
    assert ran == ["once"]


async def test_a_daemon_claims_the_tree_of_an_owner_that_lived_between_two_looks(tmp_path):
    """R2: the attempt that began in another process shows that there was an owner."""
    async with opened(tmp_path / "s.db", adopt=True) as daemon:
        await anyio.sleep(LOOK_SECONDS * 1.1)
        async with opened(tmp_path / "s.db", create=False) as other:
            await other.start(worker, "once", session="s")
            await other.find_approvals()  # a program that answers leaves what waits to others
        await anyio.sleep(LOOK_SECONDS * 3)
        assert daemon.store.owns("s")


@pytest.mark.parametrize("adopt", [True, False])
async def test_a_message_to_an_unowned_tree_is_acted_on_by_a_daemon_only(adopt):
    """R2: the tree became open after the daemon's start. A program without the agent only records the message."""
    store = await left_by_another_process(listener)
    with nullcontext() if adopt else knowing_no_agents():
        await _send_to_what_nobody_owns(store, adopt=adopt)


async def _send_to_what_nobody_owns(store, *, adopt):
    async with opened(store, adopt=adopt) as supervisor:
        supervisor.store._owned.clear()  # its owner has died since
        await anyio.sleep(LOOK_SECONDS / 2)
        receipt = await supervisor.send("left", "hello", by="ana")
        await anyio.sleep(LOOK_SECONDS * 2)
        assert receipt.kind in ("kept", "delivered")
        assert ((await supervisor.get_session("left")).outcome is not None) == adopt


async def test_a_message_to_an_idle_session_begins_a_turn_in_a_daemon():
    """R2: the session has no owner, no owner has died, and it was not open when the daemon started."""
    async with opened() as supervisor:
        run = await supervisor.start(echo, "one", session="left")
        assert await run.result() == "one"
        store = fork(supervisor.store)
    async with opened(store, adopt=True) as supervisor:
        await anyio.sleep(LOOK_SECONDS * 2)
        await supervisor.send("left", "two", by="ana")
        with anyio.fail_after(5 * LOOK_SECONDS):
            assert (await (await supervisor.get_run("left")).outcome()).value == "two"


async def test_a_daemon_acts_on_a_decision_about_an_unowned_tree():
    """R2: a person decides while no process runs the tree; then the daemon starts."""
    ran.clear()
    store = await left_by_another_process(worker, "decided")
    with knowing_no_agents():
        async with opened(store) as supervisor:
            (asked,) = await supervisor.find_approvals()
            assert (await supervisor.decide(asked.id, Approve(by="ana"))).running is False
    assert ran == []
    async with opened(store, adopt=True) as supervisor:
        assert (await (await supervisor.get_run("left")).outcome()).value == "decided"


@pytest.mark.parametrize(
    ("spec", "values", "is_taken"), [(worker, ("x",), True), (napper, (), True), (wedged, (), False)]
)
async def test_a_silent_tree_is_not_claimed_unless_something_is_pending(spec, values, is_taken):
    """R5: silent means two hours without an entry, without a question and without a timer. `resume` claims it all the
    same."""
    store = await left_by_another_process(spec, *values)
    await anyio.sleep((SILENT + timedelta(minutes=1)).total_seconds())
    async with opened(store, adopt=True) as supervisor:
        await anyio.sleep(LOOK_SECONDS)
        assert store.owns("left") == is_taken
        await supervisor.resume_all()
        assert store.owns("left")
        await supervisor.cancel("left")


async def test_a_daemon_outlives_a_tree_that_is_removed_while_it_looks_at_it():
    """R2: the tree was listed as open and silent. It has ended and was pruned before its journal is read."""

    class Leaky(MemoryStore):
        def find_asked_in(self, roots, after, limit):
            found = super().find_asked_in(roots, after, limit)
            self._forget({"left"})
            return found

    left = await left_by_another_process(wedged)
    store = Leaky()
    vars(store).update(vars(left))
    await anyio.sleep((SILENT + timedelta(minutes=1)).total_seconds())
    async with opened(store, adopt=True) as supervisor:
        await anyio.sleep(LOOK_SECONDS)
        assert await (await supervisor.start(echo, "alive")).result() == "alive"


async def test_a_tree_is_run_that_a_start_has_claimed_where_the_store_is_away_then():
    """R2: the claim is on disk, and no other process would run the tree."""

    class Away(MemoryStore):
        is_away = True

        def find_open_in(self, roots):
            if self.is_away:
                self.is_away = False
                raise StoreAway("it does not answer")
            return super().find_open_in(roots)

    store = Away()
    vars(store).update(vars(await left_by_another_process(dozer)))
    async with opened(store) as supervisor:
        assert await (await supervisor.start(dozer, session="left")).result() == "awake"


async def test_an_old_decision_is_still_acted_on():
    """R5: the approval is not pending any more, but no run has received the decision yet."""
    ran.clear()
    store = await left_by_another_process(worker, "decided")
    with knowing_no_agents():
        async with opened(store) as supervisor:
            (asked,) = await supervisor.find_approvals()
            await supervisor.decide(asked.id, Approve(by="ana"))
    await anyio.sleep(SILENT.total_seconds() * 2)
    async with opened(store, adopt=True) as supervisor:
        with anyio.fail_after(5 * LOOK_SECONDS):
            assert (await (await supervisor.get_run("left")).outcome()).value == "decided"
    assert ran == ["decided"]


@pytest.mark.parametrize("age", [0.0, SILENT.total_seconds() * 2])
async def test_a_start_that_was_left_to_a_daemon_is_run_by_it_whenever_it_comes(age):
    """R2, R5: `supervisor start` wrote the first entries and was killed. No attempt has begun, and no entry follows."""
    async with opened() as command:
        command.leaves_runs = True
        assert (await command.start(echo, "hello", session="left")).is_new
        assert not (await command.start(echo, "hello", session="left")).is_new  # the same start again
        assert command.store.get_owner("left") is None
        assert not events(command.store, "left", e.AttemptStarted)
        store = fork(command.store)
    await anyio.sleep(age)
    async with opened(store, adopt=True) as daemon:
        with anyio.fail_after(5 * LOOK_SECONDS):
            assert await (await daemon.get_run("left")).result() == "hello"


async def test_a_running_daemon_adopts_what_was_left_to_it(tmp_path):
    """R2: no owner died, and no attempt has begun: the session itself is the sign."""
    async with opened(tmp_path / "s.db", adopt=True) as daemon:
        await anyio.sleep(LOOK_SECONDS * 1.1)
        async with opened(tmp_path / "s.db", create=False) as command:
            command.leaves_runs = True
            run = await command.start(echo, "hello", session="s")
            with anyio.fail_after(5 * LOOK_SECONDS):
                assert await run.result() == "hello"
        assert daemon.store.owns("s")


async def test_an_old_restart_that_is_due_is_still_made():
    """R5: the run has no open operation, and the next attempt has a due instant."""
    ran.clear()
    store = await left_by_another_process(failing_once)
    assert replayed(store, "left").timers
    await anyio.sleep(SILENT.total_seconds() * 2)
    async with opened(store, adopt=True) as supervisor:
        with anyio.fail_after(5 * LOOK_SECONDS):
            assert (await (await supervisor.get_run("left")).outcome()).value == "mended"


async def test_an_old_cancel_is_still_finished():
    """R5, W8: an accepted cancel is on disk. After a crash in the middle the next start finishes it."""
    store = await left_by_another_process(wedged)
    async with opened(store) as supervisor:
        now = supervisor._runner.clock.now()
        request = e.CancelRequested(at=now, by="ana", origin="left")
        await supervisor._runner.journal.append(lambda view: [("left", request)])
    await anyio.sleep(SILENT.total_seconds() * 2)
    async with opened(store, adopt=True) as supervisor:
        with anyio.fail_after(5 * LOOK_SECONDS):
            assert (await (await supervisor.get_run("left")).outcome()).kind == "cancelled"
    assert len(events(store, "left", e.RunFinished)) == 1


@pytest.mark.parametrize("fault", ["files", "disk", "journal"])
async def test_a_daemon_claims_later_a_tree_that_it_cannot_claim_at_once(fault):
    """R2: there are no descriptors for lock files, no space on the disk, or one of two trees cannot be read."""

    class Faulty(MemoryStore):
        is_faulty = True

        def owners(self):
            if self.is_faulty and fault == "files":
                raise OSError("too many open files")
            return super().owners()

        def claim(self, root):
            if self.is_faulty and fault == "disk":
                raise StoreRefused("the disk is full")
            return super().claim(root)

        def find_sessions(self, *, root=None, **more):
            if self.is_faulty and fault == "journal" and root == "broken":
                raise StoreUnreadable("damaged")
            return super().find_sessions(root=root, **more)

    store = Faulty()
    store.is_faulty = False
    for session in ("broken", "left"):
        with pytest.raises(LookupError):  # noqa: PT012 # what is tested is what comes after
            async with open_supervisor(store) as supervisor:
                await supervisor.start(dozer, session=session)
                await anyio.sleep(1)
                raise LookupError
    store.is_faulty = True
    async with opened(store, adopt=True) as supervisor:
        await anyio.sleep(10)
        store.is_faulty = fault == "journal"
        await anyio.sleep(100)
        assert len(events(store, "left", e.AttemptStarted)) == 2
        store.is_faulty = False
        assert (await (await supervisor.get_run("left")).outcome()).value == "awake"


async def test_a_daemon_that_claims_many_trees_reads_none_of_them_alone(caplog):
    """A read for each tree, also one for the log, is a round trip where a server has the store."""
    alone = []
    async with open_supervisor(MemoryStore(), passivate_after=1) as first:
        for number in range(60):
            await first.start(worker, "x", session=f"s{number}")
        await anyio.sleep(5)
        store = fork(first.store)
    get_session = store.get_session
    store.get_session = lambda session: alone.append(session) or get_session(session)
    with caplog.at_level("INFO"):
        async with open_supervisor(store, adopt=True):
            await anyio.sleep(1)
    assert (caplog.text.count("tree.claimed"), alone) == (60, [])
