"""R11: a daemon that is killed around any commit of a scheduled start, and starts again, begins the instant once."""

import signal
from contextlib import closing
from pathlib import Path

import pytest
from dying import points
from nest import Nests

from supervisor import SqliteStore, events as e
from supervisor.core.ids import SCHEDULES


@pytest.fixture(scope="module")
def daemons():
    found = Nests(Path(__file__).with_name("scheduled_life.py"))
    yield found
    found.close()


def instants(folder: Path) -> list[tuple[int, str]]:
    """Return the hour of each instant, and what became of it. Each that began has one session, which has ended well."""
    store = SqliteStore(folder / "state.db")
    store.open()
    with closing(store):
        rows = [row.event for row in store.journal(SCHEDULES)]
        found = [row for row in rows if isinstance(row, e.ScheduleHandled)]
        begun = [row.event for row in store.rows(0) if isinstance(row.event, e.SessionCreated)]
        ended = [row.event.kind for row in store.rows(0) if isinstance(row.event, e.RunFinished)]
    assert len(begun) == len(ended) == len([each for each in found if each.became == "begun"])
    assert {*ended} <= {"succeeded"}
    return [(each.instant.hour, each.became) for each in found]


def lived(daemons, folder, backend, *hours: float, die=None, done=1) -> int:
    for hour in hours:
        code = daemons.live("live", folder, backend=backend, hour=hour, die=die, done=done)
    return code


@pytest.mark.parametrize("side", ["before", "after"])
def test_an_instant_begins_once_whenever_the_daemon_is_killed(daemons, tmp_path, backend, side):
    """Around each kind of event; then the machine's clock is set back, and forward again."""
    (model := tmp_path / "model").mkdir()
    assert lived(daemons, model, backend, 0.5, done=None) == 0
    (model / "points").unlink()
    assert lived(daemons, model, backend, 1.2) == 0
    chosen = points(model, side)
    assert f"{side} AttemptStarted" in chosen  # the append of ScheduleHandled
    assert instants(model) == [(1, "begun")]
    for number, point in enumerate(chosen):
        (folder := tmp_path / str(number)).mkdir()
        assert lived(daemons, folder, backend, 0.5, done=None) == 0
        assert lived(daemons, folder, backend, 1.2, die=point) == -signal.SIGKILL, point
        assert lived(daemons, folder, backend, 1.2) == 0
        assert lived(daemons, folder, backend, 0.2, 1.3) == 0
        assert instants(folder) == [(1, "begun")], point


def test_two_daemons_at_once_begin_each_instant_once(daemons, tmp_path, backend):
    for hour in (0.5, 1.2, 2.2, 3.2):
        done = int(hour) or None
        lives = [daemons.begin("live", tmp_path, backend=backend, hour=hour, done=done) for _ in range(2)]
        assert [each.end() for each in lives] == [0, 0]
    assert instants(tmp_path) == [(1, "begun"), (2, "begun"), (3, "begun")]
