"""The log of a store and the log's index are watched as the store is (store/sqlite/file_identity.py)."""

import signal
from pathlib import Path

import pytest
from store_stories import append, asked, created, python, started

from supervisor.core.errors import StoreDied, StoreUnreadable
from supervisor.store.sqlite.store import SqliteStore

OPEN = """
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()), ("a", started()))
print("open", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def opened(path):
    store = SqliteStore(path)
    store.open()
    return store


def remove(path):
    path.unlink()


def replace(path):
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


@pytest.mark.parametrize("companion", ["-shm", "-wal"])
@pytest.mark.parametrize("take_away", [remove, replace], ids=lambda take_away: take_away.__name__)
def test_nothing_is_written_after_the_log_or_its_index_was_taken_away(path, companion, take_away):
    """Another process would make a second one. What was committed before is kept."""
    store = opened(path)
    append(store, ("a", created()), ("a", started()))
    take_away(Path(f"{path}{companion}"))
    for use in (store.begin, store.has_changed):
        with pytest.raises(StoreDied, match=companion):
            use()
    store.close()
    Path(f"{path}{companion}").unlink(missing_ok=True)
    store = opened(path)
    assert len(store.journal("a")) == 2
    store.close()


@pytest.mark.parametrize("companions", [["-shm"], ["-wal"], ["-shm", "-wal"]], ids="".join)
def test_a_store_is_not_opened_without_them_while_a_process_has_it_open(path, companions):
    """The error names that process, which need not own a tree. After its death the store is opened."""
    other = python(OPEN, path)
    assert other.stdout.readline() == "open\n"
    for name in companions:
        Path(f"{path}{name}").rename(f"{path}{name}.kept")
    with pytest.raises(StoreUnreadable, match=f"process {other.pid}"):
        opened(path)
    assert not any(Path(f"{path}{name}").exists() for name in companions)
    other.communicate("die\n")
    assert other.returncode == -signal.SIGKILL
    if "-wal" in companions:
        Path(f"{path}-wal.kept").rename(f"{path}-wal")
    store = opened(path)
    append(store, ("a", asked()))
    assert len(store.journal("a")) == 3
    store.close()
