"""Here time is virtual, on both backends, and commits take none of it."""

import pytest
from scenes import effects


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.fixture(autouse=True)
def _no_commit_is_slow(monkeypatch):
    """A slow commit goes to a thread, which does not hold the virtual clock: no disk decides a test."""
    monkeypatch.setattr("supervisor.runtime.journal.writer.SLOW_COMMIT", 1e9)


@pytest.fixture(autouse=True)
def _nothing_has_happened():
    effects.clear()
