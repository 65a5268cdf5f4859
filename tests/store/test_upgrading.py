"""A store of an older format is brought up to date alone, after a backup, in steps that commit whole or not at all.

The step is artificial (format_steps.py): this process is the older program, except within `newer()`.
"""

import errno
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from itertools import count

import pytest
from format_steps import NEW, OLD, REQUESTER, backups, newer, opened, version_of
from store_stories import append, asked, created, decided, everything, finished, python, ruled, started

from supervisor.core.errors import StoreUnreadable
from supervisor.core.ids import RULES
from supervisor.store.sqlite import schema, upgrading
from supervisor.store.sqlite.store import SqliteStore

BACKUP = f"store.db.v{OLD}.bak"


@pytest.fixture
def path(tmp_path):
    """A store of the older format: one session waits for a person, one has finished, one rule stands."""
    path = tmp_path / "state" / "store.db"
    with opened(path) as store:
        append(store, ("a", created()), ("a", started()), ("a", asked()), (RULES, ruled("r")))
        append(store, ("b", created("b")), ("b", started()), ("b", finished()))
    return path


def content(path):
    with opened(path) as store:
        return everything(store)


def requesters(path):
    with opened(path) as store:
        return {row.event.requester for row in store.rows(0) if type(row.event).__name__ == "SessionCreated"}


def copy_of(path, folder):
    """Copy a store with its log, as a crash would leave them, into a new folder."""
    folder.mkdir()
    for found in path.parent.glob(f"{path.name}*"):
        if found.is_file() and not found.name.endswith("-shm"):
            shutil.copy(found, folder)
    return folder / path.name


DIES = """
import signal, sqlite3
from format_steps import be_newer
be_newer()
left = int(sys.argv[2])

def point():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def dying(call):
    def wrapped(*given, **options):
        point()
        return call(*given, **options)
    return wrapped

class Connection(sqlite3.Connection):
    execute = dying(sqlite3.Connection.execute)
    close = dying(sqlite3.Connection.close)
    def backup(self, target):
        super().backup(target, pages=1, progress=lambda *_: point())

connect = sqlite3.connect
sqlite3.connect = lambda *given, **options: connect(*given, factory=Connection, **options)
for name in ("open", "link", "unlink", "fsync"):
    setattr(os, name, dying(getattr(os, name)))
store = SqliteStore(sys.argv[1])
store.open()
store.close()
"""


@pytest.mark.slow
def test_a_killed_process_leaves_one_format_or_the_next(path, tmp_path):
    """SIGKILL before each call of SQLite and of the file system, and after each page of the backup. The file that is
    left opens, and goes on to the next format with one complete backup, and no other file next to the store."""
    before, seen = content(path), set()
    with newer():
        after = content(copy_of(path, tmp_path / "after"))
    for turn in count(1):
        died = copy_of(path, tmp_path / f"died{turn}")
        process = python(DIES, died, turn)
        process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        version, has_backup = version_of(died), BACKUP in backups(died)
        seen.add((version, has_backup, f"{BACKUP}.new" in backups(died)))
        if version == OLD:  # the older program could go on with it
            assert content(copy_of(died, tmp_path / f"old{turn}")) == before
        with newer():
            assert content(died) == after
        assert backups(died) == [BACKUP]
        shutil.copy(died.with_name(BACKUP), tmp_path / f"backup{turn}.db")
        assert content(tmp_path / f"backup{turn}.db") == before
    assert seen == {(OLD, False, False), (OLD, False, True), (OLD, True, True), (OLD, True, False), (NEW, True, False)}


def test_a_backup_is_for_its_user_only_and_is_named_in_the_log(path, caplog):
    """It is a whole store of the older format."""
    before = content(path)
    with newer():
        assert requesters(path) == {REQUESTER[NEW]}
    backup = path.with_name(BACKUP)
    assert requesters(backup) == {REQUESTER[OLD]}
    assert backup.stat().st_mode & 0o777 == 0o600
    assert str(backup) in caplog.text
    assert content(backup) == before


@pytest.fixture(params=["links", "no links"])
def _disk(request, monkeypatch):
    """exFAT, some shares and FUSE have no hard links."""

    def refuse(*names):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if request.param == "no links":
        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("_disk")
def test_a_backup_replaces_no_file(path):
    """A backup of an earlier time has the name: a person put it back, and used the older program with it."""
    before, earlier = content(path), path.with_name(BACKUP)
    earlier.write_bytes(b"of an earlier time")
    with newer(), opened(path):
        pass
    assert backups(path) == sorted([BACKUP, f"store.db.v{OLD}.2.bak"])
    assert earlier.read_bytes() == b"of an earlier time"
    assert content(path.with_name(f"store.db.v{OLD}.2.bak")) == before


@pytest.mark.usefixtures("_disk")
def test_a_step_that_fails_again_and_again_leaves_one_backup(path):
    """The store keeps its older format, and the older program goes on with it."""
    before = content(path)
    for _ in range(3):
        with newer("SELECT broken"), pytest.raises(StoreUnreadable):
            SqliteStore(path).open()
    assert (version_of(path), backups(path), content(path)) == (OLD, [BACKUP], before)
    with opened(path) as store:
        append(store, ("a", decided()))
    with newer(), opened(path):
        pass
    assert backups(path) == sorted([BACKUP, f"store.db.v{OLD}.2.bak"])


