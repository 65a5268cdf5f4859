"""What is sent in one piece is answered in one piece, and an error leaves a connection that goes on."""

import threading
from types import SimpleNamespace

import psycopg
import pytest
from postgres_server import connect

from supervisor.store.postgres.pieces import Pieces
from supervisor.store.postgres.server import Line


@pytest.fixture
def pieces(server, enter):
    connection = enter(connect(server))
    connection.execute("CREATE TEMP TABLE kept (number bigint PRIMARY KEY, text text, body bytea)")
    return Pieces(connection)


ADD = "INSERT INTO kept VALUES ($1, $2, $3)"
ALL = "SELECT number, text, body FROM kept ORDER BY number"


def test_values_come_back_as_they_were_sent(pieces):
    """Numbers, texts, bytes and nothing; each statement has its own rows."""
    rows = [(2**40, "é\n", b"\0\xff"), (1, None, None)]
    assert pieces.send([(ADD, rows[0]), (ADD, rows[1]), (ALL, ()), ("SELECT 1 WHERE false", ())]) == [
        [], [], [rows[1], rows[0]], []
    ]  # fmt: skip


def test_a_statement_that_fails_is_raised_and_the_connection_goes_on(pieces):
    """The server skips what is after it; a statement that was prepared there is prepared again."""
    with pytest.raises(psycopg.errors.UniqueViolation):
        pieces.send([(ADD, (1, "a", b"")), (ADD, (1, "b", b"")), (ALL, ())])
    with pytest.raises(psycopg.errors.UndefinedTable):
        pieces.send([("SELECT * FROM missing", ())])
    with pytest.raises(psycopg.DataError):
        pieces.send([(ADD, (2, "a\0b", b""))])  # a text ends nowhere but at its end
    with pytest.raises(UnicodeEncodeError):
        pieces.send([(ADD, (2, "\ud800", b""))])
    assert pieces.send([(ALL, ())]) == [[]]


def test_a_commit_of_a_transaction_that_had_failed_is_an_error(pieces):
    """The server rolls it back and says so, in the place where a commit says COMMIT."""
    pieces.send([("BEGIN", ())])
    with pytest.raises(psycopg.errors.DivisionByZero):
        pieces.send([("SELECT 1 / 0", ())])
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        pieces.send([("COMMIT", ())])


def test_a_piece_longer_than_the_buffers_of_both_sides_is_sent(pieces):
    """The answers are read while it is written: neither side waits for the other."""
    body = b"x" * 1_000_000
    found = pieces.send([("SELECT $1::bytea", (body,))] * 20)
    assert [row for rows in found for row in rows] == [(body,)] * 20


def test_a_connection_that_is_lost_is_an_error_and_is_closed(pieces):
    """It is asked over another one what became of the transaction."""
    with pytest.raises(psycopg.OperationalError):
        pieces.send([("SELECT pg_terminate_backend(pg_backend_pid())", ()), (ALL, ())])
    assert pieces.connection.closed


class Broken:
    """A connection that is seen to be broken just before the next one is there."""

    def __init__(self, line):
        self._line, self.is_seen = line, threading.Event()

    @property
    def closed(self):
        if (thread := self._line._connecting) is not None:
            self.is_seen.set()
            thread.join()
        return True


def test_a_connection_that_comes_as_one_looks_for_it_is_not_made_again():
    """Another one would take its place, and nothing would close it then."""
    made = []

    class Machine:
        def connect(self, what):
            if made:
                made[0].is_seen.wait(10)
            made.append(SimpleNamespace(closed=False) if made else Broken(line))
            return made[-1]

    line = Line(Machine(), "writer", lambda connection: None)
    line.open()
    assert line.get() is None
    assert line.get() is made[1]
    assert len(made) == 2
