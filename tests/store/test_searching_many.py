"""A search of 100,000 approvals takes less than 100 ms: shown by what it reads, since a time says little on a busy
machine. Where its filters have nothing, it looks at the few columns of each approval, and at no event."""

from itertools import count

import pytest
from store_stories import append, asked, created, decided
from watching import calls_of

from supervisor.core.rows import ApprovalFilter
from supervisor.store.memory import MemoryStore
from supervisor.store.postgres.server import Address
from supervisor.store.postgres.store import PostgresStore
from supervisor.store.sqlite.store import SqliteStore

MANY, PAGE = 100_000, 26
FILLED = """
INSERT INTO event (position, session, id, head, approval, body)
SELECT 3 + v, session, NULL, head, approval || v, body FROM event, n WHERE position = 2;
INSERT INTO approval (asked, session, root, status, decided, tool, agent, asked_at, decider{0})
SELECT 3 + v, session, root, status, 3, tool, agent, asked_at, decider{1} FROM approval, n WHERE asked = 2;
"""
WORDS = "' shell command deploy w' || v || ' '"
COMMON = ({"text": "deploy"}, {"text": "deploy w77777"}, {"by": "ben"}, {"decided": "approved"}, {})
NOTHING = ({"text": "deploy", "by": "ann"}, {"by": "ann"}, {"tool": "rm"}, {"agent": "x"}, {"decided": "denied"})


def search(store, only):
    return store.search_approvals(ApprovalFilter(newest_first=True, **only), limit=PAGE)


@pytest.mark.parametrize(("searches", "most"), [(COMMON, 3_000), (NOTHING, 15 * MANY)])
def test_on_sqlite_it_takes_few_instructions_of_the_database(tmp_path, searches, most):
    """About 10 for each approval where the filters have nothing, which is 40 ms; a few hundred where they have much."""
    store = SqliteStore(tmp_path / "state.db")
    store.open()
    append(store, ("a", created()), ("a", asked()), ("a", decided()))
    numbers = f"WITH RECURSIVE n (v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < {MANY})"
    store._writer.execute("BEGIN")
    for query in FILLED.format("", "").split(";")[:-1]:
        store._writer.execute(f"{numbers} {query}")
    store._writer.execute(f"{numbers} INSERT INTO asked_words (rowid, words) SELECT 3 + v, {WORDS} FROM n")
    store._writer.execute("COMMIT")
    for only in searches:
        done = count()
        store._reader.set_progress_handler(lambda done=done: next(done) and None, 100)
        found = search(store, only)
        store._reader.set_progress_handler(None, 0)
        assert len(found) == (0 if searches is NOTHING else 1 if "77777" in str(only) else PAGE)
        assert next(done) * 100 < most, only
    store.close()


def test_in_memory_no_approval_is_made_that_is_not_returned():
    """All else is a look at the columns of its index."""
    store = MemoryStore()
    store.open()
    many = [asked(approval=f"p{number}", operation=f"o#{number}") for number in range(MANY // 10)]
    append(store, ("a", created()), *(("a", each) for each in many), ("a", decided("p5", "o#5")))
    for only, number in (({"text": "command"}, PAGE), ({"text": "ls", "by": "ben"}, 1), ({"by": "ann"}, 0)):
        with calls_of(MemoryStore._approval_row) as made:
            assert len(search(store, only)) == number
        assert len(made) == number


def rows_of(plan):
    """Yield each part of a plan of PostgreSQL: the table that it reads, and how many of its rows."""
    if "Relation Name" in plan:
        yield (
            plan["Relation Name"],
            plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)),
        )
    for below in plan.get("Plans", ()):
        yield from rows_of(below)


def test_on_postgres_it_reads_no_event_that_is_not_returned(patient):
    """It looks at the approvals alone, and at few of them where there are many to find."""
    explained = []

    class Explained(PostgresStore):
        def _read_as(self, convert, query, *parameters, limit=None):
            explained[:] = [(f"{query} LIMIT {limit}", parameters)]
            return super()._read_as(convert, query, *parameters, limit=limit)

    store = Explained(patient)
    store.open()
    append(store, ("a", created()), ("a", asked()), ("a", decided()))
    with Address(patient).connect("test") as server:
        for query in FILLED.format(", words", f", {WORDS}").split(";")[:-1]:
            server.execute(query.replace(", n WHERE", f", generate_series(1, {MANY}) AS n (v) WHERE"))
        server.execute("ANALYZE")
        for only in (*COMMON, *NOTHING):
            found = search(store, only)
            ((query, parameters),) = explained
            ((told,),) = server.execute(f"EXPLAIN (ANALYZE, TIMING off, FORMAT json) {query}", parameters).fetchall()
            read = list(rows_of(told[0]["Plan"]))
            assert sum(rows for table, rows in read if table == "event") <= 4 * len(found), only
            assert sum(rows for table, rows in read if table == "approval") <= MANY + 1
            if len(found) == PAGE:
                assert sum(rows for _, rows in read) <= 6 * PAGE, only
    store.close()
