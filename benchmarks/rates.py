"""How many decisions does a store take in a second, with 1,000 pending, compared with batched rows in SQLite?

All decisions are made at the same time, as by a program that clears an inbox, so that commits are grouped.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, interleave, scratch
from benchmarks.scenes import sqlite_rows_per_second, waiting
from supervisor import Approve
from supervisor.runtime.local import LocalSupervisor


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    count, repetitions = (100, 1) if smoke else (1_000, 5)
    with scratch() as folder:
        sides: dict[str, Any] = {"sqlite": lambda: sqlite_rows_per_second(folder, 1_000 if smoke else 50_000)}
        for backend in BACKENDS:
            sides[backend] = partial(anyio.run, _decisions, folder, count, backend=backend)
        found = interleave(sides, repetitions)
    report.compare(f"Decisions per second, {count} pending, all at once", "SQLite WAL synchronous=FULL on both sides")
    report.values("SQLite rows per second, batches of 1,000", found["sqlite"], "/s")
    for backend in BACKENDS:
        report.values(f"{backend}: decisions per second", found[backend], "/s")
        report.ratio(f"decisions/s over SQLite rows/s, {backend}", found[backend], found["sqlite"])
    return {"rows": report.rows}


async def _decisions(folder: Path, count: int) -> float:
    async with waiting(folder / f"{perf_counter()}.db", count) as (supervisor, approvals):
        begun = perf_counter()
        async with anyio.create_task_group() as tasks:
            for approval in approvals:
                tasks.start_soon(_decide, supervisor, approval.id)
        return count / (perf_counter() - begun)


async def _decide(supervisor: LocalSupervisor, approval: str) -> None:
    assert (await supervisor.decide(approval, Approve(by="a"))).kind == "accepted"
