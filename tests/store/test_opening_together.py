"""R6: any number of processes may open a store, also while one of them recovers the log of a dead one."""

import signal
import subprocess
import sys

import preloaded

CRASH = """
import os, signal, sys
from datetime import UTC, datetime
from supervisor import JournalEntry, SqliteStore
from supervisor.core.events import SessionCreated
store = SqliteStore(sys.argv[1])
store.open()
first = store.last_position()
fact = dict(at=datetime.now(UTC), agent="m:a", file=None, path=("a",), requester="ann", cwd="x" * 2000)
assert store.begin()
names = [f"s{first}-{n}" for n in range(3000)]
store.write([JournalEntry(first + n, name, SessionCreated(root=name, **fact)) for n, name in enumerate(names, 1)])
store.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""

OPEN = """
import sys
from pathlib import Path
from supervisor import SqliteStore
print("ready", flush=True)
while not Path(sys.argv[2]).exists():
    pass
store = SqliteStore(sys.argv[1])
store.open()
store.close()
"""


def test_processes_that_open_a_store_together_wait_for_the_one_that_recovers_it(tmp_path):
    """The first one recovers a log that a crash left; no process that comes meanwhile is refused."""
    path = str(tmp_path / "state.db")
    for turn in range(4):
        assert preloaded.run([sys.executable, "-c", CRASH, path]).returncode == -signal.SIGKILL
        go = tmp_path / f"go{turn}"
        command = [sys.executable, "-c", OPEN, path, str(go)]
        openers = [preloaded.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
        for opener in openers:
            assert opener.stdout.readline()
        go.touch()
        told = [opener.communicate(timeout=60)[1] for opener in openers]
        assert [opener.returncode for opener in openers] == [0] * 6, told
