"""How many runs are falsely stalled after the process itself was frozen? The answer must be 0.

A hundred agents with a budget of 1 s show progress ten times a second. Then the process is frozen: by a full garbage
collection of a second (which a callback prolongs here), by SIGSTOP for 5 s, by an fsync of 2 s. An agent that is truly
silent must be stalled. Each measurement has its own process. Durability: SQLite WAL synchronous=FULL.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio

from benchmarks.lag import SlowDisk
from benchmarks.measure import BACKENDS, Report, in_new_process, scratch
from benchmarks.scenes import FOREVER
from supervisor import Context, agent, open_supervisor, tool

AGENTS = 100
BUDGET = 1.0


@agent(inactivity_timeout=BUDGET)
async def beating(ctx: Context, seconds: float) -> None:
    """Show progress ten times a second."""
    until = anyio.current_time() + seconds
    while anyio.current_time() < until:
        ctx.heartbeat()
        await anyio.sleep(0.1)


@agent(inactivity_timeout=BUDGET)
async def silent(ctx: Context) -> None:
    """Show no progress."""
    await anyio.sleep_forever()


@tool(policy="allow")
async def note() -> None:
    """Make the journal commit something."""


@agent(inactivity_timeout=BUDGET)
async def noting(ctx: Context) -> None:
    """Commit once."""
    await ctx.call(note)


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    freezes = {"gc": 1.2} if smoke else {"gc": 1.5, "sigstop": 5.0, "fsync": 2.0}
    report.compare(f"False stalls among {AGENTS} agents with a budget of {BUDGET:g} s", "SQLite WAL synchronous=FULL")
    with scratch() as folder:
        for backend in BACKENDS:
            for kind, seconds in freezes.items():
                store = folder / f"{backend}-{kind}.db"
                found = in_new_process(measure, backend, kind, seconds, store)
                name = f"frozen by {kind} for {seconds:g} s, {backend}"
                report.ratio(f"{name}: false stalls", [found["false"]], at_most=0, unit="")
                report.ratio(f"{name}: true stalls found", [found["true"]], at_least=1, unit="")
    return {"rows": report.rows}


def measure(backend: str, kind: str, seconds: float, store: Path) -> dict[str, int]:
    return anyio.run(_measure, kind, seconds, store, backend=backend)


async def _measure(kind: str, seconds: float, path: Path) -> dict[str, int]:
    store = SlowDisk(path)
    async with open_supervisor(store, passivate_after=FOREVER, tune_interpreter=True) as supervisor:
        runs = [await supervisor.start(beating, 1.0 + seconds) for _ in range(AGENTS)]
        await anyio.sleep(0.5)
        lost = await supervisor.start(silent)
        if kind == "gc":
            gc.callbacks.append(lambda phase, info: time.sleep(seconds) if phase == "start" else None)
            gc.collect()
            gc.callbacks.pop()
        elif kind == "sigstop":
            waker = f"import os,time,signal; time.sleep({seconds}); os.kill({os.getpid()}, signal.SIGCONT)"
            with subprocess.Popen([sys.executable, "-c", waker]):
                os.kill(os.getpid(), signal.SIGSTOP)
        else:
            store.delay = seconds
            await supervisor.start(noting)
            store.delay = 0.0
        kinds = [(await run_.outcome()).kind for run_ in runs]
        return {"false": kinds.count("stalled"), "true": int((await lost.outcome()).kind == "stalled")}
