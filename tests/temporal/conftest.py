"""One namespace for each test, on the shared dev server."""

import sys
from pathlib import Path

import anyio
import pytest
from clusters import Cluster
from temporal_server import namespace

sys.path.append(str(Path(__file__).parents[1] / "fuzz"))  # its random programs run here, too
sys.path.append(str(Path(__file__).parents[1] / "channels" / "chat"))  # the fakes of platforms


@pytest.fixture
def anyio_backend():
    """temporalio runs on asyncio alone."""
    return "asyncio"


@pytest.fixture
def cluster(tmp_path):
    here = Cluster(anyio.run(namespace), tmp_path)
    yield here
    here.kill()
