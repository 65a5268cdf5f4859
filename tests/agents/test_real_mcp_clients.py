"""Real clients of a proxied MCP server, as the guide configures them, and a person decides. Run by hand:
`pytest -m soak tests/agents/test_real_mcp_clients.py`."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_agents import HANGS, needs, new_offline, script  # noqa: F401 - a fixture

GUIDE = (Path(__file__).parents[2] / "docs" / "how-to" / "mcp-proxy.md").read_text()
SMALL = Path(__file__).parents[1] / "cli" / "small_mcp_server.py"
THEIRS = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/data"]


def configured(offline, kind, number):
    """Return a configuration of the guide, with our small server in place of its own."""
    block = re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)[number]
    theirs, ours = json.dumps(THEIRS)[1:-1], json.dumps([sys.executable, "-S", str(SMALL), str(offline.project)])[1:-1]
    assert theirs in block
    return block.replace(theirs, ours)


def claude(offline, prompt):
    (offline.project / "files.json").write_text(configured(offline, "json", 0))
    options = ["--mcp-config", "files.json", "--strict-mcp-config", "--allowedTools", "mcp__files"]
    return [offline.bin / "claude", "-p", prompt, *options]


def codex(offline, prompt):
    file = offline.home / ".codex/config.toml"
    block = configured(offline, "ini", 0).replace('"--before"', f'"--before", "--store", "{offline.store}"')
    file.write_text(f"{file.read_text()}\n{block}")
    return [offline.bin / "supervisor", "run", f"acp:{offline.bin / 'codex-acp'}", prompt, "--wait"]


def opencode(offline, prompt):
    file = offline.home / ".config/opencode/opencode.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | json.loads(configured(offline, "json", 2))))
    return [offline.bin / "supervisor", "run", f"acp:{offline.bin / 'opencode'} acp", prompt, "--wait"]


CLIENTS = [
    (claude, "claude", "mcp__files__add"),
    (codex, "codex-acp", "mcp__files/add"),
    (opencode, "opencode", "files_add"),
]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("client", "tool"),
    [pytest.param(client, tool, marks=needs(program), id=program) for client, program, tool in CLIENTS],
)
def test_a_call_of_a_real_client_runs_once_when_a_person_has_approved_it(offline, client, tool):
    command = client(offline, script(["tool", tool, {"text": "a"}], ["say", "obeyed"]))
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=offline.project, env=offline.environment, **pipes) as process:
        try:
            while not (waiting := json.loads(offline.said_by("approvals", "--json"))):
                assert process.poll() is None, process.communicate()
                time.sleep(0.2)
            assert [(each["tool"], each["arguments"]) for each in waiting] == [("files.add", {"text": "a"})]
            assert offline.made("made") == ""
            offline.said_by("approve", waiting[0]["id"])
            assert "obeyed" in process.communicate(timeout=HANGS)[0]
        finally:
            process.kill()
    assert offline.made("made") == "a\n"
    assert "added" in offline.prompts[-1]
