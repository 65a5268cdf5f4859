"""The process of an agent: how it fails, what it may not do, and that nothing of it outlives its run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from acp_scenes import HANGS, allow, ask, asked, events, new_home, opened, real_backend, say

from supervisor import Budget, MemoryStore, SqliteStore
from supervisor.agents.acp import acp_agent
from supervisor.core import events as e
from supervisor.core.marker import CALL_MARKER

__all__ = ["new_home", "real_backend"]
pytestmark = pytest.mark.anyio


async def _cause(agent):
    async with opened() as supervisor:
        outcome = await (await supervisor.start(agent, "go")).outcome()
    assert outcome.kind == "failed"
    return outcome.cause


@pytest.mark.parametrize(
    ("name", "command"), [("my agent", ["x"]), ("a/b", ["x"]), ("fake", []), ("fake", "x acp"), ("fake", ["x", ""])]
)
def test_a_name_or_a_command_that_cannot_be_one_is_refused_at_once(name, command):
    with pytest.raises(ValueError, match=name):
        acp_agent(name, command)


def test_it_has_the_options_of_every_agent():
    """A budget among them (B2)."""
    coder = acp_agent("coder", ["x"], budget=Budget(usd=5), max_timeout=60.0, restart="transient")
    assert (coder.budget, coder.max_timeout, coder.restart) == (Budget(usd=5), 60.0, "transient")


async def test_a_program_that_does_not_exist_is_named():
    assert "no-such-agent" in await _cause(acp_agent("fake", ["no-such-agent", "acp"]))


async def test_an_early_exit_quotes_the_last_words_and_the_command(home):
    last = [{"do": "stderr", "text": "no licence"}, {"do": "exit", "code": 3}]
    cause = await _cause(home.agent(at_start=last))
    assert ("no licence" in cause, "code 3" in cause, "fake_agent.py" in cause) == (True, True, True)


async def test_an_agent_that_wants_a_login_says_how(home):
    assert "fake login" in await _cause(home.agent(login=True))


async def test_another_version_is_refused_by_name(home):
    assert "version 2" in await _cause(home.agent(protocol=2))


async def test_a_missing_extra_names_the_line_that_installs_it(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "acp", None)
    monkeypatch.delitem(sys.modules, "acp.schema", raising=False)
    assert "pip install 'subagent-supervisor[acp]'" in await _cause(home.agent())
    assert home.pids == []


@pytest.mark.parametrize("load", ["replay", "missing"])
async def test_a_death_in_a_request_leaves_it_to_the_next_process(home, load):
    """The approval is the same, people are told of the death, and the call runs once."""
    steps = [ask(wait=False), {"do": "wait_for", "file": "asked"}, {"do": "kill"}]
    again = [] if load == "missing" else [[ask(), say("done")]]
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(home.agent(steps, *again, load=load), "go")
        (approval,) = await asked(supervisor)
        (home.folder / "asked").touch()
        while not any("signal 9" in each.text for each in events(store, run.session, e.Reported)):
            await anyio.sleep(0.01)
        if load == "missing":  # it knows no session, so it begins the script again
            home.agent([ask(), say("done")], load=load)
        assert [each.id for each in await supervisor.find_approvals()] == [approval.id]
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert (len(home.pids), home.effects) == (2, ["c1"])


@pytest.mark.parametrize("script", [{}, {"deaf": True, "ignores_cancel": True}], ids=["polite", "deaf"])
async def test_a_cancel_answers_what_is_open_and_leaves_no_process(home, script):
    steps = [{"do": "child"}, ask()]
    async with opened() as supervisor:
        run = await supervisor.start(home.agent(steps, budgets={"stop_timeout": 6.0}, **script), "go")
        await asked(supervisor)
        await supervisor.cancel(run.session)
        assert (await run.outcome()).kind == "cancelled"
    assert (home.outcomes, home.effects, home.living) == (["cancelled"], [], [])
    assert "session/cancel" in [each.get("method") for each in home.heard]


async def test_leaving_cancels_the_turn_and_keeps_the_approval(home):
    """A supervisor that closes ends the process. A later one asks again before it starts another."""
    store = MemoryStore()
    agent = home.agent([ask()], [ask(), say("two")])
    async with opened(store) as supervisor:
        await supervisor.start(agent, "go", session="top")
        (before,) = await asked(supervisor)
    assert (home.outcomes, home.living) == (["cancelled"], [])
    async with opened(store) as supervisor:
        run = await supervisor.start(agent, "go", session="top")
        (approval,) = await asked(supervisor)
        assert (approval.id, len(home.pids)) == (before.id, 1)
        await allow(supervisor, approval)
        assert await run.result() == "two"


async def test_a_request_without_options_is_refused(home):
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([ask(options=[]), say("done")]), "go")
        assert await run.result() == "done"
    assert -32602 in [each.get("error", {}).get("code") for each in home.heard]


async def test_an_agent_has_the_mark_and_none_of_our_secrets(home, monkeypatch):
    monkeypatch.setenv("SUPERVISOR_TOKEN", "secret")
    monkeypatch.setenv("SLACK_BOT_TOKEN", "secret")
    monkeypatch.setenv("HARMLESS", "yes")
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([say("done")]), "go")
        await run.result()
    environment = json.loads((home.folder / "environment").read_text())
    assert (environment[CALL_MARKER], environment["HARMLESS"]) == (run.session, "yes")
    assert "secret" not in environment.values()


async def test_noise_and_floods_do_no_harm(home):
    steps = [
        {"do": "garbage", "text": "npm WARN deprecated", "times": 300},
        {"do": "stderr", "text": "x" * 1000, "times": 300},
        {"do": "say", "text": "word ", "times": 500},
        {"do": "update", "update": {"sessionUpdate": "brand_new", "mood": "good"}},
        {"do": "request", "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}},
        {"do": "notify", "method": "other/thing"},
        say("done"),
    ]
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(home.agent(steps), "go")
        assert await run.result() == "done"
    told = events(store, run.session, e.Reported)
    assert any("brand_new" in each.text for each in told)
    assert len(told) < 10
    assert -32601 in [each.get("error", {}).get("code") for each in home.heard]


async def test_pieces_of_a_message_are_shown_until_the_agent_has_ended_it(home):
    """As they come, before there is a report of them; once the report is there, they are not shown any more."""
    steps = [say("The tide "), say("is low."), {"do": "wait_for", "file": "go"}, ask()]
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(home.agent(steps), "go")
        async with supervisor.watch_text(run.session) as watch:
            while (await anext(watch)).text != "The tide is low.":
                pass
            assert events(store, run.session, e.Reported) == []
            (home.folder / "go").touch()
            while (await anext(watch)).text:
                pass
        assert "The tide is low." in [each.text for each in events(store, run.session, e.Reported)]
        (approval,) = await asked(supervisor)
        await allow(supervisor, approval)
        await run.result()


async def test_a_line_of_60_mebibytes_is_read(home):
    async with opened() as supervisor:
        run = await supervisor.start(
            home.agent([{"do": "big", "bytes": 60 * 2**20}, {"do": "plan", "entries": ["a"]}]), "go"
        )
        assert "characters more" in await run.result()


async def test_a_line_that_is_too_long_fails_the_run(home):
    cause = await _cause(home.agent([{"do": "big", "bytes": 65 * 2**20}]))
    assert "line" in cause


async def test_the_turns_end_withdraws_what_the_agent_no_longer_waits_for(home):
    steps = [ask("c1", "rm x", wait=False), {"do": "wait_for", "file": "go on"}, say("never mind")]
    async with opened() as supervisor:
        run = await supervisor.start(home.agent(steps), "go")
        await asked(supervisor)
        (home.folder / "go on").touch()
        assert await run.result() == "never mind"
        assert [*await supervisor.find_approvals()] == []
    assert home.effects == []


PROGRAM = """
import os, sys, anyio
from acp_scenes import Home
from pathlib import Path
from supervisor import SqliteStore, open_supervisor

