"""Statements that are sent in one piece, and answered in one piece.

Theory: most statements of a commit are so small that psycopg's cursors, which wait for each of them, cost more than the
server. So the transactions of the writer speak to libpq in its pipeline mode: each statement is prepared once for a
connection, all of a piece are written before anything is read, and the answers are read up to the end of the piece.

Rules
- An error of a statement is raised when all answers were read, so that the connection can go on; the server has skipped
  the statements after it.
- A piece that is interrupted closes its connection: it is not known which answers are still to come.
- A loop sends a piece with `begin`, waits for what `waits` yields, and has the rows from `finish`, which then waits no
  more. `send` is all of it at once.
- A COMMIT that the server answers with ROLLBACK is an error: an earlier statement of the transaction had failed.
"""

import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus

Statement = tuple[str, Sequence[Any]]
_DONE: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_BINARY: Final = 1
_ASKED_MILLISECONDS: Final = 8
"""Between two questions whether a wait is given up."""


class Pieces:
    """Sends pieces over one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._names: dict[str, bytes] = {}
        """By which the server knows a statement."""
        self._next_names: dict[str, bytes] = {}
        self._statements: Sequence[Statement] = ()
        self._is_new: list[bool] = []
        self._found: list[Any] = []
        self._is_written = self._is_answered = False
        self._transformer = Transformer(connection)

    def send(self, statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each statement. Raises psycopg.Error; UnicodeEncodeError before anything is sent."""
        self.begin(statements)
        return self.finish()

    def begin(self, statements: Sequence[Statement]) -> None:
        """Send statements without waiting: `finish` returns their rows. Raises as `send`."""
        encoded = [[_encoded(value) for value in values] for _, values in statements]
        with self._closing_if_interrupted():
            server = self.connection.pgconn
            server.enter_pipeline_mode()
            self._statements, self._is_new, self._found = statements, [], []
            self._is_written = self._is_answered = False
            names = dict(self._names)
            for (query, values), sent in zip(statements, encoded, strict=True):
                self._is_new.append(query not in names)
                if self._is_new[-1]:
                    names[query] = f"piece{len(names)}".encode()
                    server.send_prepare(names[query], query.encode())
                formats = [_BINARY if isinstance(value, str | bytes) else 0 for value in values]
                server.send_query_prepared(names[query], sent, formats, _BINARY)
            self._next_names = names
            server.pipeline_sync()
            self._is_written = not server.flush()

    def waits(self) -> Iterator[int]:
        """Yield a descriptor as often as one has to wait until it is readable, before `finish` returns at once. Raises
        psycopg.Error; BlockingIOError for a piece that is longer than the buffers, for which `finish` waits."""
        if not self._is_written:
            raise BlockingIOError
        with self._closing_if_interrupted():
            while not self._has_all():
                yield self.connection.pgconn.socket
                self.connection.pgconn.consume_input()

    def finish(self) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each statement of the piece that was begun, as soon as they are there."""
        with self._closing_if_interrupted():
            self._read_all()
            self.connection.pgconn.exit_pipeline_mode()
        found, answers = iter(self._found), []
        for (query, _), was_new in zip(self._statements, self._is_new, strict=True):
            prepared = next(found) if was_new else None
            if prepared is not None and prepared.status == ExecStatus.COMMAND_OK:
                self._names[query] = self._next_names[query]
            answer = next(found)
            answers.append(prepared if prepared is not None and prepared.status == ExecStatus.FATAL_ERROR else answer)
        for result in answers:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result, self.connection.info.encoding)
        assert all(result.status in _DONE for result in answers)
        for (query, _), result in zip(self._statements, answers, strict=True):
            if query == "COMMIT" and result.command_status == b"ROLLBACK":
                raise psycopg.errors.InFailedSqlTransaction("the transaction had failed, and was rolled back")
        return [self._rows(result) for result in answers]

    @contextmanager
    def _closing_if_interrupted(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.connection.close()
            raise

    def _read_all(self) -> None:
        """Write what is to be sent; read the answers up to the end of the piece."""
        server, poll = self.connection.pgconn, select.poll()
        if not self._is_written:
            poll.register(server.socket, select.POLLIN | select.POLLOUT)
            while server.flush():
                if any(event & ~select.POLLOUT for _, event in self._wait(poll)):
                    server.consume_input()  # the server does not read on before its answers are taken
        poll.register(server.socket, select.POLLIN)
        while not self._has_all():
            self._wait(poll)
            server.consume_input()

    def _has_all(self) -> bool:
        """Take the answers that have come; return whether these are all."""
        server = self.connection.pgconn
        while not self._is_answered and not server.is_busy():
            result = server.get_result()
            if result is None:
                if server.status != ConnStatus.OK:
                    raise psycopg.OperationalError("the connection is lost")
            elif result.status == ExecStatus.PIPELINE_SYNC:
                self._is_answered = True
            else:
                self._found.append(result)
        return self._is_answered

    def _wait(self, poll: select.poll) -> list[tuple[int, int]]:
        """Wait for the server, unless the connection gives it up (server.Connection)."""
        give_up = getattr(self.connection, "give_up", None)
        if give_up is None:
            return poll.poll()
        begun = time.monotonic()
        while not (found := poll.poll(_ASKED_MILLISECONDS)):
            if give_up(time.monotonic() - begun):
                raise psycopg.OperationalError("the server does not answer")
        return found

    def _rows(self, result: Any) -> list[tuple[Any, ...]]:
        if not result.ntuples:
            return []
        self._transformer.set_pgresult(result, format=psycopg.pq.Format.BINARY)
        return self._transformer.load_rows(0, result.ntuples, tuple)


def _encoded(value: Any) -> bytes | None:
    """Return a value as it is sent: bytes and texts as they are, a number as the text of one, whose type the server
    infers."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        if "\0" in value:
            raise psycopg.DataError("a text of PostgreSQL contains no NUL")
        return value.encode()
    return str(value).encode()
