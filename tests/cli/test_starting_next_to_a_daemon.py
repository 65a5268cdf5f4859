"""`supervisor start` next to a daemon of the same store: without a token, and the daemon runs the session (R2)."""

import json
import os
import signal

import msgspec
import pytest

from supervisor import StoreUnreadable
from supervisor.wiring.offers import Offer, find_offer, published

CONFIGURED = """
[agents.careful]
import = "agents.py:writing"

[[rules]]
kind = "deny"
tool = "erase"
"""
AGENTS = """
from supervisor import Context, agent, tool

@tool
async def note(name: str) -> str:
    return f"noted {name}"

@tool
async def erase(name: str) -> str:
    return f"erased {name}"

@agent
async def writing(ctx: Context, name: str) -> list[str]:
    return [(await ctx.call(tool, name)).kind for tool in (note, erase)]

@agent
async def sleeping(ctx: Context) -> None:
    await ctx.sleep(1e6)

@agent
async def greeting(ctx: Context, name: str) -> str:
    return f"hello {name}"
"""


@pytest.fixture
def daemon(supervisor):
    """A daemon that offers a configured agent and an agent of a file, both named from its own folder."""
    folder = supervisor.folder / "served"
    folder.mkdir()
    (folder / "supervisor.toml").write_text(CONFIGURED)
    (folder / "agents.py").write_text(AGENTS)
    words = ["serve", "served/agents.py", "--config", "served/supervisor.toml", "--port", "0"]
    started = supervisor.start(*words)
    while not (line := started.stderr.readline()).startswith("Serving"):
        assert line, started.communicate()
    return started


def test_a_writer_of_the_store_starts_what_its_daemon_offers(supervisor, daemon):
    """The command has no token and is in another folder. The session keeps the daemon's deny rule (R4), also when the
    daemon is gone."""
    elsewhere = supervisor.folder / "elsewhere"
    elsewhere.mkdir()
    supervisor.folder = elsewhere
    assert [each["name"] for each in supervisor("start", "--json").json] == [
        "careful",
        "greeting",
        "sleeping",
        "writing",
    ]
    assert supervisor("start", "greeting", "Ana").out == "hello Ana\n"
    asked = supervisor("start", "careful", "x", "--session", "s")
    assert asked.code == 3, asked
    assert "then go on" not in asked.err
    (approval,) = supervisor("approvals", "--json").json
    assert approval["cwd"] == str(elsewhere)
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate(timeout=60)
    assert supervisor("start", "greeting", "Ana").code == 2  # no daemon lives
    assert supervisor("approve", approval["id"]).code == 0
    assert supervisor("resume", "s", "--json").json["outcome"]["value"] == ["ok", "denied"]


@pytest.mark.parametrize("has_daemon", [True, False])
def test_a_stopped_command_says_who_goes_on(supervisor, request, has_daemon):
    """A daemon of the store goes on with the session; without one no process does until `resume`."""
    if has_daemon:
        process = request.getfixturevalue("daemon").pid
    (supervisor.folder / "waiting.py").write_text(
        "import anyio\nfrom supervisor import Context, agent\n\n@agent\nasync def waiting(ctx: Context) -> None:\n"
        "    open('begun', 'x').close()\n    await anyio.sleep_forever()\n"
    )
    run = supervisor.start("run", "waiting.py:waiting", "--session", "s")
    while not (supervisor.folder / "begun").exists():
        assert run.poll() is None, run.communicate()
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    said = (
        f"The daemon of this store (process {process}) goes on with it:" if has_daemon else "until: supervisor resume s"
    )
    assert said in err
    assert ("resume" in err) != has_daemon


def test_a_command_whose_daemon_dies_says_so_and_ends(supervisor, daemon):
    """Else it would wait for a run that no process runs. The next daemon, or `resume`, goes on with it."""
    command = supervisor.start("start", "sleeping", "--session", "s")
    while "sleeping began" not in (line := command.stderr.readline()):
        assert line, command.communicate()
    daemon.kill()
    _, err = command.communicate(timeout=60)
    assert (command.returncode, "No process goes on with it now: supervisor show s" in err) == (3, True), err


def test_only_a_living_daemon_whose_file_is_ours_offers_agents(tmp_path):
    """A killed daemon leaves its file, and the next one replaces it. A file that others can write is refused (A5)."""
    store = tmp_path / "s.db"
    store.touch()
    assert find_offer(store) is None
    with published(store, Offer(references=("a.py",), folder="/agents")):
        found = find_offer(store)
        assert found is not None
        assert found.files() == ("/agents/a.py",)
        assert found.process is not None
        assert found.process[0] == os.getpid()
        file = tmp_path / "s.db.daemon"
        assert file.stat().st_mode & 0o777 == 0o600
        with published(store, Offer()):
            pass  # a second daemon came and went
        left = json.loads(msgspec.json.encode(found)) | {"process": [os.getpid(), "another start"]}
        file.write_text(json.dumps(left))
        assert find_offer(store) is None
        file.write_bytes(msgspec.json.encode(found))
        file.chmod(0o666)
        with pytest.raises(StoreUnreadable, match="others can write"):
            find_offer(store)
    assert not file.exists()
