"""Both backends: real time by default, virtual time for a module that says `anyio_backend = virtual_backend`."""

import pytest

from supervisor.testing import virtual_asyncio, virtual_trio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture(params=[virtual_asyncio, virtual_trio], ids=["asyncio", "trio"])
def virtual_backend(request):
    """A backend whose clock jumps to the next timer."""
    return request.param()
