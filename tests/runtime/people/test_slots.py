"""Slots limit the tasks at a time, the most urgent one is next, and a cancellation loses no slot."""

import anyio
import pytest

from supervisor.runtime.people.slots import URGENT, Slots

pytestmark = pytest.mark.anyio


async def hold(slots, rank, entered, gate=None):
    """Enter a slot, say so, and stay until the gate opens."""
    async with slots.taken(rank):
        entered.append(rank)
        if gate is not None:
            await gate.wait()


async def test_the_most_urgent_is_next_and_the_last_slot_is_kept_for_it():
    """Other tasks have two of the three slots."""
    slots, entered, gates = Slots(3), [], [anyio.Event() for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        for rank, gate in ((2, gates[0]), (2, gates[1]), (1, gates[2]), (URGENT, gates[2]), (2, None)):
            tasks.start_soon(hold, slots, rank, entered, gate)
            await anyio.sleep(1)
        assert entered == [2, 2, URGENT]
        gates[0].set()
        await anyio.sleep(1)
        assert entered == [2, 2, URGENT]  # two are held, and the third is kept
        gates[1].set()
        await anyio.sleep(1)
        assert entered == [2, 2, URGENT, 1]
        gates[2].set()
    assert entered == [2, 2, URGENT, 1, 2]


@pytest.mark.parametrize("is_given", [False, True])
async def test_a_task_that_is_cancelled_in_the_queue_leaves_its_slot_to_the_next(is_given):
    """So it is if the task is cancelled in the moment in which it gets the slot."""
    slots, entered = Slots(1), []
    async with anyio.create_task_group() as waiting, slots.taken(URGENT):
        waiting.start_soon(hold, slots, URGENT, entered)
        await anyio.sleep(1)
        waiting.cancel_scope.cancel()
        if not is_given:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
    with anyio.fail_after(1):
        await hold(slots, URGENT, entered)
    assert entered == [URGENT]
