"""The stores, for the guarantees of every store; and a path, for tests of a file."""

import secrets

import pytest
from postgres_server import find_binaries, running

from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "store.db"


@pytest.fixture(scope="session")
def server():
    """The URL of a database on a PostgreSQL server."""
    if (binaries := find_binaries()) is None:
        pytest.skip("this machine has no PostgreSQL server: apt-get install postgresql")
    with running(binaries) as url:
        yield url


@pytest.fixture
def postgres(server):
    """The URL of a store of its own."""
    return f"{server}?schema=t{secrets.token_hex(6)}"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request, path):
    """An open, empty store."""
    if request.param == "postgres":
        from supervisor.store.postgres.store import PostgresStore

        store = PostgresStore(request.getfixturevalue("postgres"))
    else:
        store = MemoryStore() if request.param == "memory" else SqliteStore(path)
    store.open()
    yield store
    store.close()
