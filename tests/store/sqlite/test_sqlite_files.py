"""The file of a SqliteStore: a refused file is unchanged, and a store that a crash left is used again."""

import errno
import os
import re
import shutil
import sqlite3
import stat

import pytest
from store_stories import append, asked, at, created, decided, everything, finished, python, started

from supervisor.core.errors import InvalidInput, NotFound, StoreDied, StoreRefused, StoreUnreadable
from supervisor.core.events import RunStarted, SessionCreated, UsageSpent
from supervisor.core.rows import JournalEntry
from supervisor.core.usage import Usage
from supervisor.store.index.listing import UNREADABLE
from supervisor.store.sqlite import schema
from supervisor.store.sqlite.store import SqliteStore
from supervisor.testing import replaced


def make(path, *entries):
    """Make a store with some entries, and close it."""
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()), ("a", started()), *entries)
    store.close()


def contents(path):
    return {
        found.name: found.read_bytes()
        for found in path.parent.iterdir()
        if found.is_file() and not found.name.endswith("-shm")
    }


def alter(path, statement, *parameters):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, parameters)
    connection.close()


def test_a_store_is_for_its_user_only(path):
    """Each user who can write the file is its operator (A4)."""
    store = SqliteStore(path)
    store.open()
    assert store.begin()
    store.claim("a")
    store.commit()
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in [path.parent, *path.parent.rglob("*")]}
    folders = {"state": 0o700, "store.db.owners": 0o700}
    assert modes == {name: folders.get(name, 0o600) for name in modes}
    assert {"store.db", "store.db-wal", "store.db-shm"} < modes.keys()
    store.close()
    assert [found.name for found in path.parent.iterdir() if found.is_file()] == ["store.db"]


def test_reading_commands_make_no_store(path):
    """A command that only reads finds nothing, and creates nothing; an empty file is not a store either."""
    with pytest.raises(NotFound):
        SqliteStore(path, create=False).open()
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()
    with pytest.raises(NotFound):
        SqliteStore(path, create=False).open()
    assert path.read_bytes() == b""


def test_an_empty_file_becomes_a_store(path):
    """Like a missing file."""
    path.parent.mkdir()
    path.touch()
    make(path)
    store = SqliteStore(path, create=False)
    store.open()
    assert [type(row.event) for row in store.journal("a")] == [SessionCreated, RunStarted]
    store.close()


def newer(path):
    make(path)
    alter(path, f"PRAGMA user_version = {schema.newest() + 1}")


def former(path):
    make(path)
    alter(path, f"PRAGMA user_version = {schema.FORMER}")


def another_program(path):
    alter(path, "CREATE TABLE notes (text)")


def another_id(path):
    make(path)
    alter(path, "PRAGMA application_id = 7")


def no_database(path):
    path.write_text("Dear diary,\n" * 1000)


def broken_header(path):
    make(path)
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])


def cut_short(path):
    make(path)
    path.write_bytes(path.read_bytes()[:50])


@pytest.mark.parametrize(
    "spoil",
    [newer, former, another_program, another_id, no_database, broken_header, cut_short],
    ids=lambda spoil: spoil.__name__,
)
def test_an_unreadable_file_is_refused_and_left_unchanged(path, spoil):
    """The error is raised, and each byte is unchanged (A5)."""
    path.parent.mkdir()
    spoil(path)
    before = contents(path)
    for create in (True, False):
        with pytest.raises(StoreUnreadable, match=str(path)):
            SqliteStore(path, create=create).open()
    assert contents(path) == before


@pytest.mark.parametrize("body", [b'{"event":"FlewToTheMoon","at":"2026-01-01T00:00:00Z"}', b"\xff\x00"])
def test_an_unreadable_entry_refuses_its_session_only(path, body):
    """A newer program wrote it, or it is damaged; other sessions go on."""
    make(path, ("b", created("b")), ("a", asked()))
    alter(path, "INSERT INTO event (position, session, body) VALUES (5, 1, ?)", body)
    store = SqliteStore(path)
    store.open()
    with pytest.raises(StoreUnreadable):
        store.journal("a")
    assert [row.position for row in store.rows(0)] == [1, 2, 3, 4]
    assert list(store.unreadable) == ["a"]
    assert len(store.journal("b")) == 1
    assert [row.id for row in store.find_sessions()] == ["a", "b"]
    assert store.last_position() == 5
    append(store, ("b", started()))
    store.close()


