"""The scenes that are measured: a store on a disk with any number of sub-agents that wait for a person."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from benchmarks.agents import asker
from supervisor import Approval, MemoryStore, Run, open_supervisor
from supervisor.runtime.local import LocalSupervisor
from supervisor.seam.store import Store

FOREVER = 1e9
"""Seconds after which nothing that is measured here is passivated."""
PAYLOAD = 200
"""Bytes of an approval's arguments."""
ROW = b"x" * 300
"""A row of what we are compared with: about as long as an entry of a journal."""


class Left(Exception):
    """Ends a scene without waiting: what waits is left waiting."""


@asynccontextmanager
async def waiting(
    store: str | Path | Store, count: int, *, passivate_after: float = FOREVER, payload: int = PAYLOAD
) -> AsyncIterator[tuple[LocalSupervisor, list[Approval]]]:
    """Open a supervisor with so many sub-agents, each of which waits for a decision."""
    try:
        async with open_supervisor(store, passivate_after=passivate_after, tune_interpreter=True) as supervisor:
            await start(supervisor, range(count), payload)
            yield supervisor, await supervisor.find_approvals(limit=None)
            raise Left
    except Left:
        pass


async def start(
    supervisor: LocalSupervisor, numbers: range, payload: int = PAYLOAD, at_once: int = 500
) -> dict[str, Run[Any]]:
    """Start sub-agents, many at once. Return their runs, by session, when all of them wait."""
    runs = dict[str, Run[Any]]()
    before = 0 if numbers.start == 0 else count_pending(supervisor)
    for first in range(numbers.start, numbers.stop, at_once):
        last = min(first + at_once, numbers.stop)
        async with anyio.create_task_group() as tasks:
            for number in range(first, last):
                tasks.start_soon(_start, supervisor, number, payload, runs)
        while count_pending(supervisor) < before + last - numbers.start:
            await anyio.sleep(0.002)
    return runs


async def _start(supervisor: LocalSupervisor, number: int, payload: int, runs: dict[str, Run[Any]]) -> None:
    session = f"s{number}"
    runs[session] = await supervisor.start(asker, f"{number} {payload}", session=session)


def count_pending(supervisor: LocalSupervisor) -> int:
    """Count what is pending without reading it: asking for it again and again would be most of what is done."""
    store: Any = supervisor.store
    if isinstance(store, MemoryStore):
        return len(store.find_approvals())
    return pending_in(store.path)


def pending_in(path: Path) -> int:
    """Count what is pending in a store's file, from outside."""
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM approval WHERE status IS NULL").fetchone()
    connection.close()
    return int(count)


async def until_asleep(supervisor: LocalSupervisor) -> None:
    """Wait until every run that waits has left memory."""
    while supervisor._runner.attempts.live:  # noqa: SLF001 # the public face does not say who is in memory
        await anyio.sleep(0.01)


async def until_gone(supervisor: LocalSupervisor, session: str) -> None:
    """Wait until a run that has ended has left memory, which takes a few more steps of the loop than its outcome."""
    while session in supervisor._runner.attempts.live:  # noqa: SLF001 # the public face does not say who is in memory
        await anyio.sleep(0)


def plain_sqlite(path: Path, synchronous: str = "FULL") -> sqlite3.Connection:
    """Open what we are compared with: the smallest durable table there is."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE IF NOT EXISTS row (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    return connection


def commit(connection: sqlite3.Connection) -> float:
    """Return the seconds that a commit of one row takes."""
    begun = perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO row (body) VALUES (?)", (ROW,))
    connection.execute("COMMIT")
    return perf_counter() - begun


def sqlite_rows_per_second(folder: Path, count: int, batch: int = 1000) -> float:
    """Return how many rows SQLite takes in a second, in durable batches."""
    connection = plain_sqlite(folder / "plain.db")
    begun = perf_counter()
    for _ in range(count // batch):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO row (body) VALUES (?)", [(ROW,)] * batch)
        connection.execute("COMMIT")
    took = perf_counter() - begun
    connection.close()
    return count / took
