"""The lines of a store that are no entries of a journal: a book has them in the order in which they become visible.

Rules
- A line is added under a lock of its own, which no other transaction takes. So a reader that asks for what comes after
  a number misses none.
- `add` is called in any thread, and makes a connection of its own: few lines are added so. `note` uses the reader's.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
import psycopg

from supervisor.store.postgres import faults
from supervisor.store.postgres.schema import QUERIES
from supervisor.store.postgres.server import Address, Connection


class LinesOfBook:
    """See Book. `ask` runs work on the reader's connection."""

    def __init__(self, name: str, address: Address, ask: Callable[[Callable[[Connection], Any]], Any]) -> None:
        self._name = name
        self._address = address
        self._ask = ask

    def read(self, after: int) -> list[tuple[int, bytes]]:
        found = self._ask(lambda reader: reader.execute(QUERIES["lines"], (self._name, after)).fetchall())
        return [(number, text.encode()) for number, text in found]

    def add(self, lines: Sequence[bytes]) -> None:
        try:
            with self._address.connect("book") as connection:
                self._add(connection, lines, sync="on")
        except psycopg.Error as error:
            raise faults.explain(error, self._address.name) from error

    def note(self, lines: Sequence[bytes]) -> None:
        self._ask(lambda reader: self._add(reader, lines, sync="off"))

    def remove(self, lines: Collection[bytes]) -> None:
        if lines:
            self._ask(lambda reader: reader.execute(QUERIES["remove_lines"], (self._name, _as_json(lines))).rowcount)

    def _add(self, connection: Connection, lines: Sequence[bytes], *, sync: str) -> None:
        with connection.pipeline():
            connection.execute("BEGIN")
            connection.execute(f"SET LOCAL synchronous_commit = {sync}")
            connection.execute(QUERIES["line_lock"], (self._address.schema,))
            connection.execute(QUERIES["add_lines"], (self._name, _as_json(lines)))
            connection.execute("COMMIT")


def _as_json(lines: Collection[bytes]) -> str:
    return msgspec.json.encode([line.decode() for line in lines]).decode()
