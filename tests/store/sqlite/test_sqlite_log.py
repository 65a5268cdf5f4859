"""The log of a SqliteStore: commits before a crash count, a damaged log is refused, and its size is bounded."""

import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from store_stories import append, asked, created, python, started

from supervisor.core.errors import StoreUnreadable
from supervisor.store.sqlite import wal
from supervisor.store.sqlite.store import SqliteStore


def contents(path):
    return {
        found.name: found.read_bytes()
        for found in path.parent.iterdir()
        if found.is_file() and not found.name.endswith("-shm")
    }


def crash_copy(path):
    """Copy a store as a crash would leave it: three commits, all of them only in the log."""
    store = SqliteStore(path)
    store.open()
    ends = []
    for entry in (created(), started(), asked()):
        append(store, ("a", entry))
        ends.append(store.log_size())
    copy = path.parent.parent / "copy" / path.name
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    store.close()
    return copy, Path(f"{copy}-wal"), ends


def test_commits_before_a_crash_are_kept(path):
    """A log that was not cut back is read at the next start."""
    copy, _, _ = crash_copy(path)
    store = SqliteStore(copy)
    store.open()
    assert [row.event for row in store.journal("a")][:2] == [created(), started()]
    assert len(store.find_approvals()) == 1
    store.close()


@pytest.mark.parametrize("damage", ["cut", "torn"])
def test_a_torn_tail_is_tolerated(path, damage):
    """A commit that was being written at a power cut never counted; those before it do."""
    copy, log, ends = crash_copy(path)
    content = bytearray(log.read_bytes())
    middle = (ends[1] + ends[2]) // 2
    if damage == "cut":
        del content[middle:]
    else:
        content[ends[1] + 100] ^= 0xFF
    log.write_bytes(content)
    store = SqliteStore(copy)
    store.open()
    assert len(store.journal("a")) == 2
    append(store, ("a", asked()))
    store.close()


@pytest.mark.parametrize("place", [*range(0, 32, 5), "first", "second"])
def test_a_damaged_middle_is_refused_and_left_unchanged(path, place):
    """SQLite itself would forget the commits after the damage, and overwrite them: all of them, if the damage is in the
    log's header, in any word of it."""
    copy, log, ends = crash_copy(path)
    content = bytearray(log.read_bytes())
    content[{"first": 132, "second": ends[0] + 100}.get(place, place)] ^= 0xFF
    log.write_bytes(content)
    before = contents(copy)
    with pytest.raises(StoreUnreadable, match="damaged"):
        SqliteStore(copy).open()
    assert contents(copy) == before


def test_another_round_of_the_log_is_not_damage(path):
    """Another process cuts the log back and goes on between our looks at the log and at its index: what we saw of the
    log is in the database."""
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()))
    append(store, ("a", started()))
    append(store, ("a", asked()))
    before = Path(f"{path}-wal").read_bytes()
    store.checkpoint()
    append(store, ("b", created("b")))
    copy = path.with_name("copy.db")
    for suffix in ("", "-shm"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    Path(f"{copy}-wal").write_bytes(before)
    wal.check_log(copy)
    store.close()


def test_the_log_is_bounded_by_checkpoints(path):
    """It is overwritten from its beginning after a checkpoint, and cut back if it has become large."""
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()))
    assert not store.wants_checkpoint()
    for n in range(300):
        append(store, ("a", asked(f"p{n}", f"o#{n}")))
        if store.wants_checkpoint():
            store.checkpoint()
    assert 0 < store.log_size() < 2 * 1000 * 4096
    store.large_log = 1
    store.checkpoint()
    assert store.log_size() == 0
    assert len(store.find_approvals()) == 300
    store.close()


def test_a_log_that_grew_is_cut_back_between_writers(path):
    """A checkpoint that gives up because of a writer could meet another one the next time, while the log grows."""
    store = SqliteStore(path)
    store.large_log = 1
    store.open()
    append(store, ("a", created()), ("a", started()))
    has_begun = threading.Event()

    def write():
        is_begun = other.begin()
        has_begun.set()
        assert is_begun
        time.sleep(0.1)  # long enough that the checkpoint meets the writer; the result does not depend on it
        other.rollback()
        other.close()

    other = SqliteStore(path)
    with ThreadPoolExecutor(1) as writer:
        writer.submit(other.open).result()
        writing = writer.submit(write)
        has_begun.wait()
        store.checkpoint()
        writing.result()
    assert store.log_size() == 0
    store.close()


def test_a_log_to_which_many_processes_wrote_a_little_is_cut_back(path):
    """Each of them closes before it has written enough to count; a process that stays sees how long the log is."""
    idle = SqliteStore(path)
    idle.large_log = 200_000
    idle.open()
    append(idle, ("a", created()))
    for n in range(20):
        assert idle.log_size() < 400_000
        brief = SqliteStore(path)
        brief.large_log = 200_000
        brief.open()
        append(brief, ("a", asked(f"p{n}", f"o#{n}")))
        brief.close()
        if idle.wants_checkpoint():
            idle.checkpoint()
    assert idle.log_size() < 400_000
    idle.close()


def test_a_log_that_a_reader_keeps_is_not_cut_back_again_and_again(path):
    """Each attempt makes all writers wait."""
    store = SqliteStore(path)
    store.large_log, store.cut_timeout = 1, 0.0
    store.open()
    append(store, ("a", created()))
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM event").fetchall()
    append(store, ("a", started()))
    assert store.wants_checkpoint()
    store.checkpoint()
    assert store.log_size() > 1
    assert not store.wants_checkpoint()
    reader.close()
    store.close()


def test_a_checkpoint_that_finds_no_descriptor_is_tried_again(path):
    """Too many files are open at the moment: the disk works, and commits go on."""
    code = """
import resource
from pathlib import Path
from supervisor.core.errors import StoreRefused
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
top = os.dup(0)
os.close(top)
resource.setrlimit(resource.RLIMIT_NOFILE, (top, hard))
try:
    store.checkpoint()
except StoreRefused:
    print("refused")
append(store, ("a", started()))
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
store.checkpoint()
"""
    other = python(code, path)
    assert other.communicate()[0] == "refused\n"
    assert other.returncode == 0


def test_a_full_disk_is_named_also_if_only_the_logs_index_has_no_room(path):
    """The first process that opens a store makes the index again."""
    code = """
import resource
from supervisor.core.errors import StoreRefused
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()))
store.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
try:
    store.open()
except StoreRefused:
    print("no room")
"""
    other = python(code, path)
    assert other.communicate()[0] == "no room\n"
    assert other.returncode == 0
