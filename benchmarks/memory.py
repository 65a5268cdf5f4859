"""What does a waiting sub-agent cost in memory and on disk?

Live: traced by tracemalloc, against a bare anyio task that waits for an event in a cancel scope. The agent's input and
arguments are one word each, so that the memory is the supervisor's. Passivated: the memory that remains for each
approval that waits only on disk. Disk: the store's files per pending approval, against its payload.
Each measurement has its own process. Durability: SQLite WAL synchronous=FULL; nothing is timed.
"""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, in_new_process, interleave, scratch
from benchmarks.scenes import FOREVER, start, until_asleep, waiting

PAYLOAD = 700


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    count, repetitions = (20, 1) if smoke else (5_000, 2)
    sides = {
        f"{backend} {side}": partial(in_new_process, measure, backend, side, count)
        for backend in BACKENDS
        for side in ("bare", "live", "passivated")
    }
    found = interleave(sides, repetitions)
    report.compare(f"Memory and disk of {count} sub-agents that wait", "each approval is in SQLite, WAL, FULL")
    for backend in BACKENDS:
        bare, live, passivated = (found[f"{backend} {side}"] for side in ("bare", "live", "passivated"))
        report.values(f"{backend}: a bare task + event + scope", [each["memory"] for each in bare], "KiB", 1 / 1024)
        report.values(f"{backend}: a sub-agent that waits live", [each["memory"] for each in live], "KiB", 1 / 1024)
        ours, theirs = ([each["memory"] for each in side] for side in (live, bare))
        report.ratio(f"memory, live over a bare task, {backend}", ours, theirs, at_most=2.5)
        kept = [each["memory"] / 1024 for each in passivated]
        report.ratio(f"memory of a passivated approval, {backend}", kept, at_most=1.5, unit="KiB")
    disk = [each["disk"] / PAYLOAD for backend in BACKENDS for each in found[f"{backend} live"]]
    report.ratio(f"disk per pending approval over its payload of {PAYLOAD} B", disk, at_most=2.5)
    asleep = [each["disk"] / PAYLOAD for backend in BACKENDS for each in found[f"{backend} passivated"]]
    report.ratio("the same, passivated", asleep, at_most=2.5)
    return {"rows": report.rows}


def measure(backend: str, side: str, count: int) -> dict[str, float]:
    sides = {"bare": _bare, "live": _live, "passivated": _passivated}
    with scratch() as folder:
        return anyio.run(sides[side], folder, count, backend=backend)


async def _bare(folder: Path, count: int) -> dict[str, float]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_wait)
        before = _traced()
        for _ in range(count):
            tasks.start_soon(_wait)
        await anyio.sleep(0.1)
        found = {"memory": (_traced() - before) / count}
        tasks.cancel_scope.cancel()
    return found


async def _wait() -> None:
    with anyio.CancelScope():
        await anyio.Event().wait()


async def _live(folder: Path, count: int) -> dict[str, float]:
    path = folder / "state.db"
    async with waiting(path, 100, passivate_after=FOREVER, payload=0) as (supervisor, _):
        before = _traced()
        await start(supervisor, range(100, 100 + count), 0)
        await anyio.sleep(0.1)
        found = {"memory": (_traced() - before) / count}
        tracemalloc.stop()
        disk = await _disk(supervisor, path)
        await start(supervisor, range(100 + count, 100 + 2 * count), PAYLOAD)
        return {**found, "disk": (await _disk(supervisor, path) - disk) / count}


async def _passivated(folder: Path, count: int) -> dict[str, float]:
    path = folder / "state.db"
    async with waiting(path, 100, passivate_after=0.0, payload=PAYLOAD) as (supervisor, _):
        await until_asleep(supervisor)
        before, disk = _traced(), await _disk(supervisor, path)
        await start(supervisor, range(100, 100 + count), PAYLOAD)
        await until_asleep(supervisor)
        return {"memory": (_traced() - before) / count, "disk": (await _disk(supervisor, path) - disk) / count}


def _traced() -> int:
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def _disk(supervisor: Any, path: Path) -> int:
    """Return the size of the store after a full checkpoint of its log."""
    await anyio.to_thread.run_sync(supervisor.store.checkpoint)
    return path.stat().st_size