def test_lists_show_which_entries_they_cannot_read(path):
    """A row whose event is damaged is shown as unreadable, and stops no list."""
    make(path, ("a", asked()), ("b", created("b")), ("a", asked("q", "o#2")), ("a", decided()), ("b", finished()))
    alter(path, "UPDATE event SET head = 99, body = x'00' WHERE position IN (1, 5, 6, 7)")
    store = SqliteStore(path)
    store.open()
    first, second = store.find_approvals(pending=False)
    assert (first.tool, first.status, first.reason) == ("shell", "approved", UNREADABLE)
    assert (second.tool, second.status, second.agent) == (UNREADABLE, "pending", UNREADABLE)
    a, b = store.find_sessions()
    assert (a.id, a.agent, a.root, b.outcome.kind) == ("a", UNREADABLE, "a", "abandoned")
    store.close()


@pytest.mark.parametrize(
    ("damage", "read"),
    [
        ("DELETE FROM event WHERE position = (SELECT decided FROM approval LIMIT 1)", "approvals"),
        ("UPDATE approval SET shown = 'not a list'", "approvals"),
        ("UPDATE session SET waiting_for = 'not a list'", "sessions"),
    ],
)
def test_a_row_of_the_index_that_leads_nowhere_is_named_as_damage(path, damage, read):
    """A5: as an error of the store, which a command ends with; not as one of Python."""
    make(path, ("a", asked()), ("a", decided()))
    alter(path, damage)
    store = SqliteStore(path)
    store.open()
    with pytest.raises(StoreUnreadable, match="row of its index"):
        store.find_approvals(pending=False) if read == "approvals" else store.find_sessions()
    store.close()


def id_of(path):
    store = SqliteStore(path)
    store.open()
    store.close()
    return store.id


def test_a_store_keeps_its_id(path, tmp_path):
    """Each time it is opened; another store has another id, and a copy has the same."""
    make(path)
    shutil.copy(path, tmp_path / "copy.db")
    assert id_of(path) == id_of(path) == id_of(tmp_path / "copy.db") != id_of(tmp_path / "other.db")


def test_a_store_without_an_id_is_refused(path):
    """No cursor could name it."""
    make(path)
    alter(path, "DELETE FROM meta")
    with pytest.raises(StoreUnreadable, match=str(path)):
        id_of(path)


def test_one_file_is_one_store_under_each_of_its_names(path, tmp_path):
    """Through a symbolic link, owners use the same folder."""
    make(path)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    one, other = SqliteStore(path), SqliteStore(link)
    for store in (one, other):
        store.open()
        assert store.begin()
        owner = store.claim("a")
        store.commit()
    assert owner == one.get_owner("a") == other.get_owner("a")
    for store in (one, other):
        store.close()


def test_a_step_and_its_number_commit_together(path):
    """A step that fails leaves the version before it, whole; the next start goes on from there."""
    make(path)
    good, bad = (
        "ALTER TABLE session ADD COLUMN mood TEXT;\n",
        "CREATE TABLE extra (x);\nINSERT INTO missing VALUES (1);\n",
    )
    steps, version = schema.STEPS, schema.newest()
    with replaced(schema, "STEPS", (*steps, good, bad)), pytest.raises(StoreUnreadable):
        SqliteStore(path).open()
    with replaced(schema, "STEPS", (*steps, good)):
        store = SqliteStore(path)
        store.open()
        assert store.get_session("a").agent == "agent"
        store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
        assert connection.execute("PRAGMA user_version").fetchone() == (version + 1,)
    connection.close()


def test_a_store_that_a_newer_program_upgraded_accepts_no_writes_from_us(path):
    """It was upgraded while we had it open."""
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()))
    alter(path, f"PRAGMA user_version = {schema.newest() + 1}")
    with pytest.raises(StoreUnreadable):
        store.begin()
    assert len(store.rows(0)) == 1
    store.close()


