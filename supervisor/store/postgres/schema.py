"""The format of a store in a database, and how it is made. Its tables are in a schema of their own."""

import pkgutil
import re
import secrets
from typing import Final

from supervisor.core.errors import NotFound, StoreUnreadable
from supervisor.store.postgres.server import Connection

FORMAT: Final = 2
"""In format 1 no rule ends by itself. Its tables are the same; a program of that format refuses this one."""


def _text(name: str) -> str:
    found = pkgutil.get_data(__package__, name)
    assert found is not None
    return found.decode()


def _named(text: str) -> dict[str, str]:
    blocks = re.findall(r"^-- (\w+): .*\n((?:(?!--).*\n)+)", text, re.MULTILINE)
    return {name: query.strip().rstrip(";") for name, query in blocks}


QUERIES: Final = _named(_text("queries.sql"))


def bring_up_to_date(connection: Connection, schema: str, name: str, *, create: bool) -> None:
    """Make the tables, or check that they are of this format. One transaction: there is all of a store, or none."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [f"supervisor {schema}"])
        found = connection.execute("SELECT to_regclass($1) IS NOT NULL", [f"{schema}.store"]).fetchone()
        assert found is not None
        if not found[0]:
            if not create:
                raise NotFound(f"there is no store at {name}; `start`, `run` and `demo` make one")
            is_there = connection.execute("SELECT to_regnamespace($1) IS NOT NULL", [schema]).fetchone()
            if is_there == (False,):  # a role that may not make a schema may be given one
                connection.execute(f'CREATE SCHEMA "{schema}"')
            for statement in _text("schema.sql").split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('id', $1)", [secrets.token_hex(5)])
            connection.execute("INSERT INTO store (format, last, commits) VALUES ($1, 0, 0)", [FORMAT])
        (format_,) = connection.execute("SELECT format FROM store").fetchone() or (0,)
        if format_ < FORMAT:
            connection.execute("UPDATE store SET format = $1", [FORMAT])
        if format_ > FORMAT:
            raise StoreUnreadable(
                f"{name} was written by a newer version of this program (format {format_}, this one reads up to "
                f"{FORMAT}); it was left untouched. Upgrade this program to open it"
            )
