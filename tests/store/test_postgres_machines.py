"""What happens to the trees of a process on another machine: real processes, a real server, and its time."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from supervisor.store.postgres.server import Address
from supervisor.store.postgres.store import PostgresStore

COUNT = 40
FEW_OF_TREES = COUNT // 5


class Worker:
    """A process that runs trees."""

    def __init__(self, url, *started, machine):
        script = Path(__file__).with_name("pg_worker.py")
        self.process = subprocess.Popen(
            [sys.executable, script, url, *started], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OTHER_MACHINE": machine},
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid


@pytest.fixture
def work(postgres):
    """Start a process that runs trees, on a server that has run for so long that owners may be dead."""
    begun = []

    def start(*started, machine=""):
        begun.append(Worker(postgres, *started, machine=machine))
        return begun[-1]

    with psycopg.connect(Address(postgres).conninfo) as connection:
        is_old = "SELECT clock_timestamp() > pg_postmaster_start_time() + interval '10 s'"
        until(lambda: connection.execute(is_old).fetchone() == (True,))
    yield start
    for each in begun:
        with suppress(ProcessLookupError):
            each.process.send_signal(signal.SIGCONT)
        each.process.kill()
        each.process.communicate()


@pytest.fixture
def store(postgres):
    with closing(PostgresStore(postgres)) as opened:
        opened.open()
        yield opened


def until(condition, seconds=30.0):
    """Ask again until there is an answer, and return the seconds that it took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() < begun + seconds, "it did not happen"
        time.sleep(0.05)
    return time.monotonic() - begun


def shares(store, roots):
    """Return how many of some trees each living process has, by its pid."""
    return Counter(owner.pid for owner in store.get_owners(roots).values())


def is_alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_the_trees_of_a_killed_process_are_shared_by_the_others_with_their_timers(work, store):
    """In about 3 s, each gets its part; a timer that was to fire meanwhile fires then, a later one at its time."""
    first = work(f"asking:prod*{COUNT}", "sleeping:1.5", "sleeping:7.5")
    begun = datetime.now(UTC)
    second, third = work(), work()
    roots = [f"prod-{number}" for number in range(COUNT)]
    assert shares(store, roots) == {first.pid: COUNT}
    first.process.kill()
    assert until(lambda: shares(store, roots).total() == COUNT and first.pid not in shares(store, roots)) < 6
    assert min(shares(store, roots)[each.pid] for each in (second, third)) > FEW_OF_TREES
    due = {"sleeping-1.5": 1.5, "sleeping-7.5": 7.5}
    until(lambda: all(store.get_session(session).outcome is not None for session in due))
    assert all(row.outcome.kind == "succeeded" for row in store.get_sessions(list(due)))
    late = (store.get_session("sleeping-7.5").last_at - begun).total_seconds() - 7.5
    assert -3 < late < 10  # the interpreter of the first one had begun before


def test_a_process_that_was_stopped_loses_its_trees_ends_its_commands_and_dies_when_it_goes_on(work, store, tmp_path):
    """Its successor has them after about 10 s; then it finds that it was fenced, and ends as at its death (T4)."""
    first = work("asking:prod*8", f"working:{tmp_path}")
    second, roots = work(machine="another"), [f"prod-{number}" for number in range(8)]
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and pid.read_text())
    first.process.send_signal(signal.SIGSTOP)
    assert 8 < until(lambda: shares(store, roots) == {second.pid: 8}) < 14
    command = int(pid.read_text())
    assert is_alive(command)  # T2: a lost call may still be running on its machine
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(15) == 3
    assert "silent for too long" in first.process.stdout.read()
    until(lambda: not is_alive(command), seconds=5)
