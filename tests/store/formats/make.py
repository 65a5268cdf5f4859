"""Makes the fixture store of the format that this program writes: FORMAT.db.gz, in this folder or another one. The
fixture on PostgreSQL is made by make_postgres.py, with the same content.

    .venv/bin/python tests/store/formats/make.py [FOLDER]

Run it once for each format, before its release; a fixture is never made again afterwards. The program itself makes its
content, on virtual time, with a fixed wall clock and ids that are not random: two runs make the same bytes.

It has the content that a test checks (tests/store/test_store_formats.py): `waits` has taken a step and waits for an
approval, its owner died, `done` has finished, and a rule denies a tool. Since format 10, `used` has used an allowance.
"""

import gzip
import itertools
import secrets
import sqlite3
import sys
import tempfile
from contextlib import chdir, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs

from supervisor import JournalEntry, MemoryStore, SqliteStore, allow, deny, open_supervisor
from supervisor.seam.store import Store
from supervisor.store.sqlite import schema
from supervisor.testing import replaced, virtual_asyncio, wall_clock

HERE = Path(__file__).parent
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
END = datetime(2226, 1, 1, tzinfo=UTC)


async def rows() -> list[JournalEntry]:
    """Run the agents; return the journals of all."""
    from format_agents import greet, release

    store = MemoryStore()
    async with open_supervisor(store) as supervisor:
        await supervisor.add_rule(deny("rm"), by="ben")
        await supervisor.add_rule(allow("deploy", '{"target":"b.tar"}', uses=2, until=END), by="ben")
        done = await supervisor.start(greet, "ann", session="done", requester="ann")
        await done.result()
        used = await supervisor.start(release, "b", session="used", requester="ann")
        await used.result()
        waits = await supervisor.start(release, "app", session="waits", requester="ann")
        async with waits.watch_approvals() as asked:
            await anext(asked)
    return [JournalEntry(row.position, row.session, without_machine(row.event)) for row in store.rows(0)]


def without_machine(event: Any) -> Any:
    """Return an event without facts about the machine that made the fixture."""
    known = {"file": None, "host": "host", "pid": 1}
    return structs.replace(event, **{name: value for name, value in known.items() if hasattr(event, name)})


def journals() -> list[JournalEntry]:
    numbers = itertools.count(1)
    with (
        replaced(secrets, "token_bytes", lambda size: next(numbers).to_bytes(size)),
        wall_clock() as clock,
        chdir("/"),  # a session records its folder
    ):
        clock.stands_at = AT
        backend, options = virtual_asyncio()
        return anyio.run(rows, backend=backend, backend_options=options)


def fill(store: Store) -> None:
    store.open()
    assert store.begin()
    store.write(journals())
    store.commit()
    store.close()


def make(path: Path) -> None:
    fill(SqliteStore(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'id'", ("0" * 10,))
        connection.execute("INSERT INTO owner VALUES (1, ?, 'host', 1, 0)", ("0" * 32,))
        connection.execute("INSERT INTO tree VALUES ('waits', 1)")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    fixture = Path(*sys.argv[1:] or [HERE]).resolve() / f"{schema.newest()}.db.gz"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "state.db"
        make(made)
        fixture.write_bytes(gzip.compress(made.read_bytes(), mtime=0))
    print(f"{fixture}: {fixture.stat().st_size} bytes")
