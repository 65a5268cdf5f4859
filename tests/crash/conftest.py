"""Real processes on real files, on both backends."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from nest import Nests


@pytest.fixture(scope="session")
def nests():
    """Return the source of processes."""
    found = Nests(Path(__file__).with_name("life.py"))
    yield found
    found.close()


@pytest.fixture(params=["asyncio", "trio"])
def backend(request):
    """Return the backend of the processes. The tests themselves are ordinary functions."""
    return request.param


@pytest.fixture(scope="session")
def two_at_a_time():
    """Run a story for each case, two at a time. Return all problems that they found."""
    with ThreadPoolExecutor(2) as pool:
        yield lambda story, cases: [problem for found in pool.map(story, cases) for problem in found]
