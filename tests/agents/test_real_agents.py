"""Real coding agents, as they are released, with a scripted model: they ask, a person decides, they obey."""

import pytest
from acp_scenes import allow, asked, deny
from real_agents import how_to_page, new_agent, new_offline, one_backend, opened, real, script

__all__ = ["how_to_page", "new_agent", "new_offline", "one_backend"]


@real("opencode", "codex-acp")
@pytest.mark.anyio
async def test_a_command_runs_when_it_is_allowed_and_not_when_it_is_denied(offline, agent):
    """The reason of the denial is the next prompt, whatever the agent does with a rejection."""
    prompt = script(["run", "echo 1 >> made"], ["run", "echo 2 >> made"], ["say", "obeyed"])
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
