"""The identity of a SqliteStore (store/sqlite/file_identity.py): one file, under one name, whatever the name."""

import errno
import os
import signal
import threading
from pathlib import Path

import pytest
from store_stories import append, asked, created, python, started

from supervisor.core.errors import StoreDied, StoreUnreadable
from supervisor.store.sqlite import schema
from supervisor.store.sqlite.store import SqliteStore
from supervisor.testing import wrapped


def opened(path):
    store = SqliteStore(path)
    store.open()
    return store


@pytest.mark.parametrize("name", ["a b?mode=ro#%41.db", "'\";\n\t\\.db", ":memory:", b"no \xff utf-8.db"])
def test_a_store_may_have_any_name(tmp_path, name):
    """Also one that is not valid text."""
    path = tmp_path / os.fsdecode(name)
    store = opened(path)
    append(store, ("a", created()))
    store.close()
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def remove(path):
    path.unlink()


def move(path):
    path.rename(path.with_name("moved.db"))


def replace(path):
    other = opened(path.with_name("other.db"))
    append(other, ("x", created("x")))
    other.close()
    (path.with_name("other.db")).rename(path)


@pytest.mark.parametrize("take_away", [remove, move, replace], ids=lambda take_away: take_away.__name__)
def test_nothing_is_written_to_a_file_that_lost_its_name(path, take_away):
    """SQLite would go on writing to a file without a name. The check is made together with that for others' commits."""
    store = opened(path)
    append(store, ("a", created()), ("a", started()))
    take_away(path)
    for use in (store.has_changed, store.begin):
        with pytest.raises(StoreDied, match=str(path)):
            use()
    store.close()


def test_a_log_whose_store_is_gone_is_left_alone(path):
    """SQLite would read it into the new store, and damage that from its first page on."""
    code = """
store = SqliteStore(sys.argv[1])
store.open()
append(store, ("a", created()), ("a", started()))
os.kill(os.getpid(), 9)
"""
    other = python(code, path)
    other.communicate()
    assert other.returncode == -signal.SIGKILL
    content = path.read_bytes()
    path.unlink()
    before = {found.name: found.read_bytes() for found in path.parent.iterdir()}
    with pytest.raises(StoreUnreadable):
        opened(path)
    assert {found.name: found.read_bytes() for found in path.parent.iterdir()} == before
    path.write_bytes(content)
    store = opened(path)
    assert len(store.journal("a")) == 2
    store.close()


def test_a_file_with_two_names_is_refused(path):
    """Each name has a log and owners of its own: data that one user writes is lost by the other (R6)."""
    store = opened(path)
    append(store, ("a", created()))
    other = path.with_name("other.db")
    other.hardlink_to(path)
    with pytest.raises(StoreUnreadable):
        opened(other)
    other.unlink()
    append(store, ("a", asked()))
    store.close()
    assert not Path(f"{other}-wal").exists()


def test_a_name_that_a_killed_process_left_is_removed(path):
    """It died between the two steps that give a new store its name."""
    opened(path).close()
    path.with_name(f"{path.name}.0a1b2c3d.new").hardlink_to(path)
    opened(path).close()
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_path_that_is_not_a_file_is_refused(tmp_path):
    """At once: opening a pipe would wait for its other end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "folder", "loop"):
        with pytest.raises(StoreUnreadable, match=name):
            opened(tmp_path / name)


def test_no_thread_inspects_a_file_that_another_one_opens(path, enter):
    """Closing an inspected file drops the locks of the whole process; the last of other processes would then remove the
    log that this one uses."""
    opened(path).close()
    others, threads = [], []

    def look_slowly(look, file):
        look(file)
        if not threads:
            threads.append(threading.Thread(target=lambda: others.append(opened(path))))
            threads[0].start()
            threads[0].join(0.2)  # without the lock it would have finished long ago
            assert not others

    enter(wrapped(schema, "check_header", look_slowly))
    store = opened(path)
    threads[0].join()
    for each in (store, *others):
        each.close()


def cut_to_nothing(path):
    os.truncate(path, 0)


def cut_in_half(path):
    os.truncate(path, path.stat().st_size // schema.PAGE_BYTES // 2 * schema.PAGE_BYTES)


@pytest.mark.parametrize("cut", [cut_to_nothing, cut_in_half], ids=lambda cut: cut.__name__)
def test_a_file_that_is_cut_short_while_it_is_open_is_not_written_any_more(path, cut):
    """At the next look, whatever SQLite still has in its memory."""
    store = opened(path)
    append(store, *((name, created(name, cwd="x" * 2000)) for name in map(str, range(100))))
    store.checkpoint()
    assert store.has_changed() is False
    cut(path)
    for use in (store.has_changed, store.begin):
        with pytest.raises(StoreDied):
            use()
    store.close()


def test_a_file_that_another_process_compacts_was_not_cut_short(path):
    """All of it can still be read."""
    store, other = opened(path), opened(path)
    for root in ("a", "b"):
        append(store, (root, created(root, cwd="x" * 1_000_000)))
    store.checkpoint()
    assert other.has_changed()
    before = path.stat().st_size
    assert store.begin()
    store.remove("a")
    store.commit()
    store.compact()
    assert path.stat().st_size < before
    other.has_changed()
    append(other, ("b", started()))
    for each in (store, other):
        each.close()


@pytest.fixture(params=["links", "no links"])
def file_system(request, monkeypatch):
    """exFAT, some shares and FUSE have no hard links."""

    def refuse(*names):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if request.param == "no links":
        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("file_system")
def test_a_store_is_made_once_and_never_replaced(path):
    """If two processes find none and make one, the second gets the store that is there."""
    store = opened(path)
    append(store, ("a", created()))
    schema.create(path)
    assert store.has_changed() is False
    store.close()
    schema.create(path)
    store = opened(path)
    assert len(store.journal("a")) == 1
    store.close()
    assert int.from_bytes(path.read_bytes()[16:18], "big") == schema.PAGE_BYTES
    assert [found.name for found in path.parent.iterdir()] == [path.name]
