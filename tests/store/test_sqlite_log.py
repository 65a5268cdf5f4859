"""The log of a SqliteStore: what a crash leaves in it counts, what is damaged is refused, and it is bounded."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from store_stories import append, asked, created, started

from supervisor.core.errors import StoreUnreadable
from supervisor.store import wal
from supervisor.store.sqlite import SqliteStore


def contents(path):
    return {
        found.name: found.read_bytes()
        for found in path.parent.iterdir()
        if found.is_file() and not found.name.endswith("-shm")
    }


def crash_copy(path):
    """Copy a store as a crash would leave it: three commits, all of them in the log only."""
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


def test_what_was_committed_before_a_crash_is_there(path):
    """A log that nobody cut back is read at the next start."""
    copy, _, _ = crash_copy(path)
    store = SqliteStore(copy)
    store.open()
    assert [row.event for row in store.journal("a")][:2] == [created(), started()]
    assert len(store.find_approvals()) == 1
    store.close()


@pytest.mark.parametrize("damage", ["cut", "torn"])
def test_a_torn_tail_is_tolerated(path, damage):
    """A commit that was being written when the power went never counted; those before it do."""
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
def test_a_damaged_middle_is_refused_and_left_as_it_was(path, place):
    """SQLite alone would forget the commits behind the damage, and write over them: all of them, where it is in the
    log's header, whatever word of it."""
    copy, log, ends = crash_copy(path)
    content = bytearray(log.read_bytes())
    content[{"first": 132, "second": ends[0] + 100}.get(place, place)] ^= 0xFF
    log.write_bytes(content)
    before = contents(copy)
    with pytest.raises(StoreUnreadable, match="damaged"):
        SqliteStore(copy).open()
    assert contents(copy) == before


def test_another_round_of_the_log_is_no_damage(path):
    """Somebody cuts the log back and goes on between our looks at the log and at its index: what we saw of the log is
    in the database."""
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


def test_the_log_is_bounded_by_checkpoints(path, monkeypatch):
    """It is written over from the beginning after a checkpoint, and cut back where it has grown large."""
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()))
    assert not store.wants_checkpoint()
    for n in range(300):
        append(store, ("a", asked(f"p{n}", f"o#{n}")))
        if store.wants_checkpoint():
            store.checkpoint()
    assert 0 < store.log_size() < 2 * 1000 * 4096
    monkeypatch.setattr("supervisor.store.wal.LARGE_LOG", 1)
    store.checkpoint()
    assert store.log_size() == 0
    assert len(store.find_approvals()) == 300
    store.close()


def test_a_log_that_grew_is_cut_back_between_writers(path, monkeypatch):
    """A checkpoint that met a writer and gave up would meet another one the next time, while the log grows."""
    monkeypatch.setattr("supervisor.store.wal.LARGE_LOG", 1)
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()), ("a", started()))
    has_begun = threading.Event()

    def write():
        is_begun = other.begin()
        has_begun.set()
        assert is_begun
        time.sleep(0.1)  # long enough for the checkpoint to find it writing; it decides nothing
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
