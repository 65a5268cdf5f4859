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
