"""Operations are named by their arguments, and equal values have equal names in every process."""

import pytest

from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


@tool(policy="allow")
async def total(numbers: set[int]) -> int:
    return sum(numbers)


async def largest(numbers: set[int]) -> int:
    return max(numbers)


@agent
async def adder(ctx: Context, is_reversed: bool) -> None:
    numbers = {8, 0} if is_reversed else {0, 8}
    await ctx.call(total, numbers)
    await ctx.step(largest, numbers)


async def test_a_set_names_the_same_operation_in_every_order():
    """Otherwise a run that another process resumes would diverge."""
    assert [*{8, 0}] != [*{0, 8}]
    async with open_supervisor(MemoryStore()) as supervisor:
        named = []
        for is_reversed in (False, True):
            run = await supervisor.start(adder, is_reversed)
            await run.result()
            events = [row.event for row in await supervisor.find_entries(run.session)]
            asked = [event for event in events if isinstance(event, (e.ToolCallRequested, e.OperationFinished))]
            named.append([(event.operation, getattr(event, "digest", None)) for event in asked])
    assert named[0] == named[1]
    assert len(named[0]) == 2