@pytest.mark.parametrize("query", sorted(schema.QUERIES))
def test_no_query_reads_a_whole_table(path, query):
    """Except the queries for everything."""
    make(path)
    statement = schema.QUERIES[query]
    numbered = {int(number) for number in re.findall(r"\?(\d+)", statement)}
    parameters = len(numbered) or statement.count("?") - statement.count("'?'")
    connection = sqlite3.connect(path)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", ("[]",) * parameters)]
    connection.close()
    meant = {
        "approvals_shown": "SCAN a",
        "counts": "SCAN session",
        "add_spent": "SCAN up",
        "owners": "SCAN owner",
        "clear_owners": "SCAN owner",
    }
    given = ("SCAN k VIRTUAL TABLE", "SCAN CONSTANT ROW")
    assert [
        step
        for step in plan
        if "SCAN" in step and "INDEX" not in step and step != meant.get(query) and not step.startswith(given)
    ] == []
    assert not any("TEMP B-TREE" in step for step in plan if query != "approvals_of_tree")


def test_the_index_can_be_rebuilt_from_the_events(path):
    """Also if the whole index is lost, with what was spent."""
    used = UsageSpent(at=at(), usage=Usage("m", 1, 90, 40, 10, 0.25))
    make(
        path,
        ("a", asked()),
        ("b", created("a", "a")),
        ("b", asked("q")),
        ("a", decided()),
        ("b", used),
        ("b", finished()),
    )
    store = SqliteStore(path)
    store.open()
    before = everything(store)
    assert [(row.spent.usd, row.spent_below.usd) for row in store.find_sessions()] == [(0, 0.25), (0.25, 0)]
    alter(path, "DELETE FROM session")
    alter(path, "UPDATE spent SET requests = 7, nano_usd = 1")
    alter(path, "UPDATE approval SET status = 'denied', shown = '[1]'")
    assert store.begin()
    store.rebuild()
    store.commit()
    assert everything(store) == before
    store.close()


def test_two_processes_that_make_a_store_get_the_same_one(path):
    """Each commits to the store that is there."""
    code = """
store = SqliteStore(sys.argv[1])
store.open()
while not store.begin(): pass
store.write(rows(store, (sys.argv[2], created(sys.argv[2]))))
store.commit()
"""
    for process in [python(code, path, name) for name in "abcd"]:
        process.communicate()
        assert process.returncode == 0
    store = SqliteStore(path)
    store.open()
    assert sorted(row.id for row in store.find_sessions()) == ["a", "b", "c", "d"]
    assert [found.name for found in path.parent.iterdir() if found.suffix == ".new"] == []
    store.close()


@pytest.mark.parametrize("value", [{"a": 1}, 2**70, "\ud800"], ids=["a dict", "a number", "a surrogate"])
def test_a_value_that_no_store_can_keep_raises_and_the_store_goes_on(path, value):
    """It is not a failure of the disk, and does not end the store, in a read or a write."""
    store = SqliteStore(path)
    store.open()
    append(store, ("a", created()), ("a", started()), ("a", asked()))
    for read in (store.get_session, store.get_approval, store.get_owner, store.rows, store.journal):
        with pytest.raises(InvalidInput):
            read(value)
    assert store.begin()
    for write in (lambda: store.claim(value), lambda: store.write([JournalEntry(2**70, "a", decided())])):
        with pytest.raises(StoreRefused):
            write()
    store.rollback()
    append(store, ("a", decided()))
    assert store.get_approval("p").status == "approved"
    store.close()


def test_a_store_that_was_closed_says_so(path):
    """For each of its methods."""
    store = SqliteStore(path)
    store.open()
    store.close()
    for use in (store.counts, store.begin, lambda: store.get_session("a"), store.find_approvals):
        with pytest.raises(StoreDied):
            use()


@pytest.mark.parametrize("call", ["fsync", "sqlite"])
def test_a_disk_that_fails_while_a_store_is_made_is_reported(path, call):
    """The error names the disk, not the file; the file that was made is used when the disk works again."""

    def fail(*given, **options):
        if call == "fsync":
            raise OSError(errno.EIO, "Input/output error")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_FSYNC, "SQLITE_IOERR_FSYNC"
        raise error

    failing = replaced(os, "fsync", fail) if call == "fsync" else replaced(schema, "migrate", fail)
    with failing, pytest.raises(StoreDied):
        SqliteStore(path).open()
    make(path)
