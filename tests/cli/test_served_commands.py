"""A coding agent in the configuration of a daemon, as its reader would write it: all of its keys hold at once."""

import json
import re
import sys
import time
from pathlib import Path

FAKE = Path(__file__).parents[1] / "agents" / "fake_agent.py"
TOKEN = "a-token-of-a-person"
LOOK = {"command": "git log -1", "description": "look back"}
TURN = [
    {"do": "ask", "id": "c1", "title": "look", "kind": "execute", "input": LOOK},
    {"do": "ask", "id": "c2", "title": "push", "kind": "execute", "input": {"command": "git push"}},
    {"do": "ask", "id": "c3", "title": "tidy", "kind": "edit", "input": {"path": "a.py"}},
    {"do": "say", "text": "tidy"},
]
RULES = """[
    { kind = "allow", tool = "reviewer.execute", pattern = "git log *" },
    { kind = "deny", tool = "reviewer.execute", pattern = "git push" },
]"""


def test_the_keys_of_a_configured_coding_agent_hold_together(supervisor):
    """Its rules are about its own folder. Its process ends while a person takes time, and starts again for the
    decision."""
    folder = supervisor.folder
    (folder / "project").mkdir()
    (folder / "script.json").write_text(json.dumps({"turns": [TURN, [TURN[2], TURN[3]]]}))
    (folder / "supervisor.toml").write_text(f"""
        store = "state.db"
        [server]
        port = 0
        [agents.reviewer]
        acp = {json.dumps([sys.executable, "-S", str(FAKE), str(folder / "script.json")])}
        cwd = "project"
        env = {{ FAKE_AGENT_HOME = {json.dumps(str(folder))}, MODE = "careful" }}
        passivate_after = 0
        call_timeout = 600
        inactivity_timeout = 60
        first_progress_timeout = 60
        rules = {" ".join(RULES.split())}
    """)
    server = served(supervisor)
    started = supervisor("start", "reviewer", "tidy up", "--session", "s", **server)
    assert started.code == 3, started
    (asked,) = supervisor("approvals", "--json", **server).json
    assert (asked["tool"], asked["cwd"]) == ("reviewer.edit", str(folder / "project"))
    assert (folder / "effects").read_text().split() == ["c1"]
    assert json.loads((folder / "environment").read_text())["MODE"] == "careful"
    first = int((folder / "started").read_text())
    while Path(f"/proc/{first}").exists():
        time.sleep(0.02)
    assert supervisor("approve", asked["id"], **server).code == 0
    assert supervisor("start", "reviewer", "tidy up", "--session", "s", **server).out == "tidy\n"
    assert (folder / "effects").read_text().split() == ["c1", "c3"]
    assert len((folder / "started").read_text().split()) == 2


def served(supervisor):
    """Start the daemon; return the variables with which commands reach it."""
    daemon = supervisor.start("serve", "--config", "supervisor.toml", SUPERVISOR_TOKEN=TOKEN)
    while (found := re.search(r"http://\S+:\d+", line := daemon.stderr.readline())) is None:
        assert line, daemon.communicate()
    return {"SUPERVISOR_SERVER": found[0], "SUPERVISOR_TOKEN": TOKEN, "SUPERVISOR_STORE": ""}
