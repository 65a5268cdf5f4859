"""What do 10,000 reports of an agent cost: how many syncs, and how long for each?

Pieces of one message, which are joined, and plans, each of which is an entry. Each commit is one sync of the store's
log. Durability: SQLite WAL synchronous=FULL; the reports are on disk when the run has ended.
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, interleave, scratch
from benchmarks.scenes import Left, commit, plain_sqlite
from supervisor import Context, SqliteStore, agent, open_supervisor

SYNCS = 99
"""The most that the reports of a run may cost."""


class CountingStore(SqliteStore):
    commits = 0
    commits_of_all = 0
    """The commits of all such stores of the process."""

    def commit(self) -> None:
        self.commits += 1
        CountingStore.commits_of_all += 1
        super().commit()


@agent
async def talking(ctx: Context, given: tuple[str, int]) -> float:
    """Report so many times; return the seconds that it took."""
    kind, count = given
    begun = perf_counter()
    for n in range(count):
        await ctx.report("plan" if kind == "plans" else "text", f"this is piece {n} of what I say. ")
    return perf_counter() - begun


def run(smoke: bool) -> dict[str, Any]:
    report, count = Report(), 500 if smoke else 10_000
    with scratch() as folder:
        for kind in ("pieces", "plans"):
            sides = {b: partial(anyio.run, _talk, folder, kind, count, backend=b) for b in BACKENDS}
            found = interleave(sides, 1 if smoke else 5)
            report.compare(f"{count:,} reports of a run, {kind}", "SQLite WAL synchronous=FULL")
            for backend in BACKENDS:
                report.values(f"{backend}: one report", [took / count * 1e6 for _, took, _ in found[backend]], "us")
                shares = [took / count / plain for _, took, plain in found[backend]]
                report.values(f"{backend}: one report, in plain commits", shares, "x")
                syncs = [float(commits) for commits, _, _ in found[backend]]
                report.ratio(f"{count:,} reports, {kind}, {backend}", syncs, at_most=SYNCS, unit="syncs")
    return {"rows": report.rows}


async def _talk(folder: Path, kind: str, count: int) -> tuple[int, float, float]:
    """Return the commits of the whole run, the seconds that its reports took, and those of a plain commit."""
    connection = plain_sqlite(folder / "plain.db")
    plain = statistics.median(commit(connection) for _ in range(50))
    connection.close()
    store = CountingStore(folder / f"{perf_counter()}.db")
    try:
        async with open_supervisor(store, tune_interpreter=True) as supervisor:
            took = await (await supervisor.start(talking, (kind, count))).result()
            raise Left(store.commits, took, plain)
    except Left as left:
        return left.args[0], left.args[1], left.args[2]
