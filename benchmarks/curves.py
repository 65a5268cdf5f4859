"""How do costs grow with the number of sub-agents that wait? Curves from 100 to 100,000 of them.

Measured: the memory of a sub-agent that waits live and of a passivated one, the time to list the inbox, and the time
from a decision to its effect while the others are pending, as a multiple of a commit at the same moment. With
BENCHMARK_MILLION set, one million passivated sub-agents are measured, which takes half an hour to prepare. Durability:
SQLite WAL synchronous=FULL.
"""

from __future__ import annotations

import gc
import os
import statistics
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from benchmarks import agents
from benchmarks.measure import Report, in_new_process, scratch
from benchmarks.scenes import FOREVER, Left, commit, plain_sqlite, start, until_asleep
from supervisor import Approve, open_supervisor

LIVE = 100_000
AT_ONCE = 1_000
WARM = 1_000
"""Sub-agents that wait before memory is measured, so that the process has already grown by its fixed costs."""


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    counts = [10, 30] if smoke else [100, 1_000, 10_000, 100_000]
    if os.environ.get("BENCHMARK_MILLION"):
        counts.append(1_000_000)
    points: list[dict[str, float]] = []
    report.compare("Costs against the number of sub-agents that wait, asyncio", "SQLite WAL synchronous=FULL")
    for count in counts:
        point: dict[str, float] = {"count": count}
        if count <= LIVE:
            point |= {f"live {key}": value for key, value in in_new_process(measure, count, "live").items()}
        point |= {f"passivated {key}": value for key, value in in_new_process(measure, count, "passivated").items()}
        points.append(point)
        print(f"  {count:9,}: " + ", ".join(f"{key} {value:.4g}" for key, value in point.items()), flush=True)
    return {"points": points}


def measure(count: int, side: str) -> dict[str, float]:
    with scratch() as folder:
        return anyio.run(_measure, folder, count, FOREVER if side == "live" else 0.0)


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


async def _measure(folder: Path, count: int, passivate_after: float) -> dict[str, float]:
    found: dict[str, float] = {}
    try:
        async with open_supervisor(
            folder / "state.db", passivate_after=passivate_after, tune_interpreter=True
        ) as supervisor:
            await start(supervisor, range(WARM))
            if not passivate_after:
                await until_asleep(supervisor)
            gc.collect()
            before = _resident()
            for first in range(WARM, count + WARM, AT_ONCE):
                await start(supervisor, range(first, min(first + AT_ONCE, count + WARM)))
                if not passivate_after:
                    await until_asleep(supervisor)
            gc.collect()
            found["KiB each"] = (_resident() - before) / count
            begun = perf_counter()
            approvals = await supervisor.find_approvals(limit=None)
            found["seconds to list"] = perf_counter() - begun
            connection = plain_sqlite(folder / "plain.db")
            ratios = []
            for approval in approvals[:: max(1, len(approvals) // 20)][:20]:
                plain, begun = commit(connection), perf_counter()
                await supervisor.decide(approval.id, Approve(by="a"))
                await (await supervisor.get_run(approval.session)).outcome()
                ratios.append((agents.effects[approval.arguments["note"]] - begun) / plain)
            found["commits to effect"] = statistics.median(ratios)
            raise Left
    except Left:
        return found


def draw(found: dict[str, Any], machine: dict[str, Any], file: str) -> None:
    """Draw the curves; needs the extra `bench`."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {"svg.hashsalt": "benchmarks", "svg.fonttype": "none"}
    from matplotlib import pyplot as plt

    figure, places = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for place, key, label in zip(
        places,
        ("KiB each", "seconds to list", "commits to effect"),
        ("memory of each, KiB", "listing the inbox, s", "decision to effect, in commits"),
        strict=True,
    ):
        for side in ("live", "passivated"):
            points = [p for p in found["points"] if f"{side} {key}" in p]
            place.loglog([p["count"] for p in points], [p[f"{side} {key}"] for p in points], "o-", label=side)
        if key == "commits to effect":  # nearly constant: a logarithmic axis would show only noise
            place.set_yscale("linear")
            place.set_ylim(bottom=0)
        place.set_xlabel("sub-agents that wait")
        place.set_title(label, fontsize=10)
        place.grid(visible=True, which="major", alpha=0.3)
        place.legend()
    versions = f"CPython {machine['python']}, SQLite {machine['sqlite']}, {machine['cpus']} cores, {machine['disk']}"
    figure.suptitle(f"What waiting costs ({versions}; WAL, synchronous=FULL)", fontsize=10)
    figure.savefig(file)
