"""Here time is virtual, on both backends, and the store is in memory."""

import pytest


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend
