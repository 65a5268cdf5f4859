"""Real coding agents, as they are released, with a scripted model: they ask, a person decides, they obey."""

import pytest
from acp_scenes import allow, asked, deny
from how_to import PAGES, without_sandbox
from real_agents import needs, new_offline, opened, script  # noqa: F401 - a fixture

from supervisor.agents.acp import acp_agent


def real(*programs):
    return pytest.mark.parametrize("program", [pytest.param(name, marks=needs(name)) for name in programs])


@pytest.fixture(name="anyio_backend")
def one_backend(program):
    """Real agents take seconds to start, so each is run on one backend."""
    return "trio" if program == "opencode" else "asyncio"


@pytest.fixture(name="page")
def how_to_page(offline, program):
    """The page of an agent, which was configured as it says."""
    for block in PAGES[program].blocks("json"):
        (offline.project / "opencode.json").write_text(block)
    return PAGES[program]


@real("opencode", "codex-acp")
@pytest.mark.anyio
async def test_a_command_runs_when_it_is_allowed_and_not_when_it_is_denied(offline, page):
    """The reason of the denial is the next prompt, whatever the agent does with a rejection."""
    prompt = script(["run", "echo 1 >> made"], ["run", "echo 2 >> made"], ["say", "obeyed"])
    program, *words = map(without_sandbox, page.command)
    agent = acp_agent("coder", [str(offline.bin / program), *words], cwd=str(offline.project), env=offline.environment)
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
def test_a_decision_made_after_a_kill_lets_the_same_call_run_once(offline, page):
    """SIGKILL while a person is asked: the next process makes the agent ask again, and answers it by the decision."""
    prompt = script(["run", "echo 1 >> made"], ["say", "done"])
    approval = offline.killed_in_an_ask(*page.run_with(prompt, "--wait"))
    offline.said_by("approve", approval)
    assert offline.made("made") == ""
    assert offline.said_by("resume", "fix") == "done\n"
    assert offline.made("made") == "1\n"
