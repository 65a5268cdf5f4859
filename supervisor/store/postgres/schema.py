"""The format of a store in a database, and how a process comes in: its tables are in a schema of their own.

Theory: each connection to an open store holds a shared advisory lock, the *room*, as long as it is open. It takes it at
the *door*, a second lock, which one process at a time holds. So a process at the door that gets the room exclusively
knows that no other process has the store open, whatever its version, and keeps every other one out until it is done.

Rules
- Each of `STEPS` upgrades one format to the next; the first one makes the tables. All steps that a store needs, and its
  new number, commit together. A released step never changes again.
- Nothing is written without the exclusive lock. A process that does not get it says which processes are in.
- A connection that is made again comes in through the door, too: a program of an older format that was away during an
  upgrade finds the new number, and is refused.
"""

import secrets
import time
from typing import Final

from supervisor.core.errors import NotFound, StoreUnreadable
from supervisor.store.index.reads import read_queries, read_sql
from supervisor.store.postgres.server import Connection
from supervisor.system.logs import FactLog

log = FactLog(__name__)

PATIENCE_SECONDS: Final = 1.0
"""Seconds to wait for processes that have the store open: most commands end sooner."""
_PAUSE_SECONDS: Final = 0.02


STEPS: tuple[str, ...] = (read_sql(__package__, "schema.sql"),)
QUERIES: Final = read_queries(__package__)


def newest() -> int:
    """Return the format that we write."""
    return len(STEPS)


def come_in(connection: Connection, schema: str, name: str, *, create: bool = False) -> str:
    """Hold a store open over this connection, after its upgrade to the newest format if it has an older one; return its
    id. `create`: make it if there is none. Raises psycopg.Error, NotFound, and StoreUnreadable for a store that is
    newer, or whose upgrade other processes prevent; the caller then closes the connection."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '10s'")
        connection.execute(QUERIES["door"], [schema])
        format_ = _read_format(connection, schema)
        if not format_ and not create:
            raise NotFound(f"there is no store at {name}; `start`, `run` and `demo` make one")
        if format_ > newest():
            raise StoreUnreadable(
                f"{name} was written by a newer version of this program (format {format_}, this one reads up to "
                f"{newest()}); it was left untouched. Upgrade this program to open it"
            )
        if format_ < newest():
            _take_room(connection, schema, name)
            _upgrade(connection, schema, format_)
        connection.execute(QUERIES["room"], [schema])
        (id_,) = connection.execute(QUERIES["meta"], ["id"]).fetchone() or ("",)
    if 0 < format_ < newest():
        log.warning("store.upgraded", store=name, format=format_, next_format=newest())
    return str(id_)


def _read_format(connection: Connection, schema: str) -> int:
    """Return the format of a store; 0 if there is none."""
    if connection.execute("SELECT to_regclass($1)", [f"{schema}.store"]).fetchone() == (None,):
        return 0
    (found,) = connection.execute("SELECT format FROM store").fetchone() or (0,)
    return int(found)


def _take_room(connection: Connection, schema: str, name: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while connection.execute(QUERIES["whole_room"], [schema]).fetchone() == (False,):
        inside = ", ".join(process for (process,) in connection.execute(QUERIES["inside"], [schema]))
        if inside and time.monotonic() > until:
            raise StoreUnreadable(
                f"{name} has an older format and must be upgraded, but other processes have it open ({inside}); it was "
                "left untouched. Stop them, then open it again"
            )
        time.sleep(_PAUSE_SECONDS)


def _upgrade(connection: Connection, schema: str, format_: int) -> None:
    if not format_ and connection.execute("SELECT to_regnamespace($1)", [schema]).fetchone() == (None,):
        connection.execute(f'CREATE SCHEMA "{schema}"')  # a role that may not make a schema may be given one
    for step in STEPS[format_:]:
        connection.execute(step)  # several statements, without parameters: the server takes them in one piece
    if not format_:
        connection.execute("INSERT INTO meta VALUES ('id', $1)", [secrets.token_hex(5)])
        connection.execute("INSERT INTO store (format, last, commits) VALUES (0, 0, 0)")
    connection.execute("UPDATE store SET format = $1", [newest()])
