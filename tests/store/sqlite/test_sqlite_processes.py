"""One store and several real processes: sharing, owning, being killed, and a failing disk."""

import fcntl
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from store_stories import append, asked, created, decided, python, started

from supervisor.core.errors import StoreDied, StoreRefused
from supervisor.store.owners import LockFolder
from supervisor.store.sqlite.store import SqliteStore

OWN = """
store = SqliteStore(sys.argv[1])
store.open()
while not store.begin(): pass
owner = store.claim("a")
store.commit()
print(owner.pid if owner else "mine", flush=True)
sys.stdin.readline()
"""


def opened(path):
    store = SqliteStore(path)
    store.open()
    return store


def claim(store, root):
    assert store.begin()
    owner = store.claim(root)
    store.commit()
    return owner


def locks(path):
    return sorted(found.name for found in Path(f"{path}.owners").iterdir())


def test_a_commit_of_another_process_is_noticed_and_read(path):
    """Once for each commit; a decision made there is a decision here."""
    store = opened(path)
    append(store, ("a", created()), ("a", started()), ("a", asked()))
    last = store.last_position()
    assert not store.has_changed()
    code = "store = SqliteStore(sys.argv[1]); store.open(); append(store, ('a', decided()))"
    other = python(code, path)
    other.communicate()
    assert other.returncode == 0
    assert store.has_changed()
    assert not store.has_changed()
    assert [row.event for row in store.rows(last)] == [decided()]
    assert store.get_approval("p").status == "approved"
    append(store, ("b", created("b")))
    store.close()


def test_one_transaction_at_a_time(path):
    """`begin` returns at once that another process is in a transaction; reading goes on meanwhile."""
    store = opened(path)
    append(store, ("a", created()))
    code = """
store = SqliteStore(sys.argv[1])
store.open()
assert store.begin()
store.write(rows(store, ("a", started())))
print("begun", flush=True)
sys.stdin.readline()
store.commit()
"""
    other = python(code, path)
    assert other.stdout.readline() == "begun\n"
    assert not store.begin()
    assert len(store.journal("a")) == 1
    other.communicate("go on\n")
    assert store.begin()
    assert len(store.journal("a")) == 2
    store.rollback()
    store.close()


def test_a_living_owner_keeps_its_tree(path):
    """A second process is told which process has it."""
    store = opened(path)
    other = python(OWN, path)
    assert other.stdout.readline() == "mine\n"
    owner = claim(store, "a")
    assert (owner.pid, store.get_owner("a")) == (other.pid, owner)
    assert not store.owns("a")
    other.communicate("leave\n")
    assert store.get_owner("a") is None
    store.close()


def test_the_tree_of_a_killed_owner_is_taken_over(path):
    """Its lock died with it; its lock file is removed."""
    store = opened(path)
    claim(store, "b")
    other = python(OWN, path)
    assert other.stdout.readline() == "mine\n"
    assert len(locks(path)) == 2
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert store.get_owner("a") is None
    assert claim(store, "a") is None
    assert store.owns("a")
    assert locks(path) == [store.get_owner("a").id]
    store.close()
    assert locks(path) == []


def test_a_command_that_outlives_its_owner_owns_nothing(path):
    """The lock's descriptor is not inherited by programs that an owner runs."""
    code = f"""{OWN.rpartition("sys.stdin")[0]}
import subprocess
child = subprocess.Popen(["cat"], close_fds=False)
print("running", flush=True)
os._exit(0)
"""
    other = python(code, path)
    assert [other.stdout.readline() for _ in range(2)] == ["mine\n", "running\n"]
    other.wait()
    store = opened(path)
    assert store.get_owner("a") is None
    other.communicate()
    store.close()


