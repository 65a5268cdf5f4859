"""The format of a store's file, and the steps from each format to the next (store/sqlite/upgrading.py takes them).

Rules
- A file is ours by its application id, and readable by its version (PRAGMA user_version); both are in its header.
- Each of `STEPS` upgrades one version to the next. A step and its number commit together, so that a crash leaves one
  version or the next, never something between. Versions up to FORMER belong to no release, and are refused.
- We check whether we can read a file by its header, and then over a connection that cannot write, so that a refused
  file is not changed.
- A new store is made next to its place and linked into it: it appears complete, and two processes that make one get the
  same one. On a file system without hard links, an empty file is made exclusively and filled in its place: it is
  upgraded as an older store is, in steps that commit. An existing file is never replaced.
"""

import errno
import os
import secrets
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from supervisor.core.errors import StoreUnreadable
from supervisor.store.index.reads import read_queries, read_sql

APPLICATION_ID: Final = 0x53757076
""""Supv"."""
PAGE_BYTES: Final = 8192
"""Bytes of a page, twice SQLite's default: a request of 1 KB fills only three quarters of a page of 4 KiB, so each
pending approval took a tenth more. A commit takes no longer."""
NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links, or without room for one more."""
_HEADER: Final = struct.Struct(">16s44xI4xI28x")
"""The part of the header that identifies a file: SQLite's magic string, the version and the application id."""


STEPS: tuple[str, ...] = tuple(
    read_sql(__package__, f"{name}.sql") for name in ("schema", "usage", "words", "allowances", "requests")
)
FORMER: Final = 6
QUERIES: Final = read_queries(__package__)
STALE: Final = "stale"
"""The fact by which a step says that the index must be computed again."""
REMOVAL: Final = {
    "remove_words": "number",
    "remove_approvals": "number",
    "remove_events": "number",
    "remove_spent": "number",
    "remove_sessions": "number",
    "remove_tree": "root",
    "keep_place": "last",
    "clear_places": "last",
}
"""The queries that remove a tree, in this order, and the key of each query."""


def newest() -> int:
    """Return the version that we write."""
    return FORMER + len(STEPS)


def connect(path: Path, mode: str, *, timeout: float = 0.0, alone: bool = False) -> sqlite3.Connection:
    """Open a connection: `mode` is "ro" or "rw", never one that creates. Any thread may use it, one at a time.

    `alone`: the file is locked against every other connection until this one is closed. Raises sqlite3.OperationalError
    (SQLITE_BUSY) if there is another one.
    """
    uri = f"file:{quote(os.fsencode(path))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        if alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()  # first: the next statements read the file
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # for an empty file; before it is locked for writing
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves data in the drive's cache
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # `checkpoint` does it, outside the commit path
        if alone:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except BaseException:
        connection.close()  # a connection left to the garbage collector keeps its locks
        raise
    return connection


def copy_to(path: Path, copy: Path) -> None:
    """Copy a store, as it is at one instant, into a new file for its user only. The store is only read."""
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with closing(connect(path, "ro", timeout=10.0)) as source, closing(connect(copy, "rw")) as target:
        source.backup(target)


def check_header(path: Path) -> None:
    """Raise StoreUnreadable if a file is not ours, or newer than we are; touch nothing, not even a log next to it.

    Call it when this process has no connection to the file: closing it would drop the connection's locks.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
    if not header:
        return
    magic, version, application = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
    if magic != b"SQLite format 3\0" or len(header) < _HEADER.size:
        raise StoreUnreadable(
            f"{path} is not a store, or its header is damaged; it was left untouched. Name another file"
        )
    if application != APPLICATION_ID:
        raise StoreUnreadable(f"{path} is a database of another program; it was left untouched. Name another file")
    _check_version(version, str(path))


def has_log(path: Path) -> bool:
    """Return whether a file is in the mode in which a log and its index are next to it while it is open. It opens the
    file: see check_header."""
    with path.open("rb") as file:
        return file.read(_HEADER.size)[18:20] == b"\2\2"


def is_current(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether a file needs no upgrade; raises StoreUnreadable if it is newer than we are."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (_,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # reads, and thereby recovers the log
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    _check_version(version, name)
    return bool(version == newest() and mode == "wal")


def _check_version(version: int, name: str) -> None:
    if version > newest():
        raise StoreUnreadable(
            f"{name} was written by a newer version of this program (format {version}, this one reads up to "
            f"{newest()}); it was left untouched. Upgrade this program to open it"
        )
    if 0 < version <= FORMER:
        raise StoreUnreadable(
            f"{name} was written before the first release (format {version}, this program reads {FORMER + 1} and "
            "later); it was left untouched. Name another file"
        )


def create(path: Path) -> None:
    """Make a new store, for its user only; a store that another process made meanwhile is as good."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        with closing(connect(draft, "rw")) as connection:
            migrate(connection)
        with suppress(FileExistsError):
            _give_name(draft, path)
    finally:
        for suffix in ("", "-wal", "-shm"):  # SQLite may leave them on a full disk
            Path(f"{draft}{suffix}").unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _give_name(draft: Path, path: Path) -> None:
    """Let a new store appear in its place. Raises FileExistsError if another process was faster."""
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def migrate(connection: sqlite3.Connection) -> None:
    """Upgrade a file to the newest version, one step and its number at a time."""
    while _step(connection):
        pass
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    # The header, too, should have the version: older programs refuse the file by it.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _step(connection: sqlite3.Connection) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        done = max(0, version - FORMER)
        if done >= len(STEPS):
            connection.execute("ROLLBACK")
            return False
        for statement in _statements(STEPS[done]):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMER + done + 1}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True


def _statements(script: str) -> list[str]:
    """Split a script into statements; sqlite3's executescript would commit between them."""
    found, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found


def make_folders(folder: Path) -> None:
    """Make the missing folders, for their user only; `mkdir(parents=True)` would open the upper ones to all users."""
    if not folder.exists():
        make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
