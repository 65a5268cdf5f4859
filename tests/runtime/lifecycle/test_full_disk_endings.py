"""A5: a full disk suspends runs and does nothing else. No supervisor fails, no caller waits for ever, and all runs can
be resumed."""

import anyio
import pytest
from scenes import HeldStore, names, opened, sessions_in_memory
from watching import next_of

from supervisor import Approve, Context, MemoryStore, StoreDied, StoreRefused, agent, open_supervisor, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
faults: list[str] = []


class FullStore(HeldStore):
    """A store whose disk refuses writes while `is_full`."""

    is_full = False
    is_broken = False

    def write(self, rows) -> None:
        if self.is_full and rows:
            raise StoreRefused("the disk is full")
        super().write(rows)

    def rollback(self) -> None:
        super().rollback()
        if self.is_broken:
            raise StoreDied("what was written could not be taken back")


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent(inactivity_timeout=5, stop_timeout=5)
async def stubborn(ctx: Context) -> str:
    await ctx.spawn(deployer, "below")
    with anyio.CancelScope(shield=not faults):
        await anyio.sleep(40 if not faults else 0)
    return "done"


@agent
async def fails_first(ctx: Context) -> str:
    child = await ctx.spawn(deployer, "below")
    await ctx.sleep(5)
    if not faults:
        raise ValueError("not yet")
    return await child.result()


@pytest.fixture(autouse=True)
def _no_faults():
    faults.clear()


async def test_a_run_that_is_abandoned_while_the_disk_is_full_harms_no_other():
    """W13: the other trees go on, and so does its own when there is space again."""
    store = FullStore()
    async with opened(store) as supervisor:
        other = await supervisor.start(deployer, "x", session="other")
        await supervisor.start(stubborn, session="s")
        await anyio.sleep(6)
        store.is_full = True
        await anyio.sleep(10)
        assert "s" in supervisor.refusals
        store.is_full = False
        faults.append("mended")
        run = await supervisor.resume("s")  # its attempt still ignores its end
        for approval in await supervisor.find_approvals():
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert (await run.result(), await other.result()) == ("done", "ok")
    assert names(store, "s").count("RunFinished") == 1


async def test_an_ending_that_the_store_refused_is_dropped():
    """W9: a run below it that ends afterwards has its own outcome, and its parent is told."""
    store = FullStore()
    async with opened(store) as supervisor:
        await supervisor.start(fails_first, session="s")
        approval = await next_of(supervisor.watch_approvals())
        store.is_full = True
        await anyio.sleep(10)
        store.is_full = False
        faults.append("mended")
        await supervisor.decide(approval.id, Approve(by="ana"))
        await anyio.sleep(10)
        assert "RunFinished" in names(store, approval.session)
        run = await supervisor.resume("s")
        assert await run.result() == "ok"


@pytest.mark.parametrize("is_held", [False, True])
async def test_a_refusal_that_cannot_be_rolled_back_is_the_death_of_the_store(is_held):
    """A5: all waiting callers are told, whether they commit at once or in a group."""
    store, told = FullStore(), []

    async def decide(supervisor, approval: str) -> None:
        with pytest.raises(StoreDied):
            await supervisor.decide(approval, Approve(by="ana"))
        told.append(approval)

    with pytest.raises(StoreDied):  # noqa: PT012 # what is tested is how the block is left
        async with open_supervisor(store) as supervisor, anyio.create_task_group() as tasks:
            run = await supervisor.start(deployer, "x")
            approval = await next_of(run.watch_approvals())
            store.is_full, store.is_broken, store.is_held = True, True, is_held
            for _ in range(3):
                tasks.start_soon(decide, supervisor, approval.id)
            await anyio.sleep(1)
            store.is_held = False
            with anyio.fail_after(60):
                while len(told) < 3:
                    await anyio.sleep(1)


class FullForEndings(MemoryStore):
    """Refuses outcomes while `is_full`, and records which outcomes came in one append."""

    is_full = False

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[str]] = []

    def write(self, rows) -> None:
        ended = [row.session for row in rows if isinstance(row.event, e.RunFinished)]
        if ended and self.is_full:
            raise StoreRefused("the disk is full")
        super().write(rows)
        self.appends += [ended] if ended else []


@agent
async def below(ctx: Context, levels: int) -> None:
    """Spawns a chain of levels, and waits. Each level takes a second longer to end than the one below it."""
    if levels:
        await ctx.spawn(below, levels - 1)
    try:
        await ctx.receive()
    finally:
        with anyio.CancelScope(shield=bool(levels)):
            await anyio.sleep(levels)


@agent
async def fails_above(ctx: Context) -> None:
    await ctx.spawn(below, 2)
    await ctx.sleep(5)
    raise ValueError


@pytest.mark.parametrize("how", ["a cancel", "a failure"])
async def test_a_tree_ends_in_one_append_deepest_first(how):
    """W8: a run whose parent is ending, too, leaves its outcome to the parent, even if it has ended early itself."""
    store = FullForEndings()
    async with opened(store) as supervisor:
        run = await (supervisor.start(fails_above) if how == "a failure" else supervisor.start(below, 3))
        await anyio.sleep(1)
        if how == "a cancel":
            await supervisor.cancel(run.session)
        await run.outcome()
    (ended,) = store.appends
    assert [len(store.get_session(session).path) for session in ended] == [4, 3, 2, 1]


async def test_outcomes_that_were_left_to_a_refused_ending_are_dropped():
    """W9: no session of the tree stays in memory, and the next process that ends the tree ends all of it."""
    store = FullForEndings()
    store.is_full = True
    async with opened(store) as supervisor:
        await supervisor.start(fails_above, session="s")
        await anyio.sleep(20)
        assert "s" in supervisor.refusals
        assert sessions_in_memory(supervisor) == set()
        store.is_full = False
        await supervisor.cancel("s")
        await (await supervisor.get_run("s")).outcome()
    (ended,) = store.appends
    assert len(ended) == 4
