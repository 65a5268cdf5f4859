"""The stores, for the guarantees of every store; and a path, for tests of a file."""

import pytest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "store.db"


@pytest.fixture
def store(new_store):
    """An open, empty store."""
    new_store.open()
    yield new_store
    new_store.close()
