"""Makes the fixture of the format of stores on PostgreSQL: postgres-FORMAT.sql, in this folder or another one.

    .venv/bin/python tests/store/formats/make_postgres.py [FOLDER]

As make.py; it starts a PostgreSQL server of this machine, and the text is what pg_dump says of the store.
"""

import secrets
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

from make import fill  # noqa: E402 # found by the line above
from postgres_server import ask, running, text_of  # noqa: E402

from supervisor.store.postgres import schema  # noqa: E402
from supervisor.store.postgres.store import PostgresStore  # noqa: E402


def make(server: str) -> str:
    """Return the text of a store that is made on a server, and removed again."""
    url = f"{server}?schema=made{secrets.token_hex(6)}"
    fill(PostgresStore(url))
    ask(url, f"""
            UPDATE meta SET value = '{"0" * 10}' WHERE name = 'id';
            UPDATE commit SET token = '{"0" * 16}';
            INSERT INTO owner (id, host, pid, since, started_by, machine, presence)
            VALUES ('{"0" * 32}', 'host', 1, 0, '[]', 'machine', 0);
            INSERT INTO tree SELECT 'waits', number FROM owner""")  # fmt: skip # it has no beat: it died
    text: str = text_of(url)
    ask(url, f"DROP SCHEMA {url.rpartition('=')[2]} CASCADE")
    return text


if __name__ == "__main__":
    fixture = Path(*sys.argv[1:] or [HERE]).resolve() / f"postgres-{schema.newest()}.sql"
    with running() as server:
        fixture.write_text(make(server.url))
    print(f"{fixture}: {fixture.stat().st_size} bytes")
