"""What is wrong with the disk, or with the limits of the process, is named truly (store/sqlite/faults.py)."""

import errno
import fcntl
import json
import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import suppress

import pytest
from store_stories import append, created, python, started

from supervisor.core.errors import StoreRefused, StoreUnreadable
from supervisor.store.sqlite.faults import explain_opening, explain_owning
from supervisor.store.sqlite.store import SqliteStore
from supervisor.testing import wrapped


def busy():
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def test_a_disk_without_locks_is_no_process_that_holds_one(path, enter):
    """SQLite says of both that the file is busy, and nobody would ever end the wait."""
    store = SqliteStore(path)
    store.open()
    store.close()

    def refuses(_connect, *_, **__):
        raise busy()

    def has_none(_lockf, *_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    enter(wrapped(sqlite3, "connect", refuses))
    with pytest.raises(StoreUnreadable, match="locked by"):
        store.open()
    enter(wrapped(fcntl, "lockf", has_none))
    with pytest.raises(StoreRefused, match="locks"):
        store.open()


def test_a_process_that_has_the_file_alone_is_named(path):
    """So that a person knows for which process to wait."""
    store = SqliteStore(path)
    store.open()
    store.close()
    code = """
connection = schema.connect(Path(sys.argv[1]), "rw", alone=True)
print("alone", flush=True)
sys.stdin.readline()
"""
    other = python(f"from pathlib import Path\nfrom supervisor.store.sqlite import schema\n{code}", path)
    assert other.stdout.readline() == "alone\n"
    assert f"locked by process {other.pid}," in str(explain_opening(busy(), path, may_ask=True))
    other.communicate("end\n")


@pytest.mark.parametrize(
    ("number", "word"), [(errno.ENOLCK, "locks"), (errno.EMFILE, "ulimit"), (errno.ENOSPC, "room")], ids=str
)
def test_the_fault_of_a_lock_file_is_named(path, number, word):
    """A person who makes the folder writable would have changed nothing."""
    told = str(explain_owning(OSError(number, os.strerror(number)), path))
    assert word in told
    assert "writable" not in told


def test_a_process_with_too_many_open_files_is_told_so(path):
    """SQLite says only that it cannot open a file."""
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()))
    store.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    left: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        with suppress(OSError):
            while True:
                left.append(os.open(os.devnull, os.O_RDONLY))
        for free in range(4):
            with pytest.raises(StoreRefused, match="ulimit"):
                SqliteStore(path).open()
            if free < 3:
                os.close(left.pop())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in left:
            os.close(each)
    store.open()
    append(store, ("a", started()))
    store.close()


FULL = """
set -e
mount -t tmpfs -o size=1m none "$1"
mount -t tmpfs none /dev/shm
"$2" -c "$3" "$1/s.db" "$4" || true
rm -f "$1/s.db-shm"
dd if=/dev/zero of="$1/fill" bs=4096 2>/dev/null || true
code=0
"$2" -m supervisor approvals --json --store "$1/s.db" || code=$?
find /dev/shm -type d -name 'supervisor-*' >&2
exit $code
"""
FILLS = """
import os, sys
from store_stories import append, asked, created, started
from supervisor import SqliteStore
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()), ("a", started()), ("a", asked()))
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
store.close()
if sys.argv[2] == "damaged":
    with open(sys.argv[1], "r+b") as file:
        file.seek(8192)
        file.write(bytes(range(256)) * 256)
"""


@pytest.fixture
def pending_on_full_disk(tmp_path):
    """Return a function that runs `supervisor approvals` on a full disk, with a store that was `left` so."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("a full disk is mounted")

    def pending(left):
        shell = ["unshare", "--mount", "sh", "-c", FULL, "sh", tmp_path, sys.executable, FILLS, left]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(shell, capture_output=True, text=True, timeout=60, env=env)
        if "mount" in done.stderr:
            pytest.skip("nothing may be mounted here")
        return done

    return pending


@pytest.mark.parametrize("left", ["closed", "killed"])
def test_pending_approvals_are_read_from_a_full_disk(pending_on_full_disk, left):
    """The log's index would need room. What was in the log when its process was killed is there, too."""
    done = pending_on_full_disk(left)
    assert [each["id"] for each in json.loads(done.stdout)] == ["p"], done.stderr


def test_a_copy_that_cannot_be_read_is_removed(pending_on_full_disk):
    """It would stay in memory until the machine ends."""
    done = pending_on_full_disk("damaged")
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert "/dev/shm" not in done.stderr
