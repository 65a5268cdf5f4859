"""Claude Code, as it is released, asks our permission server, and a person decides. Some of it is run by hand:
`pytest -m soak tests/agents`."""

import json
import signal
import subprocess
import sys
import time

import pytest
from real_agents import HANGS, needs, new_offline, script  # noqa: F401 - a fixture

pytestmark = needs("claude")
TOOL = "mcp__supervisor__permission"


class Project:
    """Claude Code in a project whose permission server is ours, and a person on the same store."""

    def __init__(self, offline):
        self.offline = offline
        self.store = str(offline.home / "state.db")
        serve = ["-m", "supervisor", "mcp", "--permissions", "--session", "s", "--store", self.store]
        server = {"command": sys.executable, "args": serve}
        (offline.project / "permissions.json").write_text(json.dumps({"mcpServers": {"supervisor": server}}))
        self.started = []

    def claude(self, prompt, *options):
        command = [self.offline.bin / "claude", "-p", prompt, *options, "--mcp-config", "permissions.json"]
        process = subprocess.Popen(
            [*command, "--strict-mcp-config", "--permission-prompt-tool", TOOL],
            cwd=self.offline.project,
            env={**self.offline.environment, "MCP_TOOL_TIMEOUT": "600000"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def asked(self):
        """Wait until an approval is pending, and return it."""
        while not (found := json.loads(self.offline.said_by("approvals", "--json"))):
            assert self.started[-1].poll() is None, self.started[-1].communicate()
            time.sleep(0.2)
        (approval,) = found
        return approval

    def end(self):
        for process in self.started:
            process.kill()
            process.communicate()


@pytest.fixture(name="project")
def new_project(offline):
    project = Project(offline)
    yield project
    project.end()


def test_a_command_runs_when_it_is_allowed_as_edited_and_not_when_it_is_denied(project):
    """Claude Code tells the model the reason of the denial."""
    claude = project.claude(script(["run", "echo 1 >> made"], ["run", "echo 2 >> made"], ["say", "obeyed"]))
    approval = project.asked()
    assert (approval["tool"], approval["arguments"]["command"]) == ("Bash", "echo 1 >> made")
    edited = json.dumps({**approval["arguments"], "command": "echo one >> made"})
    project.offline.said_by("approve", approval["id"], "--edit", edited)
    project.offline.said_by("deny", project.asked()["id"], "--reason", "not this one")
    out, err = claude.communicate(timeout=HANGS)
    assert (claude.returncode, out) == (0, "obeyed\n"), err
    assert project.offline.made("made") == "one\n"
    assert "not this one" in project.offline.prompts[-1]
    (part,) = json.loads(project.offline.said_by("usage", "s", "--by", "model", "--json"))["parts"]
    assert (part["name"].partition("-")[0], part["spent"]["requests"], part["spent"]["input_tokens"]) == (
        "claude",
        3,
        3,
    )


PROMPT = script(["run", "echo 1 >> made"], ["say", "done"])


@pytest.mark.parametrize(
    "again", [[PROMPT], pytest.param(["go on", "--continue"], marks=pytest.mark.soak)], ids=["prompt", "continue"]
)
def test_a_decision_made_after_a_kill_lets_the_same_call_run_once(project, again):
    """SIGKILL while a person is asked; the person decides; Claude Code asks for the same call again, and runs it."""
    first = project.claude(PROMPT)
    approval = project.asked()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    project.offline.said_by("approve", approval["id"])
    assert project.offline.made("made") == ""
    second = project.claude(*again)
    out, err = second.communicate(timeout=HANGS)
    assert (second.returncode, out) == (0, "done\n"), err
    assert project.offline.made("made") == "1\n"


@pytest.mark.soak
def test_its_own_shell_approves_nothing(project):
    """A command that a person allows tries to approve the next request."""
    trying = f"{sys.executable} -m supervisor rules allow Bash 'echo 2' --store {project.store}"
    claude = project.claude(script(["run", trying], ["say", "done"]))
    project.offline.said_by("approve", project.asked()["id"])
    out, err = claude.communicate(timeout=HANGS)
    assert (claude.returncode, out) == (0, "done\n"), err
    assert "was refused" in project.offline.prompts[-1]
    assert json.loads(project.offline.said_by("rules", "--json")) == []


@pytest.mark.soak
def test_a_cancelled_session_ends_its_turn(project):
    """Claude Code asks the model nothing more."""
    claude = project.claude(script(["run", "echo 1 >> made"], ["say", "went on"]))
    project.asked()
    project.offline.said_by("cancel", "s")
    out, _ = claude.communicate(timeout=HANGS)
    assert "went on" not in out
    assert (len(project.offline.prompts), project.offline.made("made")) == (1, "")
