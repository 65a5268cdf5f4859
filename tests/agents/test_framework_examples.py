"""The examples of frameworks, as a program runs them: over HTTP to a scripted model on loopback."""

import json
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from coding_model import Handler
from watching import next_of

from supervisor import Approve, Deny, MemoryStore, open_supervisor
from supervisor.system.loading import load_agent

pytestmark = pytest.mark.anyio
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Quiet(Handler):
    def log_message(self, *args): ...


@pytest.fixture
def model(monkeypatch):
    """Serve the scripted model where the libraries look for theirs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    server.daemon_threads = True
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    yield
    server.shutdown()
    server.server_close()


AGENTS = {
    "pydantic_ai_agent.py:cleaner": ([], "cleaner.remove"),
    "langgraph_agent.py:planner": ([], "planner.remove"),
    "openai_agents_agent.py:helper": ([["tool", "transfer_to_cleaner", {}]], "helper.Cleaner.remove"),
}


@pytest.mark.parametrize("example", AGENTS)
async def test_an_example_asks_before_it_removes(example, model, tmp_path, monkeypatch):
    """One file is kept and one is removed, as a person says; the second turn goes on with the conversation."""
    first, asked = AGENTS[example]
    monkeypatch.chdir(tmp_path)
    for name in ("a.tmp", "b.tmp"):
        (tmp_path / name).touch()
    script = [*first, ["tool", "list_files", {}], ["tool", "remove", {"name": "a.tmp"}], ["say", "kept it"]]
    cleaner = load_agent(str(EXAMPLES / example))
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(cleaner, f"script: {json.dumps(script)}", session="s")
        approval = await next_of(run.watch_approvals())
        assert (approval.tool, approval.arguments) == (asked, {"name": "a.tmp"})
        await supervisor.decide(approval.id, Deny(by="ana", reason="it is mine"))
        assert await run.result() == "kept it"
        again = [["tool", "remove", {"name": "b.tmp"}], ["say", "removed it"]]
        await supervisor.send("s", f"script: {json.dumps(again)}")
        run = await supervisor.get_run("s")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
        assert await run.result() == "removed it"
    assert [path.name for path in tmp_path.glob("*.tmp")] == ["a.tmp"]
