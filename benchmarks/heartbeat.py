"""What does a heartbeat cost, compared with an empty Python call, and with moving one of 100,000 scopes' deadlines?

A watchdog is usually built by moving a deadline. Durability: none; a heartbeat is not journaled.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, interleave
from benchmarks.scenes import Left
from supervisor import Context, MemoryStore, agent, open_supervisor

calls = 200_000
costs: list[tuple[float, float]] = []


class _Empty:
    def call(self) -> None: ...


@agent
async def beating(ctx: Context) -> None:
    """Measure heartbeats from inside, next to empty method calls."""
    empty, numbers = _Empty(), range(calls)
    begun = perf_counter()
    for _ in numbers:
        pass
    loop = perf_counter() - begun
    begun = perf_counter()
    for _ in numbers:
        empty.call()
    plain = perf_counter() - begun
    begun = perf_counter()
    for _ in numbers:
        ctx.heartbeat()
    costs.append(((perf_counter() - begun - loop) / calls, (plain - loop) / calls))


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    scopes, repetitions = (1_000, 2) if smoke else (100_000, 7)
    for backend in BACKENDS:
        sides = {
            "heartbeat": partial(anyio.run, _beat, backend=backend),
            "deadline": partial(anyio.run, _move_deadlines, scopes, backend=backend),
        }
        found = interleave(sides, repetitions)
        report.compare(f"A heartbeat, {backend}")
        ours, empty = zip(*found["heartbeat"], strict=True)
        report.values("an empty method call", empty, "ns", 1e9)
        report.values("ctx.heartbeat()", ours, "ns", 1e9)
        report.values(f"moving a deadline, {scopes} scopes alive", found["deadline"], "ns", 1e9)
        report.ratio(f"heartbeat over an empty call, {backend}", ours, empty, at_most=6)
        share = [deadline / beat for deadline, beat in zip(found["deadline"], ours, strict=True)]
        report.ratio(f"a moved deadline over a heartbeat, {backend}", share, at_least=25)
    return {"rows": report.rows}


async def _beat() -> tuple[float, float]:
    async with open_supervisor(MemoryStore(), tune_interpreter=True) as supervisor:
        await (await supervisor.start(beating)).result()
    return costs[-1]


async def _move_deadlines(count: int) -> float:
    try:
        async with anyio.create_task_group() as tasks:
            scopes: list[anyio.CancelScope] = []
            for _ in range(count):
                tasks.start_soon(_sleep_in, scopes)
            while len(scopes) < count:
                await anyio.sleep(0)
            moved = scopes[:20_000]
            later = anyio.current_time() + 7200
            begun = perf_counter()
            for scope in moved:
                scope.deadline = later
            took = (perf_counter() - begun) / len(moved)
            tasks.cancel_scope.cancel()
            raise Left(took)
    except* Left as left:
        (taken,) = left.exceptions
    return float(taken.args[0])


async def _sleep_in(scopes: list[anyio.CancelScope]) -> None:
    with anyio.CancelScope(deadline=anyio.current_time() + 3600) as scope:
        scopes.append(scope)
        await anyio.sleep_forever()
