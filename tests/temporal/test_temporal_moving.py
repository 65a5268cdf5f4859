"""A tree goes on in a new workflow: after many events, and when it is rescued from code that has changed."""

from functools import partial
from pathlib import Path

import anyio
import pytest
from cluster_agents import __file__ as AGENTS  # noqa: N812 # a path
from temporal_server import namespace, working
from temporalio.client import Client

from supervisor import Answer
from supervisor.loading import load_agents
from supervisor.temporal import open_temporal, starting
from supervisor.temporal.wire import Start

pytestmark = pytest.mark.anyio
ROUNDS = 8


@pytest.fixture
def moves_often(monkeypatch):
    """Sessions that this process starts go on in a new workflow after 40 events."""
    monkeypatch.setattr(starting, "Start", partial(Start, continue_after=40))


async def workflows(url: str, session: str) -> int:
    """Return how many workflows a session has had."""
    target, name = url.removeprefix("temporal://").split("/")
    client = await Client.connect(target, namespace=name)
    return len([each async for each in client.list_workflows(f'WorkflowId = "{session}"')])


async def asked(supervisor, count: int) -> dict[str, str]:
    """Return the ids of what is asked, by the agent, when there is so much."""
    while len(found := await supervisor.find_approvals()) < count:
        await anyio.sleep(0.1)
    return {each.agent: each.id for each in found}


async def test_a_tree_moves_and_nothing_of_it_is_lost(moves_often, tmp_path, monkeypatch):
    """Its approvals keep their ids, its timer, child and calls go on, and each effect happens once."""
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    url = await namespace()
    async with working(url, list(load_agents(AGENTS).values())), open_temporal(url) as supervisor:
        run = await supervisor.start("enduring", ROUNDS, session="e")
        before = await asked(supervisor, 2)
        while len((tmp_path / "effects").read_text().splitlines()) < ROUNDS:
            await anyio.sleep(0.1)
        while await workflows(url, "e") < 2:
            await anyio.sleep(0.1)
        assert await asked(supervisor, 2) == before
        for each in before.values():
            assert (await supervisor.decide(each, Answer(by="ana", value="yes"))).kind == "accepted"
        assert await run.result() == [*(f"round {n}" for n in range(ROUNDS)), "yes", "yes", "False"]
    effects = (tmp_path / "effects").read_text().splitlines()
    assert effects == [f"noted round {n}" for n in range(ROUNDS)]
