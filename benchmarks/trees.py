"""How long does it take to cancel a tree of 1,000 waiting descendants, until the end of the last one is journaled?

Wide (one parent), and deep (three levels: 10, 90 and 900). Durability: SQLite WAL synchronous=FULL; the cancel of
all and their outcomes are on disk.
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from benchmarks.agents import asker, parent
from benchmarks.measure import BACKENDS, Report, interleave, scratch
from benchmarks.scenes import FOREVER, Left, commit, count_pending, plain_sqlite
from supervisor import Context, agent, open_supervisor


@agent(inactivity_timeout=3600)
async def branching(ctx: Context, widths: list[int]) -> int:
    """Have so many sub-agents, which have as many as it says next, down to those that ask."""
    width, *below = widths
    agent_, input_ = (branching, below) if below else (asker, "deep")
    children: list[Any] = [await ctx.spawn(agent_, input_) for _ in range(width)]
    return sum([(await child.outcome()).kind == "succeeded" for child in children])


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    shapes = (
        {"wide, 50": (parent, 50, 50)}
        if smoke
        else {
            "wide, 1,000": (parent, 1_000, 1_000),
            "deep, 1,000": (branching, [10, 9, 10], 900),
        }
    )
    with scratch() as folder:
        for name, (top, input_, pending) in shapes.items():
            sides = {b: partial(anyio.run, _cancel, folder, top, input_, pending, backend=b) for b in BACKENDS}
            found = interleave(sides, 1 if smoke else 3)
            report.compare(f"Cancelling a tree, {name} descendants, all waiting", "SQLite WAL synchronous=FULL")
            for backend in BACKENDS:
                report.values(f"{backend}: in plain commits", [took / plain for took, plain in found[backend]], "x")
                took = [took * 1e3 for took, _ in found[backend]]
                report.ratio(f"cancelling a tree, {name}, {backend}", took, at_most=200, unit="ms")
    return {"rows": report.rows}


async def _cancel(folder: Path, top: Any, input_: Any, pending: int) -> tuple[float, float]:
    connection = plain_sqlite(folder / "plain.db")
    plain = statistics.median(commit(connection) for _ in range(50))
    connection.close()
    try:
        async with open_supervisor(
            folder / f"{perf_counter()}.db", passivate_after=FOREVER, tune_interpreter=True
        ) as supervisor:
            run_ = await supervisor.start(top, input_)
            while count_pending(supervisor) < pending:
                await anyio.sleep(0.01)
            await anyio.sleep(0.1)
            begun = perf_counter()
            await run_.cancel("enough")
            assert (await run_.outcome()).kind == "cancelled"
            took = perf_counter() - begun
            assert not await supervisor.find_sessions(is_open=True)
            raise Left(took, plain)
    except Left as left:
        return left.args[0], left.args[1]
