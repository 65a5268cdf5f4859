"""The agents that are measured, and the instants that they note. Importable, since a new process resumes them."""

from time import perf_counter

import anyio

from benchmarks import instants
from supervisor import Context, agent, tool

effects: dict[str, float] = {}
"""The instant when the approved call of each note began."""
gate: list[anyio.Event] = []
"""Opened when all workers have started: from then on they wake as often as bare tasks do."""


@tool
async def act(note: str, payload: str) -> str:
    """Ask a person, and do nothing."""
    effects[note] = perf_counter()
    return note


@agent
async def asker(ctx: Context, note: str) -> str:
    """Ask once: the sub-agent whose cost is measured. The note gives the size of the approval's payload."""
    result = await ctx.call(act, note, "x" * int(note.partition(" ")[2] or 0))
    instants.note_that_it_went_on(note)
    return result.content


@agent(max_children=1_000_000, max_live_children=1_000_000, inactivity_timeout=3600)
async def parent(ctx: Context, count: int) -> int:
    """Start sub-agents that each ask, and wait for all."""
    children = [await ctx.spawn(asker, str(number)) for number in range(count)]
    return sum([(await child.outcome()).kind == "succeeded" for child in children])


@agent(inactivity_timeout=3600)
async def worker(ctx: Context, number: int) -> None:
    """Work without an end and show progress from time to time, at instants spread over the workers."""
    await gate[0].wait()
    await anyio.sleep(number % 380 / 10)
    while True:
        ctx.heartbeat()
        await anyio.sleep(30 + number % 17)
