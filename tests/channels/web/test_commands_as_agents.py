"""A4: only the command line, the configuration and code may give a reference that holds a command. No other surface."""

import named_agents
import pytest
from sites import world

from supervisor import Context, InvalidInput, ToolCall, agent, load_agent
from supervisor.system.loading import SCHEMES

pytestmark = pytest.mark.anyio
REFERENCE = "fake:coder --danger"


@pytest.fixture(autouse=True)
def _scheme(monkeypatch):
    monkeypatch.setitem(SCHEMES, "fake", "named_agents:fake_agent")
    named_agents.made.clear()


@agent
async def modelling(ctx: Context) -> str:
    return (await ctx.call(ToolCall("1", REFERENCE, {"text": "x"}))).kind


async def by_name(here):
    with pytest.raises(InvalidInput, match="holds a command"):
        await here.supervisor.start(REFERENCE, "x", by="olga")


async def over_http(here):
    async with here.client("olga") as client:
        answer = await client.post("/api/sessions", json={"agent": REFERENCE, "input": "x"})
    assert (answer.status_code, "holds a command" in answer.text) == (422, True)


async def from_a_model(here):
    assert await (await here.supervisor.start(modelling, by="olga")).result() == "error"


async def in_chat(here):
    asked = await here.ask()
    await here.supervisor.chat(asked.session, REFERENCE, by="olga")
    async with here.client("olga") as client:
        answer = await client.post(f"/api/sessions/{asked.session}/messages", json={"text": REFERENCE})
    assert answer.status_code < 500


SURFACES = [by_name, over_http, from_a_model, in_chat]


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_command_is_refused(surface):
    """By one check, wherever an agent is started by a text; operators are no exception. No agent is made."""
    async with world() as here:
        await surface(here)
        assert {view.agent for view in await here.supervisor.find_sessions()} <= {"modelling", "noting"}
    assert named_agents.made == []


async def test_a_command_is_accepted_from_code():
    """As on the command line and in the configuration: it is loaded first, and started as what it is."""
    async with world() as here:
        run = await here.supervisor.start(load_agent(REFERENCE), "x", by="olga")
        assert (await here.supervisor.get_session(run.session)).agent == "coder"
