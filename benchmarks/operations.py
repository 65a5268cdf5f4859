"""What does an agent's operation cost, and what does an asynchronous read add to the read itself?

Durable commits and CPU of a call that asks no person, of a step, and of a sub-agent that returns at once: with a store
on disk, and in memory, where no disk hides the other costs. Durability: SQLite WAL synchronous=FULL; the operations are
on disk before the agent goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, interleave, scratch
from benchmarks.reports import CountingStore
from benchmarks.scenes import Left, commit, plain_sqlite, waiting
from supervisor import Context, MemoryStore, agent, open_supervisor, tool

MOST: dict[str, tuple[int, float | None, float | None]] = {
    "call": (2, 0.6, 0.25),
    "step": (1, 0.3, None),
    "sub-agent": (2, 1.5, None),
}
"""By operation: its durable commits, and the most ms of CPU with a disk and in memory."""
PENDING = 20


@tool(policy="allow")
async def note(number: int) -> int:
    """Ask no person, and do nothing."""
    return number


async def count_on(number: int) -> int:
    """Do what a step does: nothing."""
    return number + 1


@agent
async def leaf(ctx: Context) -> None:
    """Return at once."""


async def _call(ctx: Context, number: int) -> None:
    await ctx.call(note, number)


async def _step(ctx: Context, number: int) -> None:
    await ctx.step(count_on, number)


async def _spawn(ctx: Context, _: int) -> None:
    await ctx.run(leaf)


OPERATIONS: dict[str, Callable[[Context, int], Awaitable[None]]] = {
    "call": _call,
    "step": _step,
    "sub-agent": _spawn,
}


@agent
async def doing(ctx: Context, given: tuple[str, int]) -> tuple[int, float]:
    """Do an operation so many times; return the commits and the CPU seconds of them."""
    kind, count = given
    commits, begun = CountingStore.commits_of_all, process_time()
    for number in range(count):
        await OPERATIONS[kind](ctx, number)
    return CountingStore.commits_of_all - commits, process_time() - begun


def run(smoke: bool) -> dict[str, Any]:
    report, repetitions = Report(), 1 if smoke else 5
    count = 20 if smoke else 500
    with scratch() as folder:
        report.compare("A plain SQLite commit of one row, of which a call has two", "SQLite WAL synchronous=FULL")
        report.values("CPU of one commit", [_commit(folder, count) for _ in range(repetitions)], "us", 1e6)
        for kind, (commits, on_disk, in_memory) in MOST.items():
            sides: dict[str, Any] = {}
            for backend in BACKENDS:
                sides[f"{backend}, disk"] = partial(anyio.run, _do, folder, kind, count, backend=backend)
                sides[f"{backend}, memory"] = partial(anyio.run, _do, None, kind, count, backend=backend)
            found = interleave(sides, repetitions)
            report.compare(f"A {kind}, as one of {count}", "SQLite WAL synchronous=FULL, or none in memory")
            for backend in BACKENDS:
                disk, memory = found[f"{backend}, disk"], found[f"{backend}, memory"]
                each = [made / count for made, _ in disk]
                report.ratio(f"durable commits of a {kind}, {backend}", each, at_most=commits + 0.1, unit="")
                for where, sample, most in (("disk", disk, on_disk), ("memory", memory, in_memory)):
                    cpu = [seconds / count * 1e3 for _, seconds in sample]
                    report.ratio(f"CPU of a {kind}, {where}, {backend}", cpu, at_most=most, unit="ms")
        for backend in BACKENDS:
            rounds = 20 if smoke else 2000
            reads = anyio.run(partial(_read, folder, rounds, repetitions), backend=backend)
            report.compare(f"Reads, {PENDING} pending, {backend}")
            for name, beyond in reads.items():
                report.ratio(f"{name}, beyond its read, {backend}", beyond, at_most=10, unit="us")
    return {"rows": report.rows}


def _commit(folder: Path, count: int) -> float:
    """Return the CPU seconds of one commit: the kernel's part of it depends on the disk."""
    connection = plain_sqlite(folder / "plain.db")
    begun = process_time()
    for _ in range(count):
        commit(connection)
    connection.close()
    return (process_time() - begun) / count


async def _do(folder: Path | None, kind: str, count: int) -> tuple[int, float]:
    """Return what the operations of one run took: commits, and CPU seconds."""
    store = MemoryStore() if folder is None else CountingStore(folder / f"{perf_counter()}.db")
    try:
        async with open_supervisor(store, tune_interpreter=True) as supervisor:
            raise Left(await (await supervisor.start(doing, (kind, count))).result())
    except Left as left:
        commits, seconds = left.args[0]
        return commits, seconds


async def _read(folder: Path, rounds: int, repetitions: int) -> dict[str, list[float]]:
    """Return the microseconds that asynchronous reads take beyond the synchronous reads of the same from the store."""
    taken: dict[str, list[float]] = {}
    async with waiting(folder / f"{perf_counter()}.db", PENDING) as (supervisor, approvals):
        some, store = approvals[0], supervisor.store
        reads: dict[str, tuple[Callable[[], Awaitable[object]], Callable[[], object]]] = {
            "an approval": (lambda: supervisor.get_approval(some.id), lambda: store.get_approval(some.id)),
            f"a list of {PENDING} approvals": (supervisor.find_approvals, store.find_approvals),
        }
        for name, (asked, plain) in reads.items():
            taken[name] = []
            for _ in range(repetitions):
                begun = process_time()
                for _ in range(rounds):
                    plain()
                middle = process_time()
                for _ in range(rounds):
                    await asked()
                taken[name].append((process_time() - middle - (middle - begun)) / rounds * 1e6)
    return taken
