"""Do 10,000 sub-agents with a budget of 60 s wait a simulated month each without a false stall? How long does it take?

Time is virtual, on both backends, and the store is in memory. A third of them are children that wait live. All are
decided at the end of the month and must succeed. Durability: none, since the benchmark is about time.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from time import perf_counter
from typing import Any

import anyio

from benchmarks.agents import asker, parent
from benchmarks.measure import Report, interleave
from benchmarks.scenes import FOREVER
from supervisor import Approve, MemoryStore, open_supervisor
from supervisor.testing import virtual_asyncio, virtual_trio

MONTH = 30 * 86_400.0


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    count = 100 if smoke else 10_000
    sides: dict[str, Any] = {}
    for name, (backend, options) in {"asyncio": virtual_asyncio(), "trio": virtual_trio()}.items():
        for how, passivate_after in (("live", FOREVER), ("passivated", 60.0)):
            run_ = partial(anyio.run, _month, count, passivate_after, backend=backend, backend_options=options)
            sides[f"{name}, {how}"] = run_
    found = interleave(sides, 1)
    report.compare(f"{count} sub-agents with a budget of 60 s wait for a simulated month")
    for name, runs in found.items():
        report.ratio(f"a simulated month, {name}: false stalls", [float(s) for s, *_ in runs], at_most=0, unit="")
        report.values(f"{name}: of it the wait itself", [waited for *_, waited in runs], "s")
        report.ratio(f"a simulated month, {name}: in all", [took for _, took, _ in runs], at_most=60, unit="s")
    return {"rows": report.rows}


async def _month(count: int, passivate_after: float) -> tuple[int, float, float]:
    begun = perf_counter()
    async with open_supervisor(MemoryStore(), passivate_after=passivate_after, tune_interpreter=True) as supervisor:
        children = count // 3
        tree = await supervisor.start(parent, children)
        runs = [await supervisor.start(asker, str(number)) for number in range(count - children)]
        await anyio.sleep(10)
        waiting = perf_counter()
        await anyio.sleep(MONTH)
        waited = perf_counter() - waiting
        approvals = await supervisor.find_approvals(limit=None)
        assert len(approvals) == count, len(approvals)
        for approval in approvals:
            await supervisor.decide(approval.id, Approve(by="a"))
        ends = Counter([(await run_.outcome()).kind for run_ in runs])
        ended = (await tree.outcome()).value
    return count - ends["succeeded"] - (ended or 0), perf_counter() - begun, waited
