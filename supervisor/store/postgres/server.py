"""Connections to a PostgreSQL server: each is checked when it is made, and made again, in a thread, when it breaks.

Rules
- The loop never connects: a server that does not answer would hold it for seconds. `get` returns at once, or waits for
  a bounded time for the thread that connects.
- A connection that goes to another database than the one that was opened is refused, and so is one through a pooler,
  one to a standby, and one to a server that does not sync commits to its disk.
- No message has the text of a URL: it may contain a password.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from supervisor.core.errors import InvalidInput, StoreError, StoreUnreadable
from supervisor.core.store_urls import split_schema
from supervisor.store.postgres.pieces import Pieces, Statement
from supervisor.system.identity import HOST
from supervisor.system.withheld import withhold_all, withhold_secret


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """One whose waits can be given up: then it is broken. `give_up` is asked every few milliseconds of a wait, with the
    seconds that it has lasted."""

    give_up: Callable[[float], bool] | None = None

    def wait(self, gen: Generator[Any, Any, Any], interval: float = 0.1, *given: Any, **options: Any) -> Any:
        if (give_up := self.give_up) is not None:
            gen, interval = _given_up(gen, give_up), _ASKED_SECONDS
        return super().wait(gen, interval, *given, **options)


def _given_up(gen: Generator[Any, Any, Any], give_up: Callable[[float], bool]) -> Generator[Any, Any, Any]:
    begun = time.monotonic()
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and give_up(time.monotonic() - begun):
                gen.close()
                raise psycopg.OperationalError("the server does not answer")
            state = gen.send(ready)
    except StopIteration as done:
        return done.value


_ASKED_SECONDS: Final = 0.008
"""Seconds between two questions whether a wait is given up."""
SETTINGS: Final = {
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": "10s",  # a writer that was stopped holds the lock no longer
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
    "jit": "off",
    "enable_mergejoin": "off",  # each query is a walk along indexes: a page of 50 sessions was a merge over all entries
    "enable_hashjoin": "off",
    "max_parallel_workers_per_gather": "0",
    "TimeZone": "UTC",
    "client_min_messages": "error",
    "default_transaction_isolation": "read committed",
}
CONNECTING: Final[dict[str, Any]] = {
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}
OLDEST: Final = 130000
_ABOUT: Final = """
SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('server_encoding'), current_setting('fsync'),
       current_setting('idle_in_transaction_session_timeout')
"""


class Address:
    """A URL `postgresql://USER@HOST:PORT/DATABASE?schema=NAME`, and libpq's other parameters."""

    def __init__(self, url: str) -> None:
        self.conninfo, self.schema = split_schema(url)
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", self.schema):
            raise InvalidInput("schema= names a schema: lower-case letters, digits and _")
        try:
            known = conninfo_to_dict(self.conninfo)
        except psycopg.Error:
            raise InvalidInput(
                "libpq does not know a parameter of this URL, or a % in it begins no escape (write it as %25): "
                "postgresql://USER@HOST:PORT/DATABASE?schema=NAME"
            ) from None
        withhold_all("PG")  # who has these variables has the store, and decides (T4)
        for secret in (url, known.get("password"), known.get("sslpassword")):
            withhold_secret(str(secret or ""))
        if "options" in known:
            raise InvalidInput("options= is set by this program: set what you need for the role (ALTER ROLE ... SET)")
        where = f"{known.get('host', '')}{':' + str(known['port']) if 'port' in known else ''}"
        self.name = f"postgresql://{where}/{known.get('dbname', '')}?schema={self.schema}"

    def connect(self, what: str) -> Connection:
        """Raises psycopg.OperationalError, and StoreUnreadable for a server that cannot keep a store."""
        settings = {**SETTINGS, "search_path": self.schema}
        connection = Connection.connect(
            self.conninfo,
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
            prepare_threshold=2,
            application_name=f"supervisor {what} {HOST[:40]}:{os.getpid()}",
            options=" ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items()),
            **CONNECTING,
        )
        try:
            if (why := _why_not(connection)) is not None:
                raise StoreUnreadable(f"{self.name} cannot keep a store: {why}")
            connection.adapters.register_dumper(int, Int8Dumper)
        except BaseException:
            connection.close()
            raise
        return connection


