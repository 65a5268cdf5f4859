"""Here time is virtual, on both backends, and the store is in memory."""

import pytest
from scenes import effects


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.fixture(autouse=True)
def _nothing_has_happened():
    effects.clear()
