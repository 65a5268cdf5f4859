"""Real processes on real files, on both backends."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from nest import Nests


def pytest_collection_modifyitems(config, items):
    """The full enumerations take many minutes: only for whoever asks for them by `-m soak`."""
    if "soak" not in config.option.markexpr:
        soaks = [item for item in items if item.get_closest_marker("soak") and "crash" in item.path.parts]
        config.hook.pytest_deselected(items=soaks)
        items[:] = [item for item in items if item not in soaks]


@pytest.fixture(scope="session")
def nests():
    """Where processes come from."""
    found = Nests()
    yield found
    found.close()


@pytest.fixture(params=["asyncio", "trio"])
def backend(request):
    """The backend of the processes; the tests themselves are ordinary functions."""
    return request.param


@pytest.fixture(scope="session")
def two_at_a_time():
    """Run a story for each case, two at a time; returns all problems that they found."""
    with ThreadPoolExecutor(2) as pool:
        yield lambda story, cases: [problem for found in pool.map(story, cases) for problem in found]
