"""Clients that generators make of our OpenAPI document, as docs/how-to/other-languages.md says, decide approvals.

CI installs the generators, each in an environment of its own in .peers. Nothing of this package is in there.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from daemons import TOKEN, pending_of, until

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "other-languages.md"
PEERS = ROOT / ".peers"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def generator(name, section, programs):
    """A section of the page, and the folder of the programs that it uses."""
    is_missing = not (PEERS / f"{name}.complete").exists()
    skipped = pytest.mark.skipif(is_missing, reason=f"not installed in .peers: {name}")
    return pytest.param(section, PEERS / name / programs, marks=skipped, id=name)


@pytest.mark.parametrize(
    ("section", "programs"),
    [
        generator("openapi-typescript", "TypeScript", "node_modules/.bin"),
        generator("openapi-python-client", "Python", "bin"),
    ],
)
def test_a_generated_client_decides(one_daemon, tmp_path, section, programs):
    """The generator says no word of warning, and the program of the page decides."""
    with one_daemon.client() as client:
        (tmp_path / "openapi.json").write_bytes(client.get("/openapi.json").raise_for_status().content)
        sessions = {"noting": {"bread": "/dev/null"}, "running": "touch x"}
        for agent, given in sessions.items():
            client.post("/api/sessions", json={"agent": agent, "input": given, "session": agent}).raise_for_status()
        asked = {agent: until(lambda agent=agent: pending_of(client, agent))[0]["id"] for agent in sessions}

        (tmp_path / "node_modules").symlink_to(programs.parent)
        said = follow(section, tmp_path, PATH=f"{programs}:{os.environ['PATH']}", SUPERVISOR_SERVER=one_daemon.url)
        assert "warn" not in said.lower()
        decided = {agent: client.get(f"/api/approvals/{asked[agent]}").json() for agent in sessions}
    assert {agent: each["status"] for agent, each in decided.items()} == {"noting": "approved", "running": "denied"}
    assert all(f"{each} accepted" in said for each in asked.values())


def follow(section, folder, **env):
    """Do what a section of the page says, in a folder; return what its commands say. What it installs is in .peers."""
    text = re.search(rf"^## {section}\n(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    names = dict(zip(("typescript", "python"), re.findall(r"Save this as `(.+?)`", text) * 2, strict=True))
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SUPERVISOR", "PYTHON"))}
    said = ""
    for language, code in BLOCK.findall(text):
        if language != "console":
            (folder / names[language]).write_text(code)
            continue
        for line in re.findall(r"^\$ (.*)", code, re.MULTILINE):
            if " install " not in line:
                command = line.replace("npx ", "")
                done = subprocess.run(
                    ["bash", "-c", command],
                    cwd=folder,
                    env={**ours, "SUPERVISOR_TOKEN": TOKEN, **env},
                    capture_output=True,
                    text=True,
                )
                assert done.returncode == 0, done.stdout + done.stderr
                said += done.stdout + done.stderr
    return said
