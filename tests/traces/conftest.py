"""Time is virtual in these tests, and each has an SDK of its own."""

import pytest
from recorded import sdk
from scenes import anyio_backend, no_commit_is_slow, nothing_has_happened

__all__ = ["anyio_backend", "no_commit_is_slow", "nothing_has_happened", "spans"]


@pytest.fixture
def spans():
    with sdk() as recorded:
        yield recorded
