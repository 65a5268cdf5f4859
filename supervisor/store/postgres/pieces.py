"""Statements that are sent in one piece, and answered in one piece.

Theory: most statements of a commit are so small that psycopg's cursors, which wait for each of them, cost more than the
server. So the transactions of the writer speak to libpq in its pipeline mode: each statement is prepared once for a
connection, all of a piece are written before anything is read, and the answers are read up to the end of the piece.

Rules
- An error of a statement is raised when all answers were read, so that the connection can go on; the server has skipped
  the statements after it.
- A piece that is interrupted closes its connection: it is not known which answers are still to come.
- A COMMIT that the server answers with ROLLBACK is an error: an earlier statement of the transaction had failed.
"""

import select
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus

Statement = tuple[str, Sequence[Any]]
_DONE: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_BINARY: Final = 1


class Pieces:
    """Sends pieces over one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._names: dict[str, bytes] = {}
        self._transformer = Transformer(connection)

    def send(self, statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each statement. Raises psycopg.Error; UnicodeEncodeError before anything is sent."""
        encoded = [[_encoded(value) for value in values] for _, values in statements]
        try:
            answers = self._exchange(statements, encoded)
        except BaseException:
            self.connection.close()
            raise
        for result in answers:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result, self.connection.info.encoding)
        assert all(result.status in _DONE for result in answers)
        for (query, _), result in zip(statements, answers, strict=True):
            if query == "COMMIT" and result.command_status == b"ROLLBACK":
                raise psycopg.errors.InFailedSqlTransaction("the transaction had failed, and was rolled back")
        return [self._rows(result) for result in answers]

    def _exchange(self, statements: Sequence[Statement], encoded: list[list[bytes | None]]) -> list[Any]:
        """Return the answer to each statement, or of its preparation where that failed."""
        server = self.connection.pgconn
        server.enter_pipeline_mode()
        is_new = []
        names = dict(self._names)
        for (query, values), sent in zip(statements, encoded, strict=True):
            is_new.append(query not in names)
            if is_new[-1]:
                names[query] = f"piece{len(names)}".encode()
                server.send_prepare(names[query], query.encode())
            formats = [_BINARY if isinstance(value, str | bytes) else 0 for value in values]
            server.send_query_prepared(names[query], sent, formats, _BINARY)
        server.pipeline_sync()
        found = self._read_all()
        server.exit_pipeline_mode()
        answers = []
        for (query, _), was_new in zip(statements, is_new, strict=True):
            prepared = next(found) if was_new else None
            if prepared is not None and prepared.status == ExecStatus.COMMAND_OK:
                self._names[query] = names[query]
            answer = next(found)
            answers.append(prepared if prepared is not None and prepared.status == ExecStatus.FATAL_ERROR else answer)
        return answers

    def _read_all(self) -> Any:
        """Write what is to be sent; return the answers up to the end of the piece."""
        server, found = self.connection.pgconn, list[Any]()
        poll = select.poll()
        poll.register(server.socket, select.POLLIN | select.POLLOUT)
        while server.flush():
            if any(event & ~select.POLLOUT for _, event in poll.poll()):
                server.consume_input()  # the server does not read on before its answers are taken
        poll.modify(server.socket, select.POLLIN)
        while True:
            while server.is_busy():
                poll.poll()
                server.consume_input()
            result = server.get_result()
            if result is None:
                if server.status != ConnStatus.OK:
                    raise psycopg.OperationalError("the connection is lost")
            elif result.status == ExecStatus.PIPELINE_SYNC:
                return iter(found)
            else:
                found.append(result)

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
