"""What waits in the recorded store `frameworks` goes on: calls of Pydantic AI, OpenAI Agents and LangGraph."""

import crossing_agents
import crossing_langgraph
import pytest
from crossed import CROSSINGS, opened, unpacked

from supervisor import Approve

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    """LangGraph and OpenAI Agents run on asyncio alone."""
    return "asyncio"


@pytest.mark.parametrize("name", ["pydantic", "openai", "langgraph"])
@pytest.mark.parametrize("crossing", CROSSINGS)
async def test_each_call_runs_once_after_its_decision(crossing, name, tmp_path):
    """One that waits, one with edited arguments, one that was denied, and one with which the process died."""
    crossing_agents.effects.clear()
    path = unpacked(crossing, "langgraph" if name == "langgraph" else "frameworks", tmp_path)
    if name == "langgraph":
        crossing_langgraph.threads = unpacked(crossing, "langgraph-threads", tmp_path)
    async with opened(path) as supervisor:
        waiting = {each.session: each.id for each in await supervisor.find_approvals()}
        runs = {run.session.partition("-")[2]: run for run in await supervisor.resume_all() if name in run.session}
        asked = await supervisor.get_approval(waiting[f"{name}-waits"])
        assert (asked.status, asked.arguments) == ("pending", {"path": "a"})
        await supervisor.decide(asked.id, Approve(by="ana"))
        values = {state: await run.result() for state, run in runs.items()}
    assert (values["waits"], values["edited"].endswith("deleted b")) == ("done: deleted a", True)
    assert "no" in values["denied"]
    assert sorted(effect for effect in crossing_agents.effects if effect != "delete b") == ["delete a"]
    assert crossing_agents.effects.count("delete b") == (1 if name == "langgraph" else 2)
