"""What does it cost to watch 100,000 agents that work? The share of one core, and the longest time of a blocked loop.

Each agent has a budget of an hour and shows progress about twice a minute. The same number of bare tasks that sleep as
long is measured next to them, since the wakes themselves are not a cost of the watchdog. Each measurement has its own
process. Durability: none; watching writes nothing.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import Any

import anyio

from benchmarks.agents import gate, worker
from benchmarks.measure import BACKENDS, Report, in_new_process, interleave
from benchmarks.scenes import FOREVER, Left
from supervisor import MemoryStore, open_supervisor


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    count, seconds, repetitions = (100, 0.3, 1) if smoke else (100_000, 10.0, 1)
    sides = {
        f"{backend} {side}": partial(in_new_process, measure, backend, side, count, seconds)
        for backend in BACKENDS
        for side in ("bare", "watched")
    }
    found = interleave(sides, repetitions)
    report.compare(f"Watching {count} agents that work")
    for backend in BACKENDS:
        bare, watched = found[f"{backend} bare"], found[f"{backend} watched"]
        report.values(f"{backend}: bare tasks, share of a core", [each["share"] for each in bare], "%", 100)
        report.values(f"{backend}: watched agents, share of a core", [each["share"] for each in watched], "%", 100)
        shares = [(a["share"] - b["share"]) * 100 for a, b in zip(watched, bare, strict=True)]
        report.ratio(f"watching {count} agents, {backend}: share of a core", shares, at_most=3, unit="%")
        report.values(f"{backend}: bare tasks, longest block", [each["longest"] for each in bare], "ms", 1e3)
        blocks = [each["longest"] * 1e3 for each in watched]
        report.ratio(f"watching {count} agents, {backend}: longest block", blocks, at_most=10, unit="ms")
    return {"rows": report.rows}


def measure(backend: str, side: str, count: int, seconds: float) -> dict[str, float]:
    gate[:] = [anyio.Event()]
    gc.disable()  # a collection of a hundred thousand live tasks is the program's own matter, on either side
    return anyio.run(_watched if side == "watched" else _bare, count, seconds, backend=backend)


async def _watched(count: int, seconds: float) -> dict[str, float]:
    try:
        async with open_supervisor(MemoryStore(), passivate_after=FOREVER, tune_interpreter=True) as supervisor:
            for number in range(count):
                await supervisor.start(worker, number)
            raise Left(await _look(seconds))
    except Left as left:
        return dict(left.args[0])


async def _bare(count: int, seconds: float) -> dict[str, float]:
    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(_work, number)
        found = await _look(seconds)
        tasks.cancel_scope.cancel()
    return found


async def _work(number: int) -> None:
    await gate[0].wait()
    await anyio.sleep(number % 380 / 10)
    while True:
        await anyio.sleep(30 + number % 17)


async def _look(seconds: float) -> dict[str, float]:
    """Measure the processor's time, and how long the loop was away, by its processor time: others share the machine."""
    gate[0].set()
    await anyio.sleep(seconds / 5)
    longest, begun, cpu = 0.0, time.perf_counter(), time.process_time()
    while time.perf_counter() < begun + seconds:
        before = time.process_time()
        await anyio.sleep(0.02)
        longest = max(longest, time.process_time() - before)
    return {"share": (time.process_time() - cpu) / (time.perf_counter() - begun), "longest": longest}