fake = Home(Path(os.environ["FAKE_AGENT_HOME"])).found()

async def main():
    async with open_supervisor(SqliteStore(sys.argv[1])) as supervisor:
        await (await supervisor.start(fake, "go", session="top")).result()

if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[2])
"""


async def test_a_killed_supervisor_leaves_no_process_and_its_approval_is_answered_later(
    home, tmp_path, anyio_backend, monkeypatch
):
    """The agent is deaf: it ignores the end of its input and SIGTERM."""
    home.agent([ask(), say("one")], [ask(), say("two")], deaf=True)
    monkeypatch.setenv("FAKE_AGENT_HOME", str(home.folder))
    store, program = tmp_path / "store.db", tmp_path / "program.py"
    program.write_text(PROGRAM)
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, str(program), str(store), anyio_backend]
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}) as life:
        async with opened(SqliteStore(store)) as supervisor:
            (before,) = await asked(supervisor)
        life.send_signal(signal.SIGKILL)
    with anyio.fail_after(HANGS):
        while home.living:
            await anyio.sleep(0.02)
    async with opened(SqliteStore(store)) as supervisor:
        run = await supervisor.resume("top")
        (approval,) = await asked(supervisor)
        assert approval.id == before.id
        assert len(home.pids) == 1
        await allow(supervisor, approval)
        assert await run.result() == "two"
    assert (home.effects, home.outcomes, len(home.pids)) == (["c1"], ["yes"], 2)
