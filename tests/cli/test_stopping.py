"""What stops a command that runs agents, and what is left of it: a signal, two of them, a full disk."""

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import preloaded
import pytest

from supervisor import SqliteStore, StoreUnreadable
from supervisor.wiring.stopping import bare

AGENTS = Path(__file__).with_name("calling_agents.py")
STUBBORN = Path(__file__).with_name("stubborn_agents.py")


def wait_for(condition):
    """Wait until something is so; a test that waits too long fails."""
    give_up_at = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    return found


def start_slow(supervisor, backend):
    """Start a session, and wait until its command runs."""
    process = supervisor.start("run", f"{AGENTS}:slow", "--unattended", "allow", "--session", "s", "--backend", backend)
    wait_for((supervisor.folder / "effects").exists)
    return process


def start_stubborn(supervisor, agent, name, *options, limit=1.0):
    """Start a session that does not end when it is told to, and wait until it is at it. The command line has less
    patience than it usually has."""
    code = f"""
import sys, supervisor.wiring.app, supervisor.wiring.stopping
supervisor.wiring.app.SHUTDOWN_TIMEOUT_SECONDS, supervisor.wiring.stopping.LIMIT_SECONDS = 0.2, {limit}
from supervisor.cli import main
sys.exit(main(sys.argv[1:]))
"""
    run = ["run", f"{STUBBORN}:{agent}", json.dumps(name), "--session", "s", "--unattended", "allow", *options]
    process = preloaded.Popen(
        [sys.executable, "-c", code, *run],
        cwd=supervisor.folder,
        env=supervisor.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    supervisor.started.append(process)
    wait_for((supervisor.folder / "begun").exists)
    return process


@contextmanager
def opened(path):
    store = SqliteStore(path)
    store.open()
    yield store
    store.close()


def wait_until_heard(process):
    """Wait until the command has answered a signal: with a line that is no progress, which begins with the time."""
    while process.stderr.readline()[:1].isdigit():
        pass


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_lets_running_calls_end_and_writes_their_results(supervisor, backend, number, code):
    """Nothing is run again: the resumed session has the result."""
    process = start_slow(supervisor, backend)
    process.send_signal(number)
    wait_until_heard(process)
    (supervisor.folder / "go").touch()
    process.communicate(timeout=60)
    assert process.returncode == code
    answer = supervisor("resume", "s", "--json", "--unattended", "allow", "--backend", backend)
    assert answer.json["outcome"]["value"] == ["ok", None], answer
    assert (supervisor.folder / "effects").read_text() == "begun\n"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_second_signal_stops_at_once_and_loses_nothing_but_the_call(supervisor, backend):
    """Its command ends with its owner; the resumed session is told that it was lost, and runs nothing again."""
    process = start_slow(supervisor, backend)
    process.send_signal(signal.SIGINT)
    wait_until_heard(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    answer = supervisor("resume", "s", "--json", "--unattended", "allow", "--backend", backend)
    assert answer.json["outcome"]["value"] == ["interrupted", "lost"], answer
    assert (supervisor.folder / "effects").read_text() == "begun\n"


@pytest.mark.parametrize(
    ("agent", "name", "backend"),
    [
        ("swallowing", "calls", "asyncio"),
        ("swallowing", "sleeps", "trio"),
        ("calling", "shielding", "asyncio"),
        ("calling", "shielding", "trio"),
        ("calling", "blocking", "asyncio"),
        ("calling", "blocking", "trio"),
        ("calling", "computing", "trio"),
        ("calling", "native", "asyncio"),
        ("calling", "native", "trio"),
        ("calling", "threading_for_ever", "asyncio"),
        ("calling", "leaving_a_thread", "asyncio"),
        ("calling", "leaving_an_exit_handler", "trio"),
    ],
)
def test_a_stop_takes_a_bounded_time_whatever_does_not_end(supervisor, agent, name, backend):
    """R8, W13: the exit code is the signal's, the session that held the process is named, and it can go on."""
    process = start_stubborn(supervisor, agent, name, "--backend", backend)
    number = signal.SIGTERM if backend == "trio" else signal.SIGINT
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in told
    assert ("[s]" in told.splitlines()[-1]) == (not name.startswith("leaving"))
    with opened(supervisor.store) as store:
        assert store.get_session("s").outcome is None


def test_a_second_signal_ends_a_process_whose_loop_is_held(supervisor):
    """R8: at once."""
    process = start_stubborn(supervisor, "calling", "blocking", limit=1000.0)
    process.send_signal(signal.SIGINT)
    wait_until_heard(process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=15)
    assert process.returncode == 143


def test_a_signal_while_the_command_is_imported_is_no_traceback(supervisor):
    """Exit code 130, as later on."""
    late = supervisor.folder / "late"
    late.mkdir()
    sleeps = (
        "for _ in range(600):\n    time.sleep(0.1)\n"  # a signal just before a sleep begins does not end that sleep
    )
    (late / "msgspec.py").write_text(f"import time\nprint('importing', flush=True)\n{sleeps}")
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor", "sessions"],
        env={**supervisor.env, "PYTHONPATH": str(late)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert (process.returncode, "Traceback" in told) == (130, False), told


def test_a_full_disk_is_one_clear_line_and_the_session_goes_on_afterwards(supervisor):
    """Which disk, and what to do; the run is suspended, no effect begins that is not on disk."""
    command = [sys.executable, "-m", "supervisor", "run", f"{AGENTS}:filling", "60", "--unattended", "allow"]
    limited = ["/bin/sh", "-c", 'ulimit -f 1000; exec "$@"', "sh", *command, "--session", "s"]
    done = subprocess.run(
        limited, cwd=supervisor.folder, env=supervisor.env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 6, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("supervisor: ")
    assert str(supervisor.store) in line
    began = supervisor("show", "s", "--json").json
    started = [event for event in began["timeline"] if event["event"] == "ToolCallStarted"]
    assert began["outcome"] is None
    assert len((supervisor.folder / "effects").read_text().splitlines()) <= len(started)
    answer = supervisor("run", f"{AGENTS}:filling", "60", "--unattended", "allow", "--session", "s", "--json")
    assert answer.json["outcome"]["value"] == 60, answer
    assert 59 <= len((supervisor.folder / "effects").read_text().splitlines()) <= 60


def test_errors_that_come_together_are_told_as_one_and_a_defect_is_not_hidden_among_them():
    """A damaged store is found by several tasks at once; what says nothing to a person stays a traceback."""

    async def fail(*errors):
        raise ExceptionGroup("", errors)

    store = StoreUnreadable("damaged")
    with pytest.raises(StoreUnreadable):
        anyio.run(bare(lambda: fail(store, ExceptionGroup("", [store, store]))))
    with pytest.raises(ExceptionGroup):
        anyio.run(bare(lambda: fail(store, TypeError())))


def test_jobs_are_listed_while_they_run_and_afterwards(supervisor):
    """Also when the process that began them was killed; a cancel of their session ends them."""
    process = supervisor.start("run", f"{AGENTS}:with_job", "--unattended", "allow", "--session", "s")
    (job,) = wait_for(lambda: supervisor("jobs", "--json").json)
    assert (job["session"], job["state"]) == ("s", "running")
    process.kill()
    process.communicate()
    assert supervisor("jobs", "--json").json[0]["job"] == job["job"]
    (supervisor.folder / "go").touch()
    wait_for(lambda: not supervisor("jobs", "--json").json)
    (ended,) = supervisor("jobs", "--all", "--json").json
    assert (ended["state"], ended["exit_code"]) == ("exited", 3)
    assert job["job"] in supervisor("jobs", "--all").out
