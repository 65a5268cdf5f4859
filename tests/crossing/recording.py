"""How a crossing is recorded so that two runs write the same bytes: a fixed clock, ids that count, processes that die.

A scene runs in one or several lives. A life ends as a process does that is killed: what it leaves is a copy of its
store in memory, made before the supervisor closes. The rows of that copy become a store of SQLite, whose owner has
died. What the rows say of the machine (host, pids, the log of a job) is replaced.
"""

import gzip
import itertools
import json
import random
import secrets
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from supervisor import JournalEntry, MemoryStore, SqliteStore, StoreSupervisor, open_supervisor
from supervisor.core import events as e
from supervisor.runtime import starting
from supervisor.testing import CopyingStore, fast_disk, replaced, wall_clock

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
_MACHINE: Mapping[str, Any] = {
    "file": None,
    "host": "host",
    "pid": 1,
    "process": 1,
    "process_started_at": 1.0,
    "guard": 1,
    "guard_started_at": 1.0,
    "log": "/nowhere/log",
    "duration": 0.5,
}
"""The fields of events that say something of the machine, and what is recorded in their place."""


class _Killed(Exception):
    pass


@contextmanager
def fixed() -> Iterator[None]:
    """Let the clock stand, and let ids count."""
    numbers = itertools.count(1)
    with (
        patch.object(secrets, "token_bytes", lambda size: _digits(next(numbers), size)),
        patch.object(secrets, "token_hex", lambda size: next(numbers).to_bytes(size).hex()),
        patch.object(secrets, "choice", lambda letters: letters[next(numbers) % len(letters)]),
        patch.object(random, "random", lambda: 0.5),
        wall_clock() as clock,
        fast_disk(),  # no commit goes to a thread, for which a virtual clock does not wait
    ):
        clock.stands_at = AT
        yield


def _digits(number: int, size: int) -> bytes:
    """Return a number in digits of five bits, of which ids have a letter for each."""
    return bytes(number >> 5 * place & 31 for place in reversed(range(size)))


@contextmanager
def knowing_no_agents() -> Iterator[None]:
    """Be a program that has declared no agents, as the command line is."""
    with replaced(starting, "find_declared", lambda *named: None):
        yield


async def live(store: MemoryStore, body: Callable[[StoreSupervisor], Awaitable[object]], **options: Any) -> MemoryStore:
    """Supervise while `body` runs, and die. Return what is left."""
    left = store
    with suppress(_Killed):
        async with open_supervisor(store, **options) as supervisor:
            await body(supervisor)
            left = store.copy()
            raise _Killed
    return left


async def dying(
    before: MemoryStore,
    body: Callable[[StoreSupervisor], Awaitable[object]],
    session: str,
    until: type,
    **options: Any,
) -> MemoryStore:
    """Live, and return what is left of a death after the first commit of such an event in a session."""
    store = CopyingStore()
    assert store.begin()
    store.write(before.rows(0))
    store.commit()
    await live(store, body, **options)
    kinds = ({type(row.event) for row in copy.rows(0) if row.session == session} for copy in store.copies)
    return next(copy for copy, found in zip(store.copies, kinds, strict=True) if until in found)


def pack(store: MemoryStore, file: Path, replaced: Mapping[str, str] | None = None) -> None:
    """Write what a process has left as a compressed store of SQLite. `replaced`: texts that only this machine has.

    That an attempt has settled is left out, since it is noted after a while: the process had died before.
    """
    kept = [row for row in store.rows(0) if not isinstance(row.event, e.AttemptSettled)]
    rows = [JournalEntry(at, row.session, _elsewhere(row.event, replaced or {})) for at, row in enumerate(kept, 1)]
    trees = sorted(row.root for row in store.find_sessions() if row.outcome is None and row.id == row.root)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.db")
        packed = SqliteStore(path)
        packed.open()
        assert packed.begin()
        packed.write(rows)
        packed.commit()
        packed.close()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE meta SET value = ? WHERE name = 'id'", ("0" * 10,))
            connection.execute("INSERT INTO owner VALUES (1, ?, 'host', 1, 0)", ("0" * 32,))
            connection.executemany("INSERT INTO tree VALUES (?, 1)", [[root] for root in trees])
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("VACUUM")
        pack_file(path, file)


def pack_file(path: Path, file: Path) -> None:
    file.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def _elsewhere(event: Any, replaced: Mapping[str, str]) -> Any:
    """Return an event as another machine would have written it."""
    known = {name: value for name, value in _MACHINE.items() if getattr(event, name, None) is not None}
    text = msgspec.json.encode(msgspec.structs.replace(event, **known)).decode()
    for old, new in replaced.items():
        text = text.replace(old, new)
    return msgspec.json.decode(text, type=type(event))


def pack_document(document: Any, file: Path, replaced: Mapping[str, str]) -> None:
    """Write a compressed document. `replaced`: texts that only this machine has."""
    text = json.dumps(document, sort_keys=True)
    for old, new in replaced.items():
        text = text.replace(old, new)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
