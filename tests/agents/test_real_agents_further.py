"""More of what real coding agents do. It takes minutes, so it is run by hand: `pytest -m soak tests/agents`."""

import anyio
import pytest
from acp_scenes import allow, asked, deny
from real_agents import how_to_page, new_agent, new_offline, one_backend, opened, real, script

__all__ = ["how_to_page", "new_agent", "new_offline", "one_backend"]
pytestmark = [pytest.mark.anyio, pytest.mark.soak]

all_agents = real("opencode", "codex-acp", "gemini")


@all_agents
async def test_a_change_of_a_file_is_asked_with_what_changes(offline, agent):
    file = offline.project / "made"
    async with opened() as supervisor:
        run = await supervisor.start(agent, script(["write", str(file), "new text"], ["say", "done"]))
        (approval,) = await asked(supervisor)
        assert (approval.tool, "new text" in str(approval.arguments)) == ("coder.edit", True)
        assert offline.made("made") == ""
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert offline.made("made").strip() == "new text"


@all_agents
async def test_two_calls_of_one_answer_are_two_requests(offline, agent):
    """Codex asks both at once, the others one after the other."""
    both = ["both", ["run", "echo 1 >> one"], ["run", "echo 2 >> two"]]
    async with opened() as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(agent, script(both, ["say", "done"]))
        seen = set()
        while len(seen) < 2:
            for approval in await asked(supervisor):
                if approval.id not in seen:
                    seen.add(approval.id)
                    tasks.start_soon(allow, supervisor, approval)
        assert await run.result() == "done"
    assert (offline.made("one"), offline.made("two")) == ("1\n", "2\n")


@all_agents
async def test_a_cancelled_run_leaves_no_effect(offline, agent):
    async with opened() as supervisor:
        run = await supervisor.start(agent, script(["run", "echo 1 >> made"]))
        await asked(supervisor)
        await run.cancel("enough")
        assert (await run.outcome()).kind == "cancelled"
        assert offline.living == []
    assert offline.made("made") == ""


@all_agents
async def test_a_later_message_is_a_prompt_of_the_same_conversation(offline, agent):
    """A message after the end of a run starts the agent again, in its session of before."""
    async with opened() as supervisor:
        run = await supervisor.start(agent, script(["say", "one"]), session="s")
        assert await run.result() == "one"
        await supervisor.send("s", script(["run", "echo 2 >> made"], ["say", "two"]), by="ana")
        second = await supervisor.resume("s")
        (approval,) = await asked(supervisor)
        await deny(supervisor, approval)
        await second.outcome()
    assert offline.made("made") == ""
    assert 'say\\", \\"one' in offline.prompts[-1].replace("\\\\", "\\")


@real("opencode", "codex-acp")
def test_a_command_that_waits_for_a_person_ends_and_goes_on_later(offline, page):
    """As the page says for a place without a terminal: exit 3, approve, resume."""
    prompt = script(["run", "echo 1 >> made"], ["say", "done"])
    with offline.start("supervisor", *page.run_with(prompt, "--json")) as command:
        command.communicate()
    assert command.returncode == 3
    assert offline.living == []
    (approval,) = offline.approvals()
    offline.said_by("approve", approval)
    assert offline.said_by("resume", "fix") == "done\n"
    assert offline.made("made") == "1\n"


@real("gemini")
def test_a_request_without_raw_input_is_asked_anew_after_a_kill(offline, page):
    """The decision of before answers nothing: no one can know that it is the same call."""
    prompt = script(["run", "echo 1 >> made"], ["say", "done"])
    first = offline.killed_in_an_ask(*page.run_with(prompt, "--wait"))
    offline.said_by("approve", first)
    second = offline.killed_in_an_ask("resume", "fix", "--wait")
    assert first != second
    assert offline.made("made") == ""
    offline.said_by("cancel", "fix")
