"""A process starts with 100,000 pending approvals. When has it listed them all, and when does a decision take effect?

Measured from the exec of the interpreter, with bytecode on disk as for an installed package: a process that opens the
store and lists the inbox; and one that opens it, decides one approval in the middle, claims its tree and sees it end.
Then, in a process that has them open: for how long does a list of all sessions hold the loop? That is CPU time, since
other programs on the machine hold the loop, too.
Durability: SQLite WAL synchronous=FULL; the decision, the call and the outcome are on disk.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from benchmarks.measure import BACKENDS, Report, interleave, scratch
from benchmarks.scenes import Left, pending_in, start, until_asleep
from supervisor import MemoryStore, SqliteStore, open_supervisor
from supervisor.seam.store import Store

_LIST = """
import sys, anyio
from supervisor import open_supervisor
async def main():
    async with open_supervisor(sys.argv[1], tune_interpreter=True) as supervisor:
        approvals = await supervisor.find_approvals(limit=None)
        assert len(approvals.items) == int(sys.argv[2])
        raise SystemExit
anyio.run(main, backend=sys.argv[3])
"""
_DECIDE = """
import sys, anyio
from supervisor import Approve, open_supervisor
async def main():
    async with open_supervisor(sys.argv[1], tune_interpreter=True) as supervisor:
        session = sys.argv[4]
        approval, = (await supervisor.get_session(session)).pending_approvals
        await supervisor.decide(approval.id, Approve(by="ana"))
        run = await supervisor.resume(session)
        assert (await run.outcome()).kind == "succeeded"
        raise SystemExit
anyio.run(main, backend=sys.argv[3])
"""
_EMPTY = "import sys, anyio, supervisor; anyio.run(anyio.sleep, 0, backend=sys.argv[3])"


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    count, repetitions = (50, 1) if smoke else (100_000, 5)
    with scratch() as folder:
        path = folder / "state.db"
        make(path, count)
        numbers = iter(range(count // 2, count))
        sides = {
            f"{backend} {name}": partial(_timed, code, path, count, backend, numbers)
            for backend in BACKENDS
            for name, code in (("import", _EMPTY), ("decide", _DECIDE), ("list", _LIST))
        }
        for backend in BACKENDS:
            _timed(_EMPTY, path, count, backend, numbers)  # makes the bytecode
        found = interleave(sides, repetitions)
        stores: dict[str, Store] = {"SQLite": SqliteStore(path), "memory": MemoryStore()}
        copy(stores["SQLite"], stores["memory"])
        steps = {
            f"{backend} {name}": partial(anyio.run, longest_step, store, True, backend=backend)
            for backend in BACKENDS
            for name, store in stores.items()
        }
        steps |= {
            f"{b} untuned": partial(anyio.run, longest_step, stores["SQLite"], False, backend=b) for b in BACKENDS
        }
        steps["a collection"] = _collection
        held = interleave(steps, repetitions)
    report.compare(f"A start with {count} pending", "SQLite WAL synchronous=FULL")
    for backend in BACKENDS:
        report.values(f"{backend}: a process that only imports", found[f"{backend} import"], "s")
        listed, decided = found[f"{backend} list"], found[f"{backend} decide"]
        report.ratio(f"start with {count} pending, {backend}: all listed", listed, at_most=1.0, unit="s")
        report.ratio(f"start with {count} pending, {backend}: any decision goes on", decided, at_most=1.0, unit="s")
        for name in stores:
            longest = [seconds * 1e3 for seconds in held[f"{backend} {name}"]]
            report.ratio(
                f"longest step of a list of {count} sessions, {backend} {name}", longest, at_most=10, unit="ms"
            )
        report.values(f"the same without tune_interpreter, {backend} SQLite", held[f"{backend} untuned"], "ms", 1e3)
    report.values("a full garbage collection of this process", held["a collection"], "ms", 1e3)
    return {"rows": report.rows}


def make(path: Path, count: int) -> None:
    """Fill a store with pending approvals whose runs are asleep."""
    gc.freeze()
    anyio.run(_fill, path, count)


async def _fill(path: Path, count: int, slice_: int = 2_000) -> None:
    for first in range(0, count, slice_):
        try:
            async with open_supervisor(path, passivate_after=0.0, tune_interpreter=True) as supervisor:
                await start(supervisor, range(first, min(first + slice_, count)))
                await until_asleep(supervisor)
                raise Left
        except Left:
            pass


def copy(store: Store, into: Store) -> None:
    """Copy all entries, in transactions of a thousand positions."""
    store.open()
    for first in range(0, store.last_position(), 1000):
        assert into.begin()
        into.write(store.rows(first, first + 1000))
        into.commit()
    store.close()


def _collection() -> float:
    """Return the CPU seconds of a full garbage collection: one may come in any step of an untuned interpreter."""
    gc.unfreeze()
    begun = time.thread_time()
    gc.collect()
    return time.thread_time() - begun


async def longest_step(store: Store, tune: bool) -> float:
    """Return the most CPU seconds that other tasks of this thread wait while all sessions are listed."""
    async with open_supervisor(store, tune_interpreter=tune) as supervisor, anyio.create_task_group() as tasks:
        steps = list[float]()

        async def watch() -> None:
            while True:
                before = time.thread_time()
                await checkpoint()
                steps.append(time.thread_time() - before)

        tasks.start_soon(watch)
        await checkpoint()
        page = await supervisor.find_sessions(limit=None)
        for _ in range(3):  # the last step counts, too
            await checkpoint()
        tasks.cancel_scope.cancel()
    del page  # only now: to free so many results at once is the caller's step
    return max(steps)


def _timed(code: str, path: Path, count: int, backend: str, numbers: Any) -> float:
    # A decided approval is no longer pending, so the list becomes shorter.
    if code is _LIST:
        count = pending_in(path)
    session = f"s{next(numbers)}" if code is _DECIDE else ""
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, str(path), str(count), backend, session],
        check=True,
        timeout=120,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(path.parent / "bytecode")},
    )
    return time.perf_counter() - begun
