"""Real processes on real files, on both backends."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from nest import Nests


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
