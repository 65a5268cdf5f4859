"""How many full cycles run in a second (ask, sync, decide, sync, go on, finish), with 1,000 at the same time?

And what does durability cost? The same with synchronous=NORMAL, where a power cut may lose acknowledged commits. The
benchmark sets that on the store's connection; the product has no such option.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, interleave, scratch
from benchmarks.scenes import FOREVER, PAYLOAD, Left, start
from supervisor import Approve, Run, SqliteStore, open_supervisor
from supervisor.runtime.local import LocalSupervisor


class Careless(SqliteStore):
    """A store whose commits are not synced."""

    def open(self) -> None:
        super().open()
        self._writer.execute("PRAGMA synchronous = NORMAL")


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    count, repetitions = (50, 1) if smoke else (1_000, 5)
    with scratch() as folder:
        sides: dict[str, Any] = {}
        for backend in BACKENDS:
            for kind in (SqliteStore, Careless):
                sides[f"{backend} {kind.__name__}"] = partial(anyio.run, cycles, folder, count, kind, backend=backend)
        found = interleave(sides, repetitions)
    report.compare(
        f"Full cycles per second, {count} at the same time",
        "SQLite WAL synchronous=FULL: request, decision, `executing`, result and outcome are on disk; and with NORMAL",
    )
    for backend in BACKENDS:
        full, careless = found[f"{backend} SqliteStore"], found[f"{backend} Careless"]
        report.values(f"{backend}: cycles per second, FULL", full, "/s")
        report.values(f"{backend}: cycles per second, NORMAL", careless, "/s")
        report.ratio(f"FULL over NORMAL, {backend}", full, careless, at_least=0.8)
    return {"rows": report.rows, "per_second": {backend: found[f"{backend} SqliteStore"] for backend in BACKENDS}}


async def cycles(folder: Path, count: int, kind: type[SqliteStore] = SqliteStore) -> float:
    """Return cycles per second: all agents ask, all approvals are pending together, all are decided, all finish."""
    try:
        async with open_supervisor(
            kind(folder / f"{perf_counter()}.db"), passivate_after=FOREVER, tune_interpreter=True
        ) as supervisor:
            begun = perf_counter()
            runs = await start(supervisor, range(count), PAYLOAD, at_once=count)
            async with anyio.create_task_group() as tasks:
                for approval in await supervisor.find_approvals(limit=None):
                    tasks.start_soon(_decide, supervisor, approval.id, runs[approval.session])
            raise Left(count / (perf_counter() - begun))
    except Left as left:
        return float(left.args[0])


async def _decide(supervisor: LocalSupervisor, approval: str, run: Run[Any]) -> None:
    await supervisor.decide(approval, Approve(by="a"))
    assert (await run.outcome()).kind == "succeeded"
