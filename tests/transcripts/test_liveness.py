"""A session whose writer may be alive is refused with the writer's name."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from watching import calls_of

from supervisor.cli import repair as cli
from supervisor.testing import wrapped
from supervisor.transcripts import liveness, repair
from supervisor.transcripts.liveness import Processes, find_holder, is_alive, own_starttime

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def process():
    """Run a program that prints when it is ready, and ends when its input does."""
    started = []

    def start(*command, **options):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.communicate()


def test_the_lock_of_a_living_process_is_honoured_and_its_holder_named(session, mend, process):
    """OpenClaw's lock file: the session is not changed while the lock's process is alive."""
    path = session("pi_v3/dangling-at-the-end")
    before = path.read_bytes()
    holder = process(sys.executable, "-c", "print('ready', flush=True); input()")
    lock = path.with_name(path.name + ".lock")
    lock.write_text(json.dumps({"pid": holder.pid, "createdAt": "2026-01-02T03:04:05.000Z"}))
    report = mend(path)
    assert report.state == "refused"
    assert str(holder.pid) in report.reason
    assert path.read_bytes() == before
    holder.communicate("\n")
    assert mend(path).state == "repaired"
    assert not lock.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid":-1}', '{"pid":true}'])
def test_a_lock_that_names_no_process_is_honoured(content, session, mend):
    """Its process may be about to write it; a person can tell, and delete it."""
    path = session("pi_v3/dangling-at-the-end")
    path.with_name(path.name + ".lock").write_text(content)
    report = mend(path)
    assert report.state == "refused"
    assert "delete it" in report.reason


def test_a_clean_file_may_be_locked(session, mend):
    """Nothing is written, so the lock does not matter."""
    path = session("pi_v3/header-only")
    path.with_name(path.name + ".lock").write_text(json.dumps({"pid": os.getppid()}))
    assert mend(path).state == "clean"


@LINUX
def test_a_younger_process_with_the_same_pid_does_not_hold_the_lock(session, mend):
    """The kernel gives pids out again; the start time tells the processes apart."""
    path = session("pi_v3/dangling-at-the-end")
    lock = {"pid": os.getppid(), "starttime": 1}
    path.with_name(path.name + ".lock").write_text(json.dumps(lock))
    assert mend(path).state == "repaired"
    assert is_alive(os.getpid(), own_starttime())
    assert not is_alive(os.getpid(), own_starttime() - 1)


@pytest.mark.parametrize(("mode", "state"), [("ab", "refused"), ("rb", "repaired")])
def test_a_process_that_writes_the_file_counts_and_a_reader_does_not(mode, state, session, mend, process):
    """Codex keeps its rollout open; a `tail -f` does no harm."""
    path = session("codex/dangling-at-the-end")
    script = f"file = open({str(path)!r}, {mode!r}); print('ready', flush=True); input()"
    holder = process(sys.executable, "-c", script)
    report = mend(path)
    assert report.state == state
    assert state == "repaired" or str(holder.pid) in report.reason
    holder.communicate("\n")


@LINUX
@pytest.mark.parametrize(("name", "program"), [("pi_v3", "pi"), ("claude_code", "claude")])
def test_a_program_of_the_maker_in_the_sessions_folder_counts(name, program, session, mend, process, tmp_path):
    """pi and Claude Code open, append and close: their folder shows them, unless a person passes --not-running."""
    path = session(f"{name}/dangling-at-the-end")
    folder = tmp_path / "project"
    folder.mkdir()
    path.write_bytes(path.read_bytes().replace(b'"/project"', json.dumps(str(folder)).encode()))
    script = folder / program
    script.write_text("print('ready', flush=True); input()")
    process(sys.executable, script, cwd=folder)
    report = mend(path)
    assert report.state == "refused"
    assert program in report.reason
    assert mend(path, not_running=True).state == "repaired"


@pytest.mark.skipif(shutil.which("lsof") is None, reason="there is no lsof")
def test_lsof_answers_where_there_is_no_proc(session, process, monkeypatch):
    """macOS has no /proc: lsof gives the same answer."""
    path = session("codex/dangling-at-the-end")
    script = f"file = open({str(path)!r}, 'ab'); print('ready', flush=True); input()"
    holder = process(sys.executable, "-c", script)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert str(holder.pid) in (find_holder(path, path, "Codex", None) or "")
    holder.communicate("\n")
    assert find_holder(path, path, "Codex", None) is None


def test_a_writer_that_comes_between_the_look_and_the_lock_is_noticed(session, mend, process, enter):
    """Processes are looked for again under the lock, just before the file is replaced."""
    path = session("pi_v3/dangling-at-the-end")
    before = path.read_bytes()
    script = f"file = open({str(path)!r}, 'ab'); print('ready', flush=True); input()"

    def come_back(check, judged):
        check(judged)
        process(sys.executable, "-c", script)

    enter(wrapped(repair, "check_writable", come_back))
    assert mend(path).state == "refused"
    assert path.read_bytes() == before
    assert not path.with_name(path.name + ".lock").exists()


@LINUX
def test_a_run_looks_for_processes_once(session, capsys):
    """One look serves all sessions that lack a result: a folder may contain hundreds of them."""
    path = session("pi_v3/dangling-at-the-end")
    for number in range(5):
        shutil.copy(path, path.with_name(f"{number}.jsonl"))
    with calls_of(liveness._pids, lambda frame: frame) as looks:  # a generator, whose frame is called again
        assert cli.repair(path.parent, json=True) == 1
    assert len(json.loads(capsys.readouterr().out)["files"]) == 6
    assert len({*looks}) == 1


@LINUX
def test_a_process_that_was_found_early_in_a_run_may_be_gone_later(session, process, tmp_path):
    """A process that was found is checked again before a session is refused because of it."""
    path = session("pi_v3/dangling-at-the-end")
    script = tmp_path / "pi"
    script.write_text(f"file = open({str(path)!r}, 'ab'); print('ready', flush=True); input()")
    holder = process(sys.executable, script, cwd=tmp_path)
    processes = Processes()
    assert find_holder(path, path, "pi", str(tmp_path), processes=processes)
    holder.communicate("\n")
    assert find_holder(path, path, "pi", str(tmp_path), processes=processes) is None
