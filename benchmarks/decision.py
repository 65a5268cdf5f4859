"""How soon does an agent go on after a person's decision, compared with one durable SQLite commit?

Two times are measured from the call of `decide`: until the approved call's effect begins (the decision and `executing`
are on disk), and until the agent goes on with the result (which is on disk, too). Then the same with an event loop that
is always busy, in slices of 2 ms.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from benchmarks import agents, instants
from benchmarks.measure import BACKENDS, Report, interleave, percentile, scratch
from benchmarks.scenes import commit, plain_sqlite, until_gone, waiting
from supervisor import Approve, Deny

SLICE = 0.002
Latencies = tuple[list[float], list[float], list[float]]


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    with scratch() as folder:
        for name, is_busy in (("idle loop", False), ("busy loop", True)):
            _compare(report, folder, name, is_busy, smoke)
    return {"rows": report.rows}


def _compare(report: Report, folder: Path, name: str, is_busy: bool, smoke: bool) -> None:
    count, repetitions = (5, 1) if smoke else (200, 5)
    sides: dict[str, Callable[[], Latencies]] = {}
    for backend in BACKENDS:
        for kind in ("approve", "deny"):
            sides[f"{backend} {kind}"] = partial(anyio.run, _decide, folder, count, is_busy, kind, backend=backend)
    found = interleave(sides, repetitions)
    report.compare(
        f"Decision -> agent runs on, {name}, {count} pending, a plain commit before each decision",
        "SQLite WAL synchronous=FULL on both sides; decision, `executing` and result on disk before the next step",
    )
    for backend in BACKENDS:
        approved, denied = found[f"{backend} approve"], found[f"{backend} deny"]
        approval, denial = (15, 15) if is_busy else (3.5, 2.5)
        for label, samples, goal in (
            ("approve -> effect begins", [(each[0], each[2]) for each in approved], approval),
            ("approve -> agent has the result", [(each[1], each[2]) for each in approved], None),
            ("deny -> agent runs on", [(each[1], each[2]) for each in denied], denial),
        ):
            what = f"decision, {name}, {backend}: {label}"
            commits = [statistics.median(plain) for _, plain in samples]
            medians = [statistics.median(took) for took, _ in samples]
            report.values(f"one SQLite commit next to {backend}", commits, "us", 1e6)
            report.values(f"{backend}: {label}", medians, "us", 1e6)
            report.ratio(what, medians, commits, at_most=goal)
            if goal is not None:
                tail = [percentile(took, 0.99) for took, _ in samples]
                report.ratio(f"{what}, p99", tail, commits, at_most=None if is_busy else 10)
            if goal is not None and is_busy:
                report.ratio(f"{what}, worst", [max(took) * 1e3 for took, _ in samples], at_most=20, unit="ms")


async def _decide(folder: Path, count: int, is_busy: bool, kind: str) -> Latencies:
    agents.effects.clear()
    instants.went_on.clear()
    begun: dict[str, float] = {}
    plain: list[float] = []
    connection = plain_sqlite(folder / "plain.db")
    async with (
        waiting(folder / f"{perf_counter()}.db", count) as (supervisor, approvals),
        anyio.create_task_group() as tasks,
    ):
        if is_busy:
            tasks.start_soon(_be_busy)
        for approval in approvals:
            note = approval.arguments["note"]
            plain.append(commit(connection))
            await anyio.sleep(0)
            instants.news[:] = [anyio.Event()]  # asking for the outcome would take time before the agent's turn
            begun[note] = perf_counter()
            await supervisor.decide(approval.id, Approve(by="a") if kind == "approve" else Deny(by="a", reason="no"))
            await instants.news[0].wait()
            await (await supervisor.get_run(approval.session)).outcome()
            await until_gone(supervisor, approval.session)  # else the next decision would wait for that, too
        tasks.cancel_scope.cancel()
    connection.close()
    effects = [agents.effects[note] - at for note, at in begun.items() if note in agents.effects]
    return effects, [instants.went_on[note] - at for note, at in begun.items()], plain


async def _be_busy() -> None:
    while True:
        until = perf_counter() + SLICE
        while perf_counter() < until:
            pass
        await checkpoint()
