"""The commands of schedules next to a daemon's store, and without one."""

import json

import pytest

from supervisor.cli import main
from supervisor.cli.schedules import schedules


def call(capsys, *words: str) -> tuple[int, str, str]:
    code = main(["schedules", *words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPERVISOR_STORE", str(tmp_path / "state.db"))
    return tmp_path / "state.db"


def test_a_store_without_schedules_says_how_one_is_added(capsys, store):
    code, out, err = call(capsys)
    assert (code, out) == (0, "")
    assert "schedules add" in err
    assert json.loads(call(capsys, "--json")[1]) == []
    assert not store.exists()
    assert schedules.__doc__


def test_an_unknown_schedule_and_a_store_without_a_daemon_are_one_clear_line(capsys, store):
    for words in (["pause", "x"], ["run", "x"], ["add", "x", "y", "--cron", "0 0 * * *"]):
        code, out, err = call(capsys, *words)
        assert (code != 0, out, len(err.splitlines())) == (True, "", 1)


AGENTS = """
from supervisor import Context, agent

@agent
async def greeting(ctx: Context, name: str) -> str:
    return f"hello {name}"
"""


def test_next_to_a_daemon_a_schedule_is_added_run_and_removed(supervisor):
    """Its session is run by the daemon. Words are the input of an agent that takes text."""
    (supervisor.folder / "agents.py").write_text(AGENTS)
    daemon = supervisor.start("serve", "agents.py", "--port", "0")
    while not (line := daemon.stderr.readline()).startswith("Serving"):
        assert line, daemon.communicate()
    added = supervisor("schedules", "add", "daily", "greeting", "Ana", "--cron", "0 3 * * *", "--json").json
    assert (added["schedule"]["input"], added["schedule"]["timezone"]) == ("Ana", "UTC")
    assert "Ana" in supervisor("schedules").out
    session = supervisor("schedules", "run", "daily").out.strip()
    assert [each["id"] for each in supervisor("sessions", "--json").json] == [session]
    for change, word in (("pause", "paused"), ("resume", "resumed"), ("remove", "removed")):
        assert supervisor("schedules", change, "daily").out == f"{word} daily\n"
    assert supervisor("schedules", "--json").json == []
    assert supervisor("schedules", "add", "x", "unknown", "--cron", "0 3 * * *").code == 2
    daemon.terminate()
    daemon.communicate(timeout=60)