def _why_not(connection: Connection) -> str | None:
    """Return the reason why a server cannot keep a store; None if it can."""
    version = connection.info.server_version
    if version < OLDEST:
        return f"its version is {version // 10000}, and {OLDEST // 10000} or later is needed"
    found = connection.execute(_ABOUT).fetchone()
    assert found is not None
    pid, is_standby, encoding, fsync, timeout = found
    return (
        "a pooler is in between (PgBouncer): name the server itself" if pid != connection.info.backend_pid
        else "something in between drops the settings of a session" if timeout != "10s"
        else "it is a standby, which lags: name the primary" if is_standby
        else f"its encoding is {encoding}: make the database with ENCODING 'UTF8'" if encoding != "UTF8"
        else "its fsync is off, so that it may lose commits" if fsync != "on"
        else None
    )  # fmt: skip


def is_lost(error: BaseException, connection: Connection | None) -> bool:
    """Whether an error means that a connection is broken, rather than that a statement was refused. The connection is
    closed then. An error without a code comes from the client, and says nothing about what the server did."""
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate or ""
    is_client = not code and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if connection is None or connection.closed or is_client or code.startswith(("08", "57P")) or code == "25P03":
        if connection is not None:
            connection.close()
        return True
    return False


class Line:
    """One connection that is made again when it breaks. One thread at a time uses it."""

    def __init__(
        self,
        address: Address,
        what: str,
        prepare: Callable[[Connection], None],
        give_up: Callable[[float], bool] | None = None,
    ) -> None:
        self._give_up = give_up
        self._address = address
        self._what = what
        self._prepare = prepare
        self._connection: Connection | None = None
        self._came = threading.Event()
        self._connecting: threading.Thread | None = None
        self._is_closed = False
        self._pieces: Pieces | None = None
        self.refused: StoreError | None = None
        self.down_since: float | None = None

    def open(self) -> None:
        """Connect at once. Raises psycopg.Error, StoreUnreadable."""
        self._is_closed = False
        self._connection = self._connect()
        self._connection.give_up = self._give_up
        self._came.set()

    def get(self, wait: float = 0.0) -> Connection | None:
        """Return the connection; None while there is none, at most so many seconds later. `refused` may say why."""
        if self._is_closed:
            return None
        if self._is_connected():
            return self._connection
        if self._connecting is None or not self._connecting.is_alive():
            if self._is_connected():  # the thread has made one since, and has ended
                return self._connection
            self._came.clear()
            self.down_since = self.down_since or time.monotonic()
            self._connecting = threading.Thread(
                target=self._connect_again, name=f"supervisor {self._what}", daemon=True
            )
            self._connecting.start()
        if wait and self._came.wait(wait) and self.refused is None:
            return self._connection
        return None

    def send(self, connection: Connection, statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
        """Send statements over this connection, in one piece; return the rows of each. Raises psycopg.Error."""
        return self.pieces(connection).send(statements)

    def pieces(self, connection: Connection) -> Pieces:
        if self._pieces is None or self._pieces.connection is not connection:
            self._pieces = Pieces(connection)
        return self._pieces

    def _is_connected(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def drop(self) -> None:
        """Break the connection, whatever its state."""
        if self._connection is not None:
            self._connection.close()

    def down_for(self) -> float:
        since = self.down_since  # the thread that connects sets it
        return 0.0 if since is None else time.monotonic() - since

    def close(self) -> None:
        self._is_closed = True
        self.drop()

    def _connect(self) -> Connection:
        connection = self._address.connect(self._what)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_again(self) -> None:
        while not self._is_closed:
            try:
                connection = self._connect()
            except psycopg.Error:
                time.sleep(0.1)
            except StoreError as error:  # the server is another one than before
                self.refused = error
                self._came.set()
                time.sleep(1.0)
            else:
                connection.give_up = self._give_up
                self._connection, self.down_since, self.refused = connection, None, None
                if self._is_closed:
                    connection.close()
                self._came.set()
                return
