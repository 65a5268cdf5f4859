"""What does it cost to start a command of ours, and to start another program from a tool?

The CPU time of `supervisor --version`, next to that of an interpreter that does nothing. And the time from
`open_process` to the end of a command that does nothing, over that of `subprocess.run`, which has no start handshake
and no subreaper, and leaves orphaned processes alone. Durability: none; neither side has a store.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, interleave
from supervisor.tools.process import open_process

NOTHING = ["true"]


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    repetitions, count = (1, 2) if smoke else (15, 20)
    sides: dict[str, Any] = {
        "interpreter": partial(_cpu_of, sys.executable, "-c", ""),
        "--version": partial(_cpu_of, sys.executable, "-m", "supervisor", "--version"),
    }
    report.compare("Start-up of a command, CPU")
    _cpu_of(sys.executable, "-m", "supervisor", "--version")  # the first writes bytecode
    found = interleave(sides, repetitions)
    report.values("an interpreter that does nothing", found["interpreter"], "ms", 1e3)
    taken = [seconds * 1e3 for seconds in found["--version"]]
    report.ratio("start-up of `supervisor --version`, CPU", taken, at_most=150, unit="ms")
    for backend in BACKENDS:
        report.compare(f"A command that does nothing, {backend}")
        pairs = anyio.run(_processes, count, backend=backend)
        ours, theirs = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
        report.values("open_process", ours, "ms", 1e3)
        report.values("subprocess.run", theirs, "ms", 1e3)
        report.ratio(f"open_process over subprocess.run, {backend}", ours, theirs, at_most=4)
    return {"rows": report.rows}


def _cpu_of(*command: str) -> float:
    """Return the CPU seconds that a command takes."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _processes(count: int) -> list[tuple[float, float]]:
    """Return the seconds that a command takes by `open_process` and by `subprocess.run`, in turn. The first command by
    `open_process` starts the launcher."""
    pairs = [(await _ours(), _theirs()) for _ in range(count + 1)]
    return pairs[1:]


async def _ours() -> float:
    begun = perf_counter()
    async with open_process(NOTHING) as process:
        await process.release()
        finished = await process.wait(60)
    assert finished.exit_code == 0
    return perf_counter() - begun


def _theirs() -> float:
    begun = perf_counter()
    subprocess.run(NOTHING, capture_output=True, stdin=subprocess.DEVNULL, check=True)
    return perf_counter() - begun
