"""What does a store on PostgreSQL cost, next to one in a file, to a bare loop of commits, and to DBOS on that server?

Needs the extra postgres and a server, so it runs only by its name: `BENCHMARK_POSTGRES=postgresql://USER@HOST:PORT/DB
python -m benchmarks postgres [--peers]`. Each of so many sessions asks again and again, and is decided as soon as it
asks; a decision's time ends when the effect begins. The disk of both is the server's and BENCHMARK_FOLDER's: put both
on the same one. All sides of a repetition run one after the other.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import anyio
import psycopg

from benchmarks import agents, peers
from benchmarks.measure import BACKENDS, Report, interleave, new_processes, scratch
from benchmarks.scenes import FOREVER, Left
from supervisor import Approval, Approve, Context, SqliteStore, agent, open_supervisor
from supervisor.runtime.local import LocalSupervisor
from supervisor.seam.store import Store
from supervisor.store.postgres.store import PostgresStore

SESSIONS: Final = (1, 10, 100)
PROCESSES: Final = (1, 2, 4)
SECONDS_OF_WIRE: Final = 0.0005
AIM_OF_FILE: Final = 0.6
AIMS_OVER_DBOS: Final = dict(zip(SESSIONS, (2, 5, 10), strict=True))


class Found(NamedTuple):
    per_second: float
    p50: float
    commits: float
    """Of an approved call."""


@agent(inactivity_timeout=3600)
async def asks_again(ctx: Context, calls: list[str]) -> int:
    for call in calls:
        await ctx.call(agents.act, call, "x" * 200)
    return len(calls)


def run(smoke: bool, *, with_peers: bool = False) -> dict[str, Any]:
    report, server = Report(), os.environ["BENCHMARK_POSTGRES"]
    calls, repetitions = (10, 1) if smoke else (100, 3)
    missing: dict[str, str] = {}
    with scratch() as folder, _wire(server) as far:
        file: Callable[[], Store] = lambda: SqliteStore(folder / f"{secrets.token_hex(6)}.db")  # noqa: E731 # a side
        near = partial(_new_store, server)
        sides: dict[str, Any] = {
            "bare SQLite": partial(_bare_sqlite, folder, calls),
            "bare PostgreSQL": partial(_bare_postgres, server, calls),
        }
        for sessions in SESSIONS:
            count = max(1, (calls if sessions == 1 else 2 * calls if sessions == 10 else 8 * calls) // sessions)
            for backend in BACKENDS:
                for name, make in (("SQLite", file), ("PostgreSQL", near), ("far", partial(_new_store, far))):
                    turns = max(1, count // 4) if name == "far" else count
                    sides[f"{name} {sessions} {backend}"] = partial(measure, make, sessions, turns, backend)
            if with_peers:
                sides[f"DBOS {sessions}"] = partial(_dbos, server, sessions, max(1, count // 4), folder, missing)
        for processes in PROCESSES:
            sides[f"{processes} processes"] = partial(_together, server, processes, 100, max(1, 8 * calls // 100))
        found = interleave(sides, repetitions)
    _tell(report, found, missing)
    return {"rows": report.rows, "missing": missing}


def run_with_peers(smoke: bool) -> dict[str, Any]:
    return run(smoke, with_peers=True)


def _tell(report: Report, found: dict[str, list[Any]], missing: dict[str, str]) -> None:
    report.compare("Bare INSERT and COMMIT, one after the other", "both are synced before COMMIT returns")
    for name in ("bare SQLite", "bare PostgreSQL"):
        report.values(name, found[name], "/s")
    report.compare("Approved calls per second; decision -> its effect begins", "request, decision, mark and result")
    for sessions in SESSIONS:
        for backend in BACKENDS:
            file, near, far = (found[f"{name} {sessions} {backend}"] for name in ("SQLite", "PostgreSQL", "far"))
            for name, each in (("SQLite", file), ("PostgreSQL", near), ("PostgreSQL, 0.5 ms away", far)):
                what = f"{name}, {sessions} sessions, {backend}"
                report.values(what, [one.per_second for one in each], "/s")
                report.values("  p50", [one.p50 for one in each], "ms", 1e3)
                report.values("  commits of a call", [one.commits for one in each])
            ours = [one.per_second for one in near]
            ratio = partial(report.ratio, sessions=sessions, backend=backend)
            ratio(
                f"of SQLite's, {sessions} sessions, {backend}",
                ours,
                [one.per_second for one in file],
                at_least=AIM_OF_FILE,
            )
            theirs = [each for each in found.get(f"DBOS {sessions}", []) if each is not None]
            if len(theirs) == len(ours):
                report.values(f"DBOS, {sessions} sessions", [each["per_second"] for each in theirs], "/s")
                report.values("  p50", [each["p50"] for each in theirs], "ms", 1e3)
                rates = [each["per_second"] for each in theirs]
                ratio(f"of DBOS's, {sessions} sessions, {backend}", ours, rates, at_least=AIMS_OVER_DBOS[sessions])
    for said in missing.values():
        print(f"  DBOS: NOT MEASURED: {said}", flush=True)
    report.compare("Approved calls per second, 100 sessions in so many processes on one store, asyncio")
    for processes in PROCESSES:
        report.values(f"{processes} processes", found[f"{processes} processes"], "/s")


# -- ours --------------------------------------------------------------------------------------------------------------


def _new_store(server: str) -> Store:
    return PostgresStore(f"{server}?schema=b{secrets.token_hex(6)}")


def measure(make: Callable[[], Store], sessions: int, count: int, backend: str) -> Found:
    agents.effects.clear()
    return anyio.run(_measure, make(), sessions, count, backend=backend)


async def _measure(store: Store, sessions: int, count: int, first: int = 0, at: float = 0.0) -> Found:
    commits, commit = 0, store.commit
    decided: dict[str, float] = {}

    def counted() -> None:
        nonlocal commits
        commits += 1
        commit()

    store.commit = counted  # type: ignore[method-assign]
    try:
        async with (
            open_supervisor(store, passivate_after=FOREVER, tune_interpreter=True) as supervisor,
            anyio.create_task_group() as tasks,
        ):
            numbers = {f"s{number}": number for number in range(first, first + sessions)}
            runs = [
                await supervisor.start(asks_again, [f"{number}.{turn}" for turn in range(count)], session=session)
                for session, number in numbers.items()
            ]
            while len(await supervisor.find_approvals(limit=None)) < sessions:
                await anyio.sleep(0.01)
            await anyio.sleep(max(0.0, at - time.time()))  # other processes begin at the same time
            begun, before = perf_counter(), commits
            tasks.start_soon(_decide_all, supervisor, decided, set(numbers))
            for each in runs:
                assert (await each.outcome()).kind == "succeeded"
            seconds, calls = perf_counter() - begun, sessions * count
            took = [agents.effects[note] - instant for note, instant in decided.items()]
            raise Left(Found(calls / seconds, statistics.median(took), (commits - before) / calls))
    except* Left as left:
        found: Any = left
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
    result: Found = found.args[0]
    return result


async def _decide_all(supervisor: LocalSupervisor, decided: dict[str, float], sessions: set[str]) -> None:
    async with anyio.create_task_group() as tasks, supervisor.watch_approvals() as watch:
        async for approval in watch:
            if approval.session in sessions:
                tasks.start_soon(_decide, supervisor, approval, decided)


async def _decide(supervisor: LocalSupervisor, approval: Approval, decided: dict[str, float]) -> None:
    decided[approval.arguments["note"]] = perf_counter()
    await supervisor.decide(approval.id, Approve(by="a"))


def _together(server: str, processes: int, sessions: int, count: int) -> float:
    """Return the rate of so many sessions, shared by processes on one store."""
    url = f"{server}?schema=b{secrets.token_hex(6)}"
    share, at = sessions // processes, time.time() + 8.0
    with ProcessPoolExecutor(processes, mp_context=new_processes()) as pool:
        jobs = [pool.submit(_one_of, url, share, count, place * share, at) for place in range(processes)]
        return sum(job.result(timeout=600).per_second for job in jobs)


def _one_of(url: str, sessions: int, count: int, first: int, at: float) -> Found:
    return anyio.run(_measure, PostgresStore(url), sessions, count, first, at)


# -- others ------------------------------------------------------------------------------------------------------------


def _bare_sqlite(folder: Path, count: int) -> float:
    with closing(sqlite3.connect(folder / f"{secrets.token_hex(6)}.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE row (n INTEGER PRIMARY KEY, body BLOB)")
        begun = perf_counter()
        for _ in range(count):
            connection.execute("INSERT INTO row (body) VALUES (?)", (b"x" * 300,))
        return count / (perf_counter() - begun)


def _bare_postgres(server: str, count: int) -> float:
    with psycopg.connect(server, autocommit=True) as connection:
        name = f"row{secrets.token_hex(6)}"
        connection.execute(f"CREATE TABLE {name} (n bigserial PRIMARY KEY, body bytea)")
        begun = perf_counter()
        for _ in range(count):
            connection.execute(f"INSERT INTO {name} (body) VALUES (%s)", (b"x" * 300,))
        seconds = perf_counter() - begun
        connection.execute(f"DROP TABLE {name}")
        return count / seconds


def _dbos(server: str, sessions: int, count: int, folder: Path, missing: dict[str, str]) -> dict[str, Any] | None:
    try:
        python = peers.environment("dbos", peers.PEERS["DBOS, SQLite"][1])
        return peers.measured(python, "dbos_postgres", f"{count}", sessions, folder, server)
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        missing["DBOS"] = str(error)[-600:]
        return None


@contextmanager
def _wire(server: str) -> Iterator[str]:
    """Give the URL of the server at a distance."""
    parts = urlsplit(server)
    command = [sys.executable, "-m", "benchmarks.slow_wire", str(parts.port or 5432), str(SECONDS_OF_WIRE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as wire:
        assert wire.stdout is not None
        port = wire.stdout.readline().strip()
        try:
            yield server.replace(f":{parts.port}/", f":{port}/")
        finally:
            wire.kill()
