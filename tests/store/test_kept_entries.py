"""A store in a database caches entries of its index that it read or wrote lately, and never has one out of date."""

import pytest
from store_stories import append, asked, at, created, decided, rows, started

from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent
from supervisor.store.index.entries import MOST
from supervisor.store.postgres.store import PostgresStore
from supervisor.store.sqlite.store import SqliteStore

SHOWN = e.CardPosted(at=at(7), approval="p", channel="web")


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request, path):
    """Two processes that have the same store open."""
    if request.param == "sqlite":
        found = SqliteStore(path), SqliteStore(path)
    else:
        url = request.getfixturevalue("postgres")
        found = PostgresStore(url), PostgresStore(url)
    for store in found:
        store.open()
    yield found
    for store in found:
        store.close()


def test_a_decision_of_another_process_stays(stores):
    ours, theirs = stores
    append(ours, ("a", created()), ("a", started()), ("a", asked()))
    append(theirs, ("a", decided()))
    append(ours, ("a", SHOWN))
    found = ours.get_approval("p")
    assert (found.status, found.shown) == ("approved", ("web",))


def test_events_while_it_was_closed_count(stores):
    """A store object may be opened again."""
    ours, theirs = stores
    append(ours, ("a", created()), ("a", started()), ("a", asked()))
    for store in stores:
        store.close()
    theirs.open()
    append(theirs, ("a", decided()))
    theirs.close()
    ours.open()
    append(ours, ("a", SHOWN))
    assert (ours.get_approval("p").status, ours.get_approval("p").shown) == ("approved", ("web",))


def test_a_rolled_back_entry_is_not_cached(stores):
    ours, _ = stores
    append(ours, ("a", created()), ("a", started()), ("a", asked()))
    assert ours.begin()
    ours.write(rows(ours, ("a", decided())))
    ours.rollback()
    append(ours, ("a", SHOWN))
    assert (ours.get_approval("p").status, ours.get_approval("p").shown) == ("pending", ("web",))


def test_earlier_writes_of_the_same_transaction_count(stores):
    ours, _ = stores
    append(ours, ("a", created()), ("a", started()), ("a", asked()))
    assert ours.begin()
    first = rows(ours, ("a", decided()))
    ours.write(first)
    ours.write([type(row)(row.position + 1, row.session, row.event) for row in rows(ours, ("a", SHOWN))])
    ours.commit()
    assert (ours.get_approval("p").status, ours.get_approval("p").shown) == ("approved", ("web",))


def test_a_session_that_was_removed_has_no_beginning_any_more(stores):
    ours, _ = stores
    append(ours, ("a", created()), ("a", started()))
    assert ours.begin()
    ours.remove("a")
    ours.commit()
    assert ours.begin()
    with pytest.raises(IllegalEvent):
        ours.write(rows(ours, ("a", started())))
    ours.rollback()


def test_the_cache_is_bounded(stores):
    ours, _ = stores
    for first in range(0, MOST + 100, 100):
        append(ours, *[(f"s{n}", created(f"s{n}")) for n in range(first, first + 100)])
    assert len(ours._index._sessions._kept) <= MOST
