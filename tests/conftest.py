"""Both backends: real time by default, virtual time for a module that says `anyio_backend = virtual_backend`."""

import os

import pytest
from hypothesis import HealthCheck, settings

from supervisor.testing import virtual_asyncio, virtual_trio

# A busy machine is no failure. In CI the examples are the same each time: what fails there was broken by the change.
settings.register_profile(
    "house", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


def pytest_collection_modifyitems(config, items):
    """What takes many minutes is only for whoever asks for it by `-m soak`. Long tests first, so that no worker is left
    alone with them at the end."""
    if "soak" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("soak")])
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture(params=[virtual_asyncio, virtual_trio], ids=["asyncio", "trio"])
def virtual_backend(request):
    """A backend whose clock jumps to the next timer."""
    return request.param()
