"""A sealed attempt: operations that wait inside a shield of the agent are released, and have no effect."""

from functools import partial

import anyio
import pytest
from scenes import HeldStore, deploy, effects, events, names, opened

from supervisor import Context, MemoryStore, agent, open_supervisor
from supervisor.core import events as e
from supervisor.core.errors import Suspended

pytestmark = pytest.mark.anyio


class Left(Exception):
    """Raised by the body of a supervisor to leave it half-way."""


@agent
async def asks_in_both_branches(ctx: Context) -> None:
    """In the second run, its first branch waits for another key than before."""

    async def first(inner: Context) -> None:
        if "again" in effects:
            await anyio.sleep_forever()
        await inner.call(deploy, "first")

    async def second(inner: Context) -> None:
        if "again" in effects:
            with anyio.move_on_after(50, shield=True):
                await inner.call(deploy, "second")
        await anyio.sleep_forever()

    async with ctx.task_group() as group:
        group.start_soon(first)
        group.start_soon(second)


async def test_a_shielded_operation_at_the_barrier_does_not_delay_the_stop():
    """R8: the agent will not ask for the rest of its journal any more."""
    store = MemoryStore()
    for _ in range(2):
        with pytest.raises(Left):  # noqa: PT012 # what is tested is how the block is left
            async with open_supervisor(store) as supervisor:
                if effects:
                    await supervisor.resume("s")
                else:
                    await supervisor.start(asks_in_both_branches, session="s")
                await anyio.sleep(5)
                effects.append("again")
                left = anyio.current_time()
                raise Left
        assert anyio.current_time() - left < 1
    assert len(events(store, "s", e.ToolCallRequested)) == 1
    assert events(store, "s", e.RunFinished) == []


@agent
async def waits(ctx: Context) -> None:
    await ctx.call(deploy, "x")


@pytest.mark.parametrize("how", ["append", "deliver"])
async def test_an_append_of_a_sealed_attempt_is_refused(how):
    """W8: even an append that was under way when the attempt was sealed."""
    async with opened() as supervisor:
        await supervisor.start(waits, session="s")
        await anyio.sleep(1)
        attempt, journal = supervisor._runner.attempts.live["s"], names(supervisor.store, "s")
        attempt.seal()
        said = e.MessageSent(at=attempt.host.clock.now(), text="said")
        acts = {
            "append": partial(attempt.append, lambda view, state: [said]),
            "deliver": partial(attempt.deliver, lambda: said),
        }
        with pytest.raises(Suspended):
            await acts[how]()
        assert names(supervisor.store, "s") == journal
        assert not supervisor._runner.journal.count_notes("s")


@agent
async def gives_up_waiting(ctx: Context) -> None:
    with anyio.move_on_after(5):
        await ctx.call(deploy, "x")
    await anyio.sleep_forever()


async def test_a_call_that_is_given_up_as_the_run_is_suspended_stays_as_it_was():
    """W8: the entry that abandons it was waiting for another process's lock. The approval stays pending."""
    store = HeldStore()
    async with anyio.create_task_group() as tasks:
        with pytest.raises(Left):  # noqa: PT012 # what is tested is how the block is left
            async with open_supervisor(store) as supervisor:
                await supervisor.start(gives_up_waiting, session="s")
                await anyio.sleep(4)
                store.is_held = True
                await anyio.sleep(2)
                tasks.start_soon(let_go_after, store, 2)
                raise Left
    assert events(store, "s", (e.OperationAbandoned, e.ApprovalWithdrawn)) == []
    assert [approval.status for approval in store.find_approvals()] == ["pending"]


async def let_go_after(store, seconds: float) -> None:
    await anyio.sleep(seconds)
    store.is_held = False
