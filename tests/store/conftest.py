"""The stores, for the guarantees of every store; and a path, for tests of a file."""

import pytest

from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite.store import SqliteStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "store.db"


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
