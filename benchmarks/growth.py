"""Does a longer history make a session's next entry more expensive? The CPU of the 100th, 10,000th and 100,000th.

Sessions with histories of different lengths run in one process and are measured in turn: a call that asks no person, a
sub-agent that returns at once, a message that a parent of so many sub-agents receives, and one to a parent of so many
sub-agents that each wait for a decision. Durability: none. The stores
are in memory, where no disk hides the other costs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import process_time
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report
from benchmarks.scenes import FOREVER, Left
from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.runtime.local import LocalSupervisor

AT_ONCE = 50
"""Entries between two readings of the clock."""
BUSY = 3600
"""Seconds for which a session may wait for the benchmark."""


class Turns:
    """Lets a session work when the benchmark says so: it does `count` operations, and waits for its next turn."""

    def __init__(self) -> None:
        self.count = 0
        self._begun, self._waits = anyio.Event(), anyio.Event()

    async def wait(self) -> int:
        """Wait in the session for its turn; return how many operations it is to do."""
        self._waits.set()
        await self._begun.wait()
        return self.count

    async def begin(self, count: int) -> None:
        """Let the session do so many operations."""
        await self._waits.wait()
        self.count, self._waits = count, anyio.Event()
        self._begun.set()
        self._begun = anyio.Event()

    async def end(self) -> None:
        """Wait until the session waits for its next turn."""
        await self._waits.wait()


turns: dict[str, Turns] = {}


@tool(policy="allow")
async def note(number: int) -> int:
    """Ask no person, and do nothing."""
    return number


@agent
async def leaf(ctx: Context) -> None:
    """Return at once."""


@agent(inactivity_timeout=BUSY)
async def caller(ctx: Context, name: str) -> None:
    """Make calls."""
    number = 0
    while True:
        for _ in range(await turns[name].wait()):
            number += 1
            await ctx.call(note, number)


@agent(max_children=1_000_000, inactivity_timeout=BUSY)
async def spawner(ctx: Context, name: str) -> None:
    """Run sub-agents, one at a time."""
    while True:
        for _ in range(await turns[name].wait()):
            await ctx.run(leaf)


@agent(max_children=1_000_000, inactivity_timeout=BUSY)
async def listener(ctx: Context, name: str) -> None:
    """Run sub-agents, one at a time; then receive messages."""
    for _ in range(await turns[name].wait()):
        await ctx.run(leaf)
    while True:
        for _ in range(await turns[name].wait()):
            await ctx.receive()


@tool
async def act(number: int) -> int:
    """Ask a person, and do nothing."""
    return number


@agent(inactivity_timeout=BUSY)
async def asker(ctx: Context) -> None:
    """Ask, and wait for the decision."""
    await ctx.call(act, 1)


@agent(max_children=1_000_000, max_live_children=1_000_000, inactivity_timeout=BUSY)
async def waiter(ctx: Context, name: str) -> None:
    """Start sub-agents that wait; then receive messages."""
    for _ in range(await turns[name].wait()):
        await ctx.spawn(asker)
    while True:
        for _ in range(await turns[name].wait()):
            await ctx.receive()


async def work(supervisor: LocalSupervisor, name: str) -> None:
    """Let a session do as many operations as are measured at once."""
    await turns[name].begin(AT_ONCE)
    await turns[name].end()


async def tell(supervisor: LocalSupervisor, name: str) -> None:
    """Send a session as many messages as are measured at once, and let it receive them."""
    await turns[name].begin(AT_ONCE)
    for _ in range(AT_ONCE):
        await supervisor.send(name, "go on", by="ana")
    await turns[name].end()


Measure = Callable[[LocalSupervisor, str], Awaitable[None]]


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    calls, children = ((10, 100), (10, 50)) if smoke else ((100, 10_000, 100_000), (100, 10_000))
    questions: list[tuple[str, Any, Measure, tuple[int, ...]]] = [
        ("a call", caller, work, calls),
        ("a sub-agent", spawner, work, children),
        ("a message to a parent", listener, tell, children),
        ("a message to a parent whose sub-agents wait", waiter, tell, children),
    ]
    for what, agent_, measure, lengths in questions:
        for backend in BACKENDS:
            taken = anyio.run(partial(_grow, agent_, measure, lengths, 2 if smoke else 40), backend=backend)
            report.compare(f"CPU of {what} after a history of {lengths}, {backend}", "none: a store in memory")
            for length in lengths:
                report.values(f"after {length:,}", taken[length], "us", 1e6 / AT_ONCE)
            for length in lengths[1:]:
                name = f"{what} after {length:,} over after {lengths[0]}, {backend}"
                report.ratio(name, taken[length], taken[lengths[0]], at_most=1.2)
    return {"rows": report.rows}


async def _grow(agent_: Any, measure: Measure, lengths: tuple[int, ...], rounds: int) -> dict[int, list[float]]:
    """Return the CPU seconds of each round, by the length of the history."""
    taken: dict[int, list[float]] = {length: [] for length in lengths}
    try:
        async with open_supervisor(MemoryStore(), passivate_after=FOREVER, tune_interpreter=True) as supervisor:
            for length in lengths:
                await _start(supervisor, agent_, measure, length)
            for _ in range(rounds):
                for length in lengths:
                    begun = process_time()
                    await measure(supervisor, f"after-{length}")
                    taken[length].append(process_time() - begun)
            raise Left
    except Left:
        return taken


async def _start(supervisor: LocalSupervisor, agent_: Any, measure: Measure, length: int) -> None:
    """Start a session, and let it make its history and one round more, to warm up."""
    name = f"after-{length}"
    turns[name] = Turns()
    await supervisor.start(agent_, name, session=name)
    await turns[name].begin(length)
    await turns[name].end()
    await measure(supervisor, name)
