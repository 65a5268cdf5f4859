"""A forked process does not use the stores that its parent has opened (system/forks.py)."""

import os

import pytest
from store_stories import append, created, started

from supervisor.core.errors import StoreDied
from supervisor.store.sqlite.store import SqliteStore


def in_child(look):
    """Run a function in a forked child; fail as the child did."""
    if not (child := os.fork()):
        code = 1
        try:
            look()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_is_refused_and_its_parent_goes_on(store):
    """A lock of SQLite belongs to a process, but the child's connections take themselves for locked."""
    append(store, ("a", created()))

    def look():
        with pytest.raises(StoreDied, match="fork"):
            store.begin()
        store.close()

    in_child(look)
    append(store, ("a", started()))
    assert len(store.journal("a")) == 2


def test_a_forked_child_neither_reads_an_inherited_file_nor_opens_it_again(path):
    """It needs another program (`spawn`): SQLite would take the parent's locks for the child's."""
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()))

    def look():
        for use in (store.has_changed, lambda: store.journal("a"), SqliteStore(path).open):
            with pytest.raises(StoreDied, match="fork"):
                use()

    in_child(look)
    append(store, ("a", started()))
    store.close()


def test_a_forked_child_opens_a_store_that_its_parent_has_closed(path):
    """And another one, in any case."""
    store, closed = SqliteStore(path), SqliteStore(path.with_name("closed.db"))
    for each in (store, closed):
        each.open()
    closed.close()

    def look():
        for name in ("closed.db", "new.db"):
            own = SqliteStore(path.with_name(name))
            own.open()
            append(own, ("a", created()))
            own.close()

    in_child(look)
    closed.open()
    assert len(closed.journal("a")) == 1
    closed.close()
    store.close()
