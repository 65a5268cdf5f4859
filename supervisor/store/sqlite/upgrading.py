"""Upgrading a store of an older format: while no other process has it open, and after a backup.

Theory: every connection of SQLite holds a shared lock on the store's file from its first read until it is closed, also
a connection that only reads (locks.py). So a process that gets the exclusive lock knows that no other process has the
store open, whatever its version, and keeps every other one out until it is done. An older program that comes afterwards
finds the new number and refuses the file.

Rules
- Nothing is written without the exclusive lock. A process that does not get it says which process has the store open.
- Before the first step the store is copied to `NAME.vN.bak` next to it, N being its format. The copy appears complete,
  and is on the disk before the step begins. It never replaces a file: if the name is taken by other bytes, it
  becomes `NAME.vN.2.bak`, and so on. If a process dies after the copy, the next one makes the same copy, and finds it.
- Each step and its number commit together (store/sqlite/schema.py).
- No function here is called while this process has a connection to the file: `locks.holder` opens and closes it, which
  drops the locks of the whole process.
"""

import filecmp
import os
import sqlite3
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Final

from supervisor.core.errors import StoreUnreadable
from supervisor.store.sqlite import locks, schema
from supervisor.store.sqlite.faults import is_busy
from supervisor.system.logs import FactLog

log = FactLog(__name__)

PATIENCE_SECONDS: Final = 1.0
"""Seconds to wait for processes that have the store open: most commands end sooner."""
LONG_PATIENCE_SECONDS: Final = 10.0
"""Seconds to wait for a process that has the store alone: it is upgrading the store."""
_PAUSE_SECONDS: Final = 0.02


def bring_up_to_date(path: Path) -> None:
    """Upgrade a store to the newest format. If several processes want that, each waits for the one that does it, and
    finds nothing to do. Raises StoreUnreadable if another process keeps the store open, or if it is newer by now.
    """
    with closing(_connect_alone(path)) as connection:
        if schema.is_current(connection, str(path)):
            return
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if 0 < version < schema.newest():  # an empty file has nothing to lose
            backup = _back_up(connection, path, version)
            log.warning("store.backed_up", backup=str(backup), format=version, next_format=schema.newest())
        schema.migrate(connection)


def in_use(path: Path, holder: int | None) -> StoreUnreadable:
    """Return the error for a store that cannot be upgraded now. `holder`: a pid, if it is known."""
    return StoreUnreadable(
        f"{path} has an older format and must be upgraded, but {locks.name(holder)} has it open; it was left "
        "untouched. Stop that process, then open it again"
    )


def _connect_alone(path: Path) -> sqlite3.Connection:
    for turn in count(1):
        try:
            return schema.connect(path, "rw", alone=True)
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
        holder, is_alone = locks.holder(path)
        if turn * _PAUSE_SECONDS > (LONG_PATIENCE_SECONDS if is_alone else PATIENCE_SECONDS):
            raise in_use(path, holder)
        time.sleep(_PAUSE_SECONDS)
    raise AssertionError


def _back_up(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """Copy a store that this process has alone; return the path of the copy, made now or before a crash."""
    draft = path.with_name(f"{path.name}.v{version}.bak.new")
    draft.unlink(missing_ok=True)  # left by a process that was killed
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        if os.geteuid() == 0:
            theirs = path.stat()
            os.chown(draft, theirs.st_uid, theirs.st_gid)
        with closing(schema.connect(draft, "rw")) as copy:
            copy.execute("PRAGMA journal_mode = OFF").fetchall()  # no rollback: an incomplete draft is removed
            connection.backup(copy)  # syncs the copy
        backup = _name(draft, path, version)
    finally:
        draft.unlink(missing_ok=True)
    schema.sync_folder(path.parent)
    return backup


def _name(draft: Path, path: Path, version: int) -> Path:
    """Let a complete copy appear under the first free name, unless a file with a taken name has the same bytes."""
    for number in count(1):
        backup = path.with_name(f"{path.name}.v{version}{f'.{number}' if number > 1 else ''}.bak")
        if _appears(draft, backup) or filecmp.cmp(draft, backup, shallow=False):
            return backup
    raise AssertionError


def _appears(draft: Path, backup: Path) -> bool:
    """Give a copy its name; return whether the name was free."""
    try:
        os.link(draft, backup)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in schema.NO_LINKS:
            raise
        if os.path.lexists(backup):
            return False
        draft.rename(backup)  # no other process makes one: this process has the store alone
    return True
