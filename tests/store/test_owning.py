"""R6: which process runs which tree (store/sqlite/trees.py, store/owners.py), also if lock files are in a bad state."""

import fcntl
import os
import shutil
import signal
from pathlib import Path

import pytest
from store_stories import append, created, python, rows, started

from supervisor.core.errors import StoreDied, StoreRefused
from supervisor.store.sqlite.store import SqliteStore

DIE = """
store = SqliteStore(sys.argv[1])
store.open()
while not store.begin(): pass
store.claim("a")
store.commit()
"""


@pytest.fixture
def store(path):
    store = SqliteStore(path)
    store.open()
    yield store
    store.close()


def claim(store, root):
    assert store.begin()
    owner = store.claim(root)
    store.commit()
    return owner


def lock_of_a_dead_owner(path):
    other = python(DIE + "os.kill(os.getpid(), 9)", path)
    other.communicate()
    assert other.returncode == -signal.SIGKILL
    (lock,) = Path(f"{path}.owners").iterdir()
    return lock


def test_a_process_that_was_forked_holds_nothing(path):
    """It neither keeps its dead parent's trees, nor gives away those of a living one."""
    code = f"""{DIE}
told, tell = os.pipe()
child = os.fork()
if not child:
    store.close()
    os.write(tell, b"closed")
    os.close(1)
    time.sleep(60)
    os._exit(0)
os.read(told, 6)
print(child, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""
    parent = python(code, path)
    child = int(parent.stdout.readline())
    store = SqliteStore(path)
    store.open()
    assert store.get_owner("a").pid == parent.pid
    parent.stdin.write("die\n")
    parent.stdin.close()
    assert parent.wait() == -signal.SIGKILL
    assert store.get_owner("a") is None
    assert claim(store, "a") is None
    os.kill(child, signal.SIGKILL)
    parent.stdout.close()
    store.close()


def test_an_owner_that_cannot_be_tested_counts_as_alive(path, store):
    """A tree without a process can wait; a tree with two would run twice. The reader does not fail."""
    lock = lock_of_a_dead_owner(path)
    lock.unlink()
    lock.symlink_to(lock)
    assert store.get_owner("a").id == lock.name == claim(store, "a").id
    assert [owner.id for owner in store.owners()] == [lock.name]
    assert claim(store, "b") is None
    lock.unlink()
    assert claim(store, "a") is None


def test_files_that_cannot_be_removed_do_not_prevent_owning(path, store):
    """Something else in the folder of locks, or a dead owner's lock that cannot be removed."""
    lock = lock_of_a_dead_owner(path)
    lock.unlink()
    lock.mkdir()
    assert claim(store, "a") is None
    assert store.owns("a")


def test_a_store_closes_without_its_lock_files(path):
    """The disk may have become read-only; the next process removes the lock files that are left."""
    store = SqliteStore(path)
    store.open()
    assert claim(store, "a") is None
    shutil.rmtree(f"{path}.owners")
    Path(f"{path}.owners").write_text("in the way")
    store.close()


def test_a_claim_that_was_refused_leaves_no_trace(path, store):
    """Other plans may be in the same transaction, and are committed."""
    Path(f"{path}.owners").write_text("in the way")
    assert store.begin()
    with pytest.raises(StoreRefused):
        store.claim("a")
    store.write(rows(store, ("b", created("b"))))
    store.commit()
    Path(f"{path}.owners").unlink()
    assert (store.get_owner("a"), store.owners(), store.owns("a")) == (None, [], False)
    assert claim(store, "a") is None


def test_a_plan_that_loses_its_writes_loses_the_whole_transaction(path):
    """SQLite may undo all of it on a full disk; later writes would then be committed one by one."""
    code = """
import resource
from supervisor.core.errors import StoreDied, StoreRefused
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (store.log_size() + 200_000, hard))
assert store.begin()
try:
    for n in range(100_000):
        store.claim(f"{n:06}" + "x" * 200)
except StoreRefused:
    print("refused", flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
try:
    store.write(rows(store, ("b", created("b")), ("b", started())))
except StoreRefused:
    print("refused", flush=True)
store.rollback()
append(store, ("a", started()))
"""
    other = python(code, path)
    assert other.communicate()[0] == "refused\nrefused\n"
    assert other.returncode == 0
    store = SqliteStore(path)
    store.open()
    assert [row.event for row in store.rows(0)] == [created(), started()]
    store.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_that_root_makes_next_to_a_store_belong_to_its_owner(path):
    """Else that user could not test which owners are alive, nor own a tree, ever again."""
    store = SqliteStore(path)
    store.open()
    os.chown(path, 4711, 4712)
    assert claim(store, "a") is None
    folder = Path(f"{path}.owners")
    assert {(found.stat().st_uid, found.stat().st_gid) for found in (folder, *folder.iterdir())} == {(4711, 4712)}
    append(store, ("a", created()))
    store.close()


def test_an_owner_whose_lock_file_is_gone_writes_nothing_more(path):
    """R6: others may claim its trees; they must answer for everything that began there."""
    first, second = SqliteStore(path), SqliteStore(path)
    first.open()
    assert claim(first, "a") is None
    shutil.rmtree(f"{path}.owners")
    second.open()
    assert claim(second, "a") is None
    for use in (first.begin, first.has_changed):
        with pytest.raises(StoreDied):
            use()
    assert second.begin()
    second.rollback()
    for each in (first, second):
        each.close()


def test_a_process_that_owns_nothing_needs_no_lock_file(path, store):
    """A process that only decides and reads goes on."""
    other = SqliteStore(path)
    other.open()
    assert claim(other, "a") is None
    shutil.rmtree(f"{path}.owners")
    assert store.begin()
    store.rollback()
    assert store.has_changed() is False
    other.close()


def test_the_first_claim_removes_the_lock_files_of_dead_owners(path, store):
    """The lock of a living owner stays."""
    dead = lock_of_a_dead_owner(path)
    living = SqliteStore(path)
    living.open()
    assert claim(living, "b") is None
    dead.touch()  # again: the first one was already removed
    assert claim(store, "c") is None
    assert not dead.exists()
    assert {owner.id for owner in store.owners()} == {found.name for found in dead.parent.iterdir()}
    assert len(store.owners()) == 2
    living.close()


def test_two_tests_of_a_dead_owner_do_not_conflict(path, store):
    """Each holds the lock while it tests, and the other does not take it for the owner."""
    lock = lock_of_a_dead_owner(path)
    with lock.open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert store.get_owner("a") is None
