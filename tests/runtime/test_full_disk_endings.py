"""A5: a disk that is full holds runs up, and nothing else: no supervisor falls, nobody waits for ever, all of it can be
resumed."""

import anyio
import pytest
from scenes import HeldStore, names, opened

from supervisor import Approve, Context, StoreDied, StoreRefused, agent, open_supervisor, tool

pytestmark = pytest.mark.anyio
faults: list[str] = []


class FullStore(HeldStore):
    """A disk that takes no more while `is_full`, as soon as it is written to."""

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


async def test_a_run_that_is_given_up_while_the_disk_is_full_takes_nobody_down():
    """W13: neither the other trees nor, when there is room again, its own."""
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
        (run,) = await supervisor.resume("s")  # its attempt still ignores its end
        for approval in supervisor.find_approvals():
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert (await run.result(), await other.result()) == ("done", "ok")
    assert names(store, "s").count("RunFinished") == 1


async def test_an_ending_that_the_disk_did_not_take_is_counted_on_by_nobody():
    """W9: what ends below it afterwards has its outcome, and the parent learns of it."""
    store = FullStore()
    async with opened(store) as supervisor:
        await supervisor.start(fails_first, session="s")
        approval = await anext(supervisor.approvals())
        store.is_full = True
        await anyio.sleep(10)
        store.is_full = False
        faults.append("mended")
        await supervisor.decide(approval.id, Approve(by="ana"))
        await anyio.sleep(10)
        assert "RunFinished" in names(store, approval.session)
        (run,) = await supervisor.resume("s")
        assert await run.result() == "ok"


@pytest.mark.parametrize("is_held", [False, True])
async def test_a_refusal_that_cannot_be_taken_back_is_the_stores_death(is_held):
    """A5: whoever waits is told, whether they commit at once or gather."""
    store, told = FullStore(), []

    async def decide(supervisor, approval: str) -> None:
        with pytest.raises(StoreDied):
            await supervisor.decide(approval, Approve(by="ana"))
        told.append(approval)

    with pytest.raises(StoreDied):  # noqa: PT012 # what is tested is how the block is left
        async with open_supervisor(store) as supervisor, anyio.create_task_group() as tasks:
            run = await supervisor.start(deployer, "x")
            approval = await anext(run.approvals())
            store.is_full, store.is_broken, store.is_held = True, True, is_held
            for _ in range(3):
                tasks.start_soon(decide, supervisor, approval.id)
            await anyio.sleep(1)
            store.is_held = False
            with anyio.fail_after(60):
                while len(told) < 3:
                    await anyio.sleep(1)