def test_an_owner_that_lost_its_lock_file_before_it_held_it_takes_another(path, monkeypatch):
    """A process that removes dead locks may come between making one and locking it."""
    folder = LockFolder(path)
    path.parent.mkdir()
    path.touch()
    names = iter(["lost", "kept"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(names))
    flock = fcntl.flock

    def interrupted(lock, how):
        if not (lost := folder.folder / "lost").exists():
            return flock(lock, how)
        return lost.unlink()

    monkeypatch.setattr(fcntl, "flock", interrupted)
    assert folder.hold().id == "kept"
    assert not folder.folder.joinpath("lost").exists()
    assert LockFolder(path).is_alive("kept")
    LockFolder(path).bury("kept")
    assert folder.folder.joinpath("kept").exists()
    folder.release()
    assert not LockFolder(path).is_alive("kept")


def test_a_killed_writer_leaves_whole_transactions(path):
    """Of two entries in one transaction both are there, or neither."""
    code = """
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()), ("a", started()))
print("ready", flush=True)
for n in range(100_000):
    append(store, ("a", asked(f"p{n}", f"o#{n}")), ("a", decided(f"p{n}", f"o#{n}")))
    if n == 20: print("going", flush=True)
"""
    other = python(code, path)
    assert [other.stdout.readline() for _ in range(2)] == ["ready\n", "going\n"]
    other.send_signal(signal.SIGKILL)
    other.communicate()
    store = opened(path)
    found = store.find_approvals(pending=False)
    assert {approval.status for approval in found} == {"approved"}
    assert store.last_position() == 2 + 2 * len(found) == len(store.rows(0))
    append(store, ("b", created("b")))
    store.close()


def test_a_full_disk_refuses_a_commit_and_nothing_is_lost(path):
    """StoreRefused says what to do; when there is room, the process goes on."""
    code = """
import resource
from supervisor.core.errors import StoreRefused
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()), ("a", started()))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (store.log_size() + 20_000, hard))
count = 0
try:
    while True:
        append(store, ("a", asked(f"p{count}", f"o#{count}", arguments=Raw(b'"' + b"x" * 3000 + b'"'))))
        count += 1
except StoreRefused as error:
    assert sys.argv[1] in str(error)
    store.rollback()
assert store.last_position() == 2 + count == len(store.rows(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
append(store, ("a", asked("last", "o#last")))
print(count)
"""
    other = python(code, path)
    count = int(other.communicate()[0])
    assert other.returncode == 0
    store = opened(path)
    assert [found.id for found in store.find_approvals()] == [*(f"p{n}" for n in range(count)), "last"]
    store.close()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace makes a sync fail")
def test_a_failed_sync_ends_the_store(path, tmp_path):
    """It is not known what is on disk: nothing more is written, and the next start reads what is there."""
    code = """
from supervisor.core.errors import StoreDied
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()))
print(os.getpid(), flush=True)
sys.stdin.readline()
for _ in range(2):
    try:
        append(store, ("a", started()))
    except StoreDied as error:
        assert sys.argv[1] in str(error)
        print("died", flush=True)
store.rollback()
os._exit(0)
"""
    other = python(code, path)
    pid = other.stdout.readline().strip()
    inject = "inject=fsync,fdatasync:error=EIO"
    command = ["strace", "-f", "-p", pid, "-e", "trace=fsync,fdatasync", "-e", inject, "-o", tmp_path / "trace"]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert "attached" in tracer.stderr.readline()
    assert other.communicate("go on\n")[0].split() == ["died", "died"]
    tracer.communicate()
    store = opened(path)
    assert len(store.journal("a")) in (1, 2)
    append(store, ("b", created("b")))
    store.close()


def test_a_store_that_cannot_be_written_refuses(path):
    """A claim needs its lock file; without a place for that, nothing begins."""
    store = opened(path)
    Path(f"{path}.owners").write_text("in the way")
    assert store.begin()
    with pytest.raises(StoreRefused, match="owners"):
        store.claim("a")
    store.rollback()
    append(store, ("a", created()), ("a", asked()), ("a", decided()))
    store.close()


def test_a_dead_store_says_so_again(path):
    """A later `begin` raises the same error."""
    store = opened(path)
    store._died = StoreDied("the disk failed")
    with pytest.raises(StoreDied, match="the disk failed"):
        store.begin()
    assert "dead" in repr(store)
    store.close()
