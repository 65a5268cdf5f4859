"""The agents that are measured, and when they got where. Importable, since a start in a new process resumes them."""

from time import perf_counter

import anyio

from supervisor import Context, agent, tool

effects: dict[str, float] = {}
"""When the approved call of each note began."""
went_on: dict[str, float] = {}
"""When the agent of each note ran on with its call's result."""
gate: list[anyio.Event] = []
"""Opened when all workers have been started: from then on they wake as often as bare tasks do."""
news: list[anyio.Event] = []
"""Set when any of them does."""


@tool
async def act(note: str, payload: str) -> str:
    """Ask a person, and do nothing."""
    effects[note] = perf_counter()
    return note


@agent
async def asker(ctx: Context, note: str) -> str:
    """Ask once: the sub-agent whose cost is measured. The note says how long a payload the approval has."""
    result = await ctx.call(act, note, "x" * int(note.partition(" ")[2] or 0))
    went_on[note] = perf_counter()
    for event in news:
        event.set()
    return result.content


@agent(max_children=1_000_000, max_live_children=1_000_000, inactivity_timeout=3600)
async def parent(ctx: Context, count: int) -> int:
    """Have sub-agents that each ask, and wait for all."""
    children = [await ctx.spawn(asker, str(number)) for number in range(count)]
    return sum([(await child.outcome()).kind == "succeeded" for child in children])


@agent(inactivity_timeout=3600)
async def worker(ctx: Context, number: int) -> None:
    """Work without an end, and show progress now and then, no two thousand at the same time."""
    await gate[0].wait()
    await anyio.sleep(number % 380 / 10)
    while True:
        ctx.heartbeat()
        await anyio.sleep(30 + number % 17)