def test_without_room_for_the_backup_nothing_is_changed(path):
    """A file may have only a few pages, as on a full disk."""
    code = """
import resource
from format_steps import be_newer
be_newer()
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    SqliteStore(sys.argv[1]).open()
except Exception as error:
    print(type(error).__name__)
"""
    before = content(path)
    assert python(code, path).communicate()[0] == "StoreRefused\n"
    assert (version_of(path), backups(path), content(path)) == (OLD, [], before)


OPEN = {
    "runs a tree": "store.open(); assert store.begin(); assert store.claim('a') is None; store.commit()",
    "has written": "store.open(); append(store, ('a', decided()))",
    "reads": "store._create = False; store.open(); assert len(store.find_sessions()) == 2",
    "reads by SQLite": "import sqlite3; store = sqlite3.connect(sys.argv[1]); store.execute('SELECT * FROM event')",
}
OPEN = {
    doing: f"store = SqliteStore(sys.argv[1]); {code}; print('open', flush=True); sys.stdin.readline(); store.close()"
    for doing, code in OPEN.items()
}


@contextmanager
def holding(path, doing):
    """Another process has the store open; later it goes on, and closes the store."""
    other = python(OPEN[doing], path)
    assert other.stdout.readline() == "open\n"
    try:
        yield other
    finally:
        other.communicate("go on\n")
    assert other.returncode == 0


@pytest.mark.parametrize("doing", OPEN)
def test_no_store_is_upgraded_while_an_older_program_has_it_open(path, doing):
    """Whatever the older program does: it is named, goes on, and does not prevent the upgrade after its end."""
    with holding(path, doing) as other:
        with newer(), pytest.raises(StoreUnreadable, match=rf"\b{other.pid}\b"):
            SqliteStore(path).open()
        assert (version_of(path), backups(path)) == (OLD, [])
        with opened(path) as store:
            append(store, ("c", created("c")))
    with newer():
        assert requesters(path) == {REQUESTER[NEW]}
    assert version_of(path) == NEW


def test_a_program_that_has_it_open_itself_is_named_too(path):
    """The file is not inspected for that, since that would drop the locks of the program."""
    with opened(path) as store:
        with newer(), pytest.raises(StoreUnreadable, match=rf"\b{os.getpid()}\b"):
            SqliteStore(path).open()
        append(store, ("a", decided()))
    assert version_of(path) == OLD


def test_the_command_line_refuses_in_one_line(path):
    """Exit code 6, also for a command that only reads."""
    code = """
from format_steps import be_newer
from supervisor.__main__ import main
be_newer()
sys.argv = ["supervisor", "sessions", "--store", sys.argv[1]]
sys.exit(main())
"""
    with holding(path, "reads") as other:
        command = python(code, path, stderr=subprocess.PIPE)
        (line,) = command.communicate()[1].splitlines()
    assert str(other.pid) in line
    assert command.returncode == 6


STOPS = """
from format_steps import be_newer
from supervisor.store.sqlite import schema
be_newer()
split = schema._statements
def split_slowly(script):
    print("in a step", flush=True)
    sys.stdin.readline()
    return split(script)
if sys.argv[2] == "slowly":
    schema._statements = split_slowly
store = SqliteStore(sys.argv[1])
store.open()
store.close()
"""
OLDER = """
from supervisor.core.errors import StoreUnreadable
try:
    SqliteStore(sys.argv[1]).open()
except StoreUnreadable:
    sys.exit(6)
"""


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_process_that_upgrades_a_file_has_it_alone(path, is_empty):
    """Processes that come meanwhile wait. A newer program finds nothing to do, an older one refuses."""
    if is_empty:
        path.write_bytes(b"")
    first = python(STOPS, path, "slowly")
    assert first.stdout.readline() == "in a step\n"
    second, older = python(STOPS, path, "at once"), python(OLDER, path)
    for waiting in (second, older):
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)  # without the lock it would have finished long ago
    first.communicate("\n\n")
    for process in (second, older):
        process.communicate()
    assert [first.returncode, second.returncode, older.returncode] == [0, 0, 6]
    assert (version_of(path), backups(path)) == (NEW, [] if is_empty else [BACKUP])


def test_an_older_program_leaves_the_newer_file_unchanged(path):
    """Byte for byte."""
    with newer(), opened(path):
        pass
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(StoreUnreadable, match=str(path)):
            SqliteStore(path, create=create).open()
    assert path.read_bytes() == before


def test_a_newer_program_that_comes_while_a_store_is_being_opened_is_noticed(path, monkeypatch):
    """It upgrades after the file was found readable, and before the first connection that stays."""

    class Overtaken(SqliteStore):
        def _is_current(self):
            found = super()._is_current()
            with newer():
                upgrading.bring_up_to_date(path)
            return found

    with pytest.raises(StoreUnreadable):
        Overtaken(path).open()
    assert version_of(path) == NEW


def test_a_connection_that_is_refused_keeps_no_lock(path):
    """Such a lock would keep all processes out until it is collected."""
    with opened(path):
        for _ in range(3):
            with pytest.raises(schema.sqlite3.OperationalError):
                schema.connect(path, "rw", alone=True)
    schema.connect(path, "rw", alone=True).close()
