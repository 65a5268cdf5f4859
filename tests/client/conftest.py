"""The suite of all Supervisors runs over Temporal, too: on asyncio alone, as temporalio does. Its scenes share one
namespace and one worker there, so that each takes little time."""

from functools import partial

import pytest
from anyio.from_thread import start_blocking_portal
from scene_agents import SCENES
from sides import side
from temporal_server import namespace, working

from supervisor.client.connection import Connection
from supervisor.testing import replaced


def pytest_collection_modifyitems(items):
    for item in list(items):
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if (given.get("kind"), given.get("anyio_backend")) == ("temporal", "trio"):
            items.remove(item)


@pytest.fixture
def short_pauses():
    """Pauses between two tries that take no time."""
    with replaced(Connection, "shortest_pause", 0.001), replaced(Connection, "longest_pause", 0.001):
        yield


@pytest.fixture(scope="module")
def shared_namespace():
    """The URL of a namespace whose worker is in a thread."""
    with start_blocking_portal("asyncio") as portal:
        url = portal.call(namespace)
        with portal.wrap_async_context_manager(working(url, SCENES)):
            yield url


@pytest.fixture
def opened(kind, request):
    """Open one side, which has the agents of the scenes."""
    shared = request.getfixturevalue("shared_namespace") if kind == "temporal" else None
    return partial(side, kind, agents=SCENES, shared=shared)
