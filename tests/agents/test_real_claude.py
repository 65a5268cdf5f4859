"""The real Claude Code, with a scripted model: `supervisor mcp --permissions` lets people decide what it may do."""

import json

import pytest
from acp_scenes import allow, asked, deny
from real_agents import HANGS, needs, new_offline, opened, script  # noqa: F401 - a fixture

from supervisor import SqliteStore

pytestmark = [pytest.mark.anyio, *needs("claude")]

SERVER = {"command": "supervisor", "args": ["mcp", "--permissions", "--session", "s"]}
ASKING = ["--mcp-config", "permissions.json", "--permission-prompt-tool", "mcp__supervisor__permission"]


@pytest.fixture(name="anyio_backend", params=["asyncio"])
def one_backend(request):
    """Ours is a reader of the store here; the permission server has a process of its own."""
    return request.param


@pytest.fixture(name="claude")
def claude_code(offline):
    """Starts Claude Code with a prompt, as the how-to page says."""
    started = []

    def start(prompt, *options):
        started.append(offline.start("claude", "-p", prompt, *ASKING, *options))
        return started[-1]

    (offline.project / "permissions.json").write_text(json.dumps({"mcpServers": {"supervisor": SERVER}}))
    yield start
    for process in started:
        process.kill()
        process.communicate()


async def test_a_call_runs_when_it_is_allowed_and_not_when_it_is_denied(offline, claude):
    """Claude Code is told the reason of the denial, and goes on."""
    command = claude(script(["run", "echo 1 >> made"], ["run", "echo 2 >> made"], ["say", "obeyed"]))
    async with opened(SqliteStore(offline.store)) as supervisor:
        for answer, made in ((allow, ""), (deny, "1\n")):
            (approval,) = await asked(supervisor)
            assert (approval.tool, offline.made("made")) == ("Bash", made)
            await answer(supervisor, approval, *["not this one"] * (answer is deny))
    out, err = command.communicate(timeout=HANGS)
    assert (out, offline.made("made")) == ("obeyed\n", "1\n"), err
    assert offline.prompts[-1].count("not this one") == 1


async def test_a_decision_made_after_a_kill_lets_the_same_call_run_once(offline, claude):
    """SIGKILL while a person is asked: the approval stays, and the same call gets its decision in the next process."""
    command = claude(script(["run", "echo 1 >> made"], ["say", "done"]))
    async with opened(SqliteStore(offline.store)) as supervisor:
        (approval,) = await asked(supervisor)
        command.kill()
        command.communicate()
        await allow(supervisor, approval)
    out, err = claude("go on", "--continue").communicate(timeout=HANGS)
    assert (out, offline.made("made")) == ("done\n", "1\n"), err
