"""A watched session is repaired once its writer is gone, and never while it is live."""

import itertools
import json
import os
import select
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from supervisor.transcripts.repair import Options
from supervisor.transcripts.session import read_session
from supervisor.transcripts.watch import QuietFiles, watch

WATCHING = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from supervisor.transcripts.repair import Options
from supervisor.transcripts.watch import watch

reports = watch(Path(sys.argv[1]), Options(), quiet=0.2, now=lambda: datetime.now(UTC), monotonic=time.monotonic)
for report in reports:
    print(report.state, Path(report.path).name, report.reason, flush=True)
"""


@pytest.fixture
def watcher(tmp_path):
    """Watch a folder in another process, whose output lines say what it did."""
    process = subprocess.Popen([sys.executable, "-c", WATCHING, tmp_path], stdout=subprocess.PIPE, bufsize=0)

    def next_line():
        ready, _, _ = select.select([process.stdout], [], [], 30)
        assert ready, "the watcher said nothing for 30 seconds"
        return process.stdout.readline().decode()

    yield next_line
    process.kill()
    process.communicate()


def test_a_file_is_due_once_after_each_quiet_period():
    """Each change starts the quiet period again."""
    files = QuietFiles(60)
    files.notice("a", 0)
    files.notice("b", 0)
    files.notice("a", 30)
    assert files.take_due(59) == []
    assert files.take_due(60) == ["b"]
    assert files.take_due(90) == ["a"]
    assert files.take_due(1000) == []


def test_a_session_is_repaired_when_its_locks_holder_is_gone(session, watcher, tmp_path):
    """While the holder is alive, the session is refused with its name; when it dies, the session is repaired."""
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "dangling-at-the-end.jsonl.lock").write_text(json.dumps({"pid": holder.pid}))
    path = session("pi_v3/dangling-at-the-end")
    before = path.read_bytes()
    said = watcher()
    assert said.startswith(f"refused {path.name}")
    assert str(holder.pid) in said
    assert path.read_bytes() == before
    holder.communicate(b"\n")
    assert watcher().startswith(f"repaired {path.name}")
    assert read_session(path).dangling == 0


def test_a_session_that_appears_later_is_repaired_too(watcher, session, tmp_path):
    """The watch covers new files and new folders."""
    first = session("pi_v3/dangling-at-the-end")
    assert watcher().startswith(f"repaired {first.name}")
    later = tmp_path / "project"
    later.mkdir()
    session("claude_code/dangling-in-the-middle").rename(later / "later.jsonl")
    assert watcher().startswith("repaired")


def test_a_file_younger_than_the_quiet_period_is_left(session, tmp_path):
    """The file's age decides, whatever the watcher's own clock says, as after a suspended machine."""
    path = session("pi_v3/dangling-at-the-end")
    before = path.read_bytes()
    fresh, old = datetime.now(UTC).timestamp(), datetime.now(UTC).timestamp() - 3600
    quiet = session("codex/dangling-at-the-end").rename(tmp_path / "quiet.jsonl")
    path.write_bytes(before)
    os.utime(path, (fresh, fresh))
    os.utime(quiet, (old, old))
    hours = itertools.count(step=3600)
    reports = watch(tmp_path, Options(), quiet=600, now=lambda: datetime.now(UTC), monotonic=lambda: next(hours))
    assert next(reports).path == str(quiet)
    reports.close()
    assert path.read_bytes() == before
