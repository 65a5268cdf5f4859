"""The log's index on a disk whose blocks are smaller than the steps in which SQLite allocates (log_index.py)."""

import os
from pathlib import Path

import pytest
from store_stories import append, created, python

from supervisor.core.errors import StoreRefused
from supervisor.store.sqlite import log_index
from supervisor.store.sqlite.store import SqliteStore


@pytest.fixture
def free(monkeypatch):
    """The bytes that are free on a disk with blocks of 1 KiB."""
    found, ask = [10 * log_index.SIZE_BYTES], os.statvfs

    def small(path):
        values = list(ask(path))
        values[1], values[4] = 1024, found[0] // 1024
        return os.statvfs_result(values)

    monkeypatch.setattr(os, "statvfs", small)
    return found


def allocated(path):
    return Path(f"{path}-shm").stat().st_blocks * 512


@pytest.mark.usefixtures("free")
def test_the_whole_index_is_allocated_while_a_store_is_open(path):
    """A mapped block that is not allocated ends the process by SIGBUS on a full disk. Closing one of two stores keeps
    the other one's locks: another process that comes and goes is not the last one, and removes no log."""
    first, second = SqliteStore(path), SqliteStore(path)
    for each in (first, second):
        each.open()
        append(each, (f"a{id(each)}", created(f"a{id(each)}")))
    assert allocated(path) >= log_index.SIZE_BYTES
    first.close()
    other = python("store = SqliteStore(sys.argv[1]); store.open(); store.close()", path)
    other.communicate()
    assert allocated(path) >= log_index.SIZE_BYTES
    append(second, ("b", created("b")))
    second.close()
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_store_is_not_opened_without_room_for_its_index(path, free):
    """Unless another process has it open, and has allocated the index."""
    store, other = SqliteStore(path), SqliteStore(path)
    store.open()
    free[0] = log_index.SIZE_BYTES - 1024
    other.open()
    for each in (store, other):
        each.close()
    with pytest.raises(StoreRefused):
        store.open()
    free[0] = log_index.SIZE_BYTES
    store.open()
    store.close()
