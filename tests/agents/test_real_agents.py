"""Real coding agents, as they are released, with a scripted model: they ask, a person decides, they obey."""

import pytest
from acp_scenes import allow, asked, deny, opened
from real_agents import needs, new_offline, script  # noqa: F401 - a fixture

from supervisor.agents.acp import acp_agent

COMMANDS = {
    "opencode": ["opencode", "acp"],
    "codex-acp": ["codex-acp", "-c", "approval_policy=untrusted", "-c", "sandbox_mode=danger-full-access"],
}


def real(*programs):
    return pytest.mark.parametrize("program", [pytest.param(name, marks=needs(name)) for name in programs])


@pytest.fixture(name="anyio_backend")
def one_backend(program):
    """Real agents take seconds to start, so each is run on one backend."""
    return "trio" if program == "opencode" else "asyncio"


@pytest.fixture(name="command")
def asking_command(offline, program):
    """The command of an agent that asks first."""
    offline.ask_first(program)
    return COMMANDS[program]


@real("opencode", "codex-acp")
@pytest.mark.anyio
async def test_a_command_runs_when_it_is_allowed_and_not_when_it_is_denied(offline, command):
    """The reason of the denial is the next prompt, whatever the agent does with a rejection."""
    prompt = script(["run", "echo 1 >> made"], ["run", "echo 2 >> made"], ["say", "obeyed"])
    path = [str(offline.bin / command[0]), *command[1:]]
    agent = acp_agent("coder", path, cwd=str(offline.project), env=offline.environment)
    async with opened() as supervisor:
        run = await supervisor.start(agent, prompt)
        for answer, made in ((allow, ""), (deny, "1\n")):
            (approval,) = await asked(supervisor)
            assert offline.made("made") == made
            await answer(supervisor, approval, *["not this one"] * (answer is deny))
        assert await run.result() == "obeyed"
    assert offline.made("made") == "1\n"
    assert offline.prompts[-1].count("not this one") == 1


@real("opencode", "codex-acp")
def test_a_decision_made_after_a_kill_lets_the_same_call_run_once(offline, command):
    """SIGKILL while a person is asked: the next process makes the agent ask again, and answers it by the decision."""
    (offline.project / "coders.py").write_text(
        f"from supervisor.agents.acp import acp_agent\ncoder = acp_agent('coder', {command!r})\n"
    )
    prompt = script(["run", "echo 1 >> made"], ["say", "done"])
    approval = offline.killed_in_an_ask("run", "coders.py:coder", prompt, "--session", "s", "--wait")
    offline.said_by("approve", approval)
    assert offline.made("made") == ""
    assert offline.said_by("resume", "s") == "done\n"
    assert offline.made("made") == "1\n"
