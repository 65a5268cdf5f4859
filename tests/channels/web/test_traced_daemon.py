"""A daemon with traces: a kill while people are asked does not divide the trace."""

import json

from daemons import AGENTS, pending_of, until

TRACED = str(AGENTS.with_name("traced_agents.py"))


def written(daemon):
    return [json.loads(line) for line in (daemon.folder / "spans").read_text().splitlines()]


def test_a_kill_while_a_person_is_asked_does_not_divide_the_trace(daemon):
    """The sub-agent ran before it, the approved call after it. The wait has its true start, before the kill."""
    config = daemon.folder / "supervisor.toml"
    config.write_text("traces = true\n")
    daemon.start(TRACED, "--config", str(config))
    with daemon.client() as client:
        body = {"agent": "editor", "input": "tea", "session": "s"}
        assert client.post("/api/sessions", json=body).status_code == 201
        (asked,) = until(lambda: pending_of(client, "s"))
    daemon.stop(9)
    before = [each["name"] for each in written(daemon)]
    assert "invoke_agent writer" in before
    assert "invoke_agent editor" not in before
    daemon.start(TRACED, "--config", str(config))
    with daemon.client() as client:
        client.post(f"/api/approvals/{asked['id']}/decision", json={"decision": "approve"}).raise_for_status()
        until(lambda: client.get("/api/sessions/s").json()["outcome"])
    after = written(daemon)[len(before) :]
    assert {"wait approval", "upload", "execute_tool publish", "invoke_agent editor"} <= {
        each["name"] for each in after
    }
    assert len({each["trace"] for each in written(daemon)}) == 1
    (wait,) = [each for each in after if each["name"] == "wait approval"]
    (ran,) = [each for each in after if each["name"] == "invoke_agent editor"]
    assert 0 < wait["seconds"] < ran["seconds"]
    assert "tea" not in (daemon.folder / "spans").read_text()
