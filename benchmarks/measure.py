"""Measures all benchmarks in the same way: interleaved sides (A B A B ...), medians with spread, ratios within a run.

Machines are shared and drift by tens of per cent, so a single figure says little. The ratio between two sides of the
same run counts. It is computed within each repetition, and then the median is taken.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import sqlite3
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

Found = TypeVar("Found")
BACKENDS = ("asyncio", "trio")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    packages = {name: version(name) for name in ("anyio", "trio", "msgspec")}
    return {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "disk": _file_system(scratch_root()),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": [round(load, 1) for load in os.getloadavg()],
        **packages,
    }


def scratch_root() -> Path:
    """Return the folder for stores: on a real disk, even if /tmp is not (BENCHMARK_FOLDER names another)."""
    return Path(os.environ.get("BENCHMARK_FOLDER", "/var/tmp"))


def _file_system(folder: Path) -> str:
    said = subprocess.run(["df", "-PT", folder], capture_output=True, text=True, check=False).stdout.splitlines()
    return said[-1].split()[1] if len(said) > 1 else "unknown"


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder on a real disk."""
    with tempfile.TemporaryDirectory(dir=scratch_root(), prefix="benchmark-") as folder:
        yield Path(folder)


def interleave(sides: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, list[Any]]:
    """Run every side in turn, `repetitions` times; return the results of each side."""
    found: dict[str, list[Any]] = {name: [] for name in sides}
    for _ in range(repetitions):
        for name, side in sides.items():
            found[name].append(side())
    return found


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Report:
    """Prints rows as soon as they are measured, and keeps them for `--json`."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def compare(self, question: str, durability: str = "") -> None:
        print(f"\n{question}" + (f"\n  durability: {durability}" if durability else ""), flush=True)

    def values(self, label: str, values: Sequence[float], unit: str = "", scale: float = 1.0) -> float:
        """Print the median of some values and their spread; return the median."""
        scaled = [value * scale for value in values]
        middle = statistics.median(scaled)
        spread = f"  ({_short(min(scaled))} to {_short(max(scaled))}, n={len(scaled)})" if len(scaled) > 1 else ""
        print(f"  {label:58} {_short(middle):>9} {unit}{spread}", flush=True)
        return middle

    def ratio(
        self,
        name: str,
        ours: Sequence[float],
        theirs: Sequence[float] | None = None,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        unit: str = "x",
        **more: Any,
    ) -> float:
        """Compare the median of the repetitions' ratios (or of other values) with its target."""
        pairs = [a / b for a, b in zip(ours, theirs, strict=True)] if theirs is not None else list(ours)
        middle = statistics.median(pairs)
        met = (at_most is None or middle <= at_most) and (at_least is None or middle >= at_least)
        goal = (
            f"<= {_short(at_most)}" if at_most is not None else f">= {_short(at_least)}" if at_least is not None else ""
        )
        said = f"target {goal} {'reached' if met else 'MISSED'}" if goal else ""
        spread = f"({_short(min(pairs))} to {_short(max(pairs))})"
        print(f"  = {name:56} {_short(middle):>9} {unit} {spread} {said}", flush=True)
        row = {"name": name, "value": middle, "low": min(pairs), "high": max(pairs), "unit": unit, "target": goal}
        self.rows.append({**row, "reached": met if goal else None, **more})
        return middle


def _short(value: float | None) -> str:
    if value is None:
        return ""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def in_new_process(measure: Callable[..., Found], *arguments: Any) -> Found:
    """Measure in a new process, for what only a new process can show. It has imported the package and no more."""
    with ProcessPoolExecutor(1, mp_context=new_processes()) as pool:
        return pool.submit(measure, *arguments).result(timeout=3600)


@cache
def new_processes() -> Any:
    """Return a source of processes that are forks of one that has only imported what benchmarks import."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["benchmarks.scenes", "anyio._backends._asyncio", "anyio._backends._trio"])
    return processes
