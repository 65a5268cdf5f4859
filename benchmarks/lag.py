"""How long is the event loop blocked while every sync of the disk takes 50 ms?

The slow disk is a Store of this benchmark that waits before each commit. A task that only yields and reads the clock
measures how long the loop was blocked, while sub-agents ask, are decided, and go on.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, interleave, percentile, scratch
from benchmarks.scenes import waiting
from supervisor import Approve, SqliteStore

SYNC = 0.05


class SlowDisk(SqliteStore):
    """A store in which every commit takes `delay` longer."""

    delay = 0.0

    def commit(self) -> None:
        time.sleep(self.delay)
        super().commit()


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    count, repetitions = (3, 1) if smoke else (20, 3)
    report.compare(
        f"Loop lag while every fsync takes {SYNC * 1e3:.0f} ms, {count} decisions", "SQLite WAL synchronous=FULL"
    )
    with scratch() as folder:
        sides = {backend: partial(anyio.run, _lag, folder, count, backend=backend) for backend in BACKENDS}
        found = interleave(sides, repetitions)
    for backend in BACKENDS:
        idle = [percentile(idle, 0.999) * 1e3 for idle, _, _ in found[backend]]
        report.values(f"{backend}: lag of the idle loop, p99.9 (this machine's own)", idle, "ms")
        worst = [max(slow) * 1e3 for _, slow, _ in found[backend]]
        report.values(f"{backend}: worst lag", worst, "ms")
        most = [percentile(slow, 0.999) * 1e3 for _, slow, _ in found[backend]]
        report.ratio(f"loop lag with a disk of 50 ms, {backend}, p99.9", most, at_most=10, unit="ms")
        report.values(f"{backend}: decision -> run finished", [took for *_, took in found[backend]], "ms", 1e3)
    return {"rows": report.rows}


async def _lag(folder: Path, count: int) -> tuple[list[float], list[float], float]:
    store = SlowDisk(folder / f"{perf_counter()}.db")
    async with waiting(store, count) as (supervisor, approvals), anyio.create_task_group() as tasks:
        idle: list[float] = []
        tasks.start_soon(_look, idle)
        await anyio.sleep(0.5)
        tasks.cancel_scope.cancel()
    store = SlowDisk(folder / f"{perf_counter()}.db")
    async with waiting(store, count) as (supervisor, approvals), anyio.create_task_group() as tasks:
        store.delay = SYNC
        await supervisor.decide(approvals[0].id, Approve(by="a"))  # from here on the store has measured its disk
        slow: list[float] = []
        tasks.start_soon(_look, slow)
        begun = perf_counter()
        for approval in approvals[1:]:
            await supervisor.decide(approval.id, Approve(by="a"))
            await (await supervisor.get_run(approval.session)).outcome()
        took = (perf_counter() - begun) / (count - 1)
        tasks.cancel_scope.cancel()
        store.delay = 0.0
    return idle, slow, took


async def _look(lags: list[float]) -> None:
    while True:
        before = perf_counter()
        await anyio.sleep(0.001)
        lags.append(perf_counter() - before - 0.001)
