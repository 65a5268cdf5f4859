"""A process that is alone commits in one piece, which the server refuses if another process was faster (store.py)."""

import anyio
import psycopg
import pytest
from postgres_server import ask
from store_stories import created, finished, started

from supervisor import StoreDied
from supervisor.core.rows import JournalEntry
from supervisor.runtime.journal.writer import Journal
from supervisor.seam.store import Overtaken
from supervisor.store.postgres.schema import QUERIES
from supervisor.store.postgres.store import ALONE, PostgresStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def stores(patient):
    """Two processes, of which the first owns a tree and was alone for some time: it has written ALONE entries."""
    both = PostgresStore(patient), PostgresStore(patient)
    for each in both:
        each.open()
    both[0].attend()
    assert both[0].begin()
    assert both[0].claim("a") is None
    both[0].write([JournalEntry(1, "a", created("a"))])
    both[0].commit()
    for _ in range(ALONE):
        _write(both[0])
    yield both
    for each in both:
        each.close()


def _write(store):
    assert store.begin()
    store.write([_next(store)])
    store.commit()


def _next(store):
    """Return the next entry of a session that is run again and again."""
    position = store.last_position() + 1
    return JournalEntry(position, "a", finished() if position % 2 else started())


def test_a_commit_takes_one_round_trip(stores):
    """The lock, the check of the owner and of the commit before, what is written, and COMMIT, in one piece."""
    first = stores[0]
    assert first.begin()
    first.write([_next(first)])
    first.commit()
    sent = [query for query, _ in first._writer.pieces(first._writer.get())._statements]
    assert (sent[0], sent[-1]) == (QUERIES["begin"], "COMMIT")
    assert (sent[1], sent[2], sent[-2]) == (QUERIES["lock_now"], QUERIES["append"], QUERIES["move"])


@pytest.mark.parametrize("what", ["an entry", "a claim", "a lock", "a burial", "another history"])
def test_a_transaction_that_another_process_was_faster_than_writes_nothing_and_is_begun_again(stores, postgres, what):
    """Whatever the other one did between `begin` and COMMIT, nothing waits, and the plans run again under the lock."""
    first, second = stores
    before, entry = first.rows(0), _next(first)
    assert first.begin()
    match what:
        case "an entry":
            _write(second)
        case "a claim":
            assert second.begin()
            second.claim("b")
            second.commit()
        case "a lock":
            assert second.begin()
        case "a burial":
            ask(postgres, "UPDATE owner SET beat = NULL")
        case _:
            ask(postgres, "UPDATE commit SET token = 'another' WHERE number = (SELECT commits FROM store)")
    first.write([entry])
    with pytest.raises(Overtaken):
        first.commit()
    assert len(second.rows(0)) == len(before) + (what == "an entry")
    if what == "a lock":
        assert not first.begin()
        second.rollback()
    if what in ("a burial", "another history"):
        with pytest.raises(StoreDied, match="silent for too long" if what == "a burial" else "lost commits"):
            first.begin()
        assert len(second.rows(0)) == len(before)
    else:
        _write(first)
        assert len(second.rows(0)) == len(before) + 1 + (what == "an entry")


@pytest.mark.parametrize("what", ["an entry", "a burial", "nothing"])
def test_plans_that_wrote_nothing_have_seen_the_present(stores, postgres, what):
    """Otherwise a caller would be refused for what was so a moment ago."""
    first, second = stores
    assert first.begin()
    if what == "an entry":
        _write(second)
    elif what == "a burial":
        ask(postgres, "UPDATE owner SET beat = NULL")
    if what == "nothing":
        first.end_reading()
        return
    with pytest.raises(Overtaken):
        first.end_reading()


def test_a_transaction_reads_what_it_depends_on_under_the_lock(stores):
    """A session that another process has made since is not made twice."""
    first, second = stores
    assert first.begin()
    assert second.begin()
    second.write([JournalEntry(ALONE + 2, "b", created("b"))])
    second.commit()
    with pytest.raises(Overtaken):
        first.write([JournalEntry(ALONE + 2, "b", created("b"))])
    assert second.begin()  # the lock is free
    second.rollback()


async def test_the_loop_goes_on_while_the_server_takes_its_time_with_a_commit(stores, postgres):
    """A commit is awaited, without a thread; what it has written is live when the server has answered."""
    first, _ = stores
    journal = Journal(first, lambda rows: None, lambda session, why: None, lambda: None, anyio.current_time)
    ticks = 0
    with psycopg.connect(postgres.partition("?")[0]) as other, anyio.fail_after(20):
        other.execute(f"LOCK TABLE {postgres.rpartition('=')[2]}.event IN EXCLUSIVE MODE")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            landed = anyio.Event()

            async def append():
                await journal.append(lambda view: [("a", _next(first).event)])
                landed.set()

            tasks.start_soon(append)
            while ticks < 20:
                await anyio.sleep(0.01)
                ticks += 1
            assert not landed.is_set()
            other.rollback()
            await landed.wait()
            tasks.cancel_scope.cancel()
    assert journal.position == first.last_position() == ALONE + 2
