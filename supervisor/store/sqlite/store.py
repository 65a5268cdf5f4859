"""The durable store: one SQLite file that any number of processes share.

One connection writes, another reads: a reader sees committed data only, and does not wait while COMMIT syncs in a
worker thread. WAL with synchronous=FULL, so that a commit is one sync of one file. (It has more than 400 lines: it is
one class, whose methods are those of Store.)

Rules
- No method waits for a lock: `begin` returns at once whether it has it. Only a read may wait a moment, and only while
  another process recovers the log after a crash.
- Every error leaves through `faults`. After StoreDied this object begins no further transaction.
- No other program upgrades the file while we have it open (upgrading.py). If the format changes all the same, by hand,
  `begin` refuses.
- Every query is fetched to its end at once: an open cursor would prevent the log from being cut back.
"""

import gc
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast
from weakref import WeakSet

import msgspec

from supervisor.core.errors import IllegalEvent, NotFound, StoreDied, StoreError, StoreRefused, StoreUnreadable
from supervisor.core.events import SessionCreated
from supervisor.core.ids import STORE_JOURNALS
from supervisor.core.rows import JournalEntry, Owner
from supervisor.core.text.words import is_beginning
from supervisor.store.index import columns
from supervisor.store.index.entries import Index
from supervisor.store.index.prefixes import SharedPrefixes
from supervisor.store.index.reads import IndexReads, Test, as_json
from supervisor.store.owners import LockFolder
from supervisor.store.places import Places
from supervisor.store.sqlite import file_identity, full_disk, log_index, schema, upgrading, wal
from supervisor.store.sqlite.faults import (
    MISUSED,
    closed,
    contradicts_itself,
    explain,
    explain_misuse,
    explain_opening,
    is_busy,
)
from supervisor.store.sqlite.schema import QUERIES
from supervisor.store.sqlite.trees import OwnedTrees
from supervisor.store.sqlite.vacuum import compact
from supervisor.system.forks import inherited

R = TypeVar("R")

MIRRORED: Final = "mirrors"
"""The fact that says of what a file is a mirror."""
FAULTS: Final = (*MISUSED, sqlite3.DatabaseError)
FETCHED: Final = 100
"""The number of rows that are fetched before they are converted."""
_open_here: Final[Counter[Path]] = Counter()
"""How many connections this process has to each store: the log may be inspected only before the first one."""
_opening: Final = threading.RLock()
"""Held by the thread that opens or closes a connection: closing an inspected file would drop another one's locks."""
_stores: Final[WeakSet["SqliteStore"]] = WeakSet()
"""The stores that this process has opened."""
_inherited: Final[dict[Path, list[sqlite3.Connection]]] = {}
"""The connections of the process from which this one was forked: they have no locks here, and are never used or closed
(store/owners.py lets the lock files go)."""


def _disown() -> None:
    """In a process that was just forked: give up all stores that were open."""
    for store in list(_stores):
        store.disown()


os.register_at_fork(after_in_child=_disown)

RECOVERY_TIMEOUT_SECONDS = (
    10.0  # seconds to wait, when opening, for a process that recovers the log or upgrades the format
)


class SqliteStore(IndexReads):
    """See Store. `create=False` is for commands that only read: `open` raises NotFound if there is no store."""

    is_durable = True
    mark = "?"
    large_log: int = 32 * 2**20
    """Bytes by which the log grows until it is cut back; writers wait meanwhile."""
    cut_timeout: float = 1.0
    """Seconds to wait for a moment without a writer, to cut the log back."""

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        # Symbolic links are resolved: the lock folder must be the same under every name of the file.
        self.path = Path(os.path.realpath(path))
        self.name = str(self.path)
        self._where = self.path
        self._copied: StoreRefused | None = None
        """Why a copy is read, and not the file (full_disk.py)."""
        self.local = str(self.path)
        self.unreadable: dict[str, str] = {}
        self.mirrors: str | None = None
        """What this file may be a mirror of, for a program that fills it; every other program only reads a mirror."""
        self._mirrored: str | None = None
        self._create = create
        self._connections: list[sqlite3.Connection] = []
        self._checkpointer: sqlite3.Connection | None = None
        self._died: StoreError | None = None
        self._version = 0
        self._data_version = 0
        self.generation = -1
        self._index = Index(self._read, self._change)
        self._last = self._written = self._pages = 0
        self._largest_log = 0  # of the log when it was cut back last
        self._trees = OwnedTrees(LockFolder(self.path), self._read, self._change)
        self._places = Places(self.path)

    def __repr__(self) -> str:
        state = "dead" if self._died else "open" if self._connections else "closed"
        return f"<SqliteStore {self.name} {state}>"

    def open(self) -> None:
        try:
            with _opening:
                self._open()
        except (sqlite3.Error, OSError) as error:
            self.close()
            why = self._explain_opening(error)
            if self._create or not isinstance(why, StoreRefused) or not self._open_copy(why):
                raise why from error
        except BaseException:
            self.close()
            raise

    def _explain_opening(self, error: sqlite3.Error | OSError) -> StoreError:
        with _opening:
            return explain_opening(error, self.path, may_ask=not _open_here[self.path])

    def _open_copy(self, why: StoreRefused) -> bool:
        """Open a copy of a store whose disk is full, to read it; return whether there is one."""
        with _opening:
            copied = None if _open_here[self.path] else full_disk.copy(self.path)
        if copied is None:
            return False
        self._where, self._copied = copied, why
        try:
            with _opening:
                self._open()
        except (sqlite3.Error, OSError):
            self.close()
            return False
        except BaseException:
            self.close()
            raise
        return True

    def _open(self) -> None:
        if self.path in _inherited:  # SQLite would take the locks of those connections for this one's
            raise inherited(self.path)
        _stores.add(self)
        path = self._where
        if file_identity.find(path) is None:
            if not self._create:
                raise NotFound(f"there is no store at {self.name}; `start`, `run` and `demo` make one")
            schema.make_folders(path.parent)
            schema.create(path)
        is_alone = not _open_here[path]
        if is_alone:
            schema.check_header(path)
            log_index.check_room(path)
            file_identity.check_companions(path)
        is_current = self._is_current()
        if is_alone:
            wal.check_log(path)
        if not is_current:
            if not is_alone:
                raise upgrading.in_use(path, os.getpid())
            upgrading.bring_up_to_date(path)
        # Both wait for another process that recovers the log; afterwards the writer never waits.
        self._writer = self._connect("rw", timeout=RECOVERY_TIMEOUT_SECONDS)
        self._writer.execute("PRAGMA busy_timeout = 0")
        self._reader = self._connect("ro", timeout=RECOVERY_TIMEOUT_SECONDS)
        schema.is_current(self._reader, self.name)  # again: only this connection prevents an upgrade by a newer program
        self._file = file_identity.OpenFile(path)
        self.generation = -1  # a cache from an earlier opening is not valid any more
        self._prefixes = SharedPrefixes(self._read, self._change)
        self._version = schema.newest()
        self.id = self._read_id()
        self._finish_upgrade()
        self._mirrored = self.find_facts(MIRRORED).get(MIRRORED)
        self._last = self.last_position()
        log_index.allocate(path)
        self.has_changed()

    def close(self) -> None:
        with _opening:
            for connection in reversed(self._connections):  # the writer last: the last connection cuts the log back
                connection.close()
                _open_here[self._where] -= 1
            if not _open_here[self._where]:
                log_index.let_go(self._where)
        if self._copied is not None:
            full_disk.remove(self._where)
            self._where, self._copied = self.path, None
        self._connections.clear()
        self._checkpointer = None
        self._trees.release()
        self._places.release()

    def disown(self) -> None:
        """In a process that was forked while the store was open: refuse every use of it."""
        if self._connections:
            _inherited.setdefault(self._where, []).extend(self._connections)
            self._connections.clear()
            self._died = inherited(self.path)
            self._writer = self._reader = self._checkpointer = cast("sqlite3.Connection", _Disowned(self._died))

    def begin(self) -> bool:
        if self._died is not None:
            raise StoreDied(str(self._died))
        if self._copied is not None:
            raise StoreRefused(str(self._copied))
        if self._mirrored not in (None, self.mirrors):
            raise StoreRefused(f"{self.name} is a mirror, which is only read: name {self._mirrored} as the store")
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            if (why := self._what_happened()) is not None:  # under the lock that a process needs to take trees
                self.rollback()
                raise self._die(why)
            (generation,) = self._writer.execute("PRAGMA data_version").fetchone()
            if generation != self.generation:
                self._take_stock(generation)
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            raise self._fault(error) from error
        self._written = 0
        return True

    def _take_stock(self, generation: int) -> None:
        """Another process has written: drop all that is cached of the file."""
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version != self._version:
            self.rollback()
            raise StoreUnreadable(f"{self.name} was upgraded by a newer program; restart with that program")
        self._index.forget()
        self._last = self._read("last_position", writing=True)[0][0]
        self.generation = generation

    def write(self, rows: Sequence[JournalEntry]) -> None:
        if not self._writer.in_transaction:
            raise self._died or StoreRefused(f"{self.name}: a part of the transaction was refused, and so all of it is")
        draft = self._index.draft(rows)
        numbers = {entry.id: entry.created for entry in draft.sessions.values()}
        for journal in STORE_JOURNALS.intersection(row.session for row in rows):
            numbers |= self._numbers(journal)
        last = self._written or self._last
        entries = []
        for row in rows:
            if row.position <= last:
                raise IllegalEvent(f"position {row.position} is taken: read what is new before writing")
            last = row.position
            # A journal of the store itself begins with any entry, every other journal with its session.
            is_first = isinstance(row.event, SessionCreated) or (
                row.session in STORE_JOURNALS and row.session not in numbers
            )
            if is_first:
                numbers[row.session] = last
            elif row.session not in numbers:
                raise IllegalEvent(f"session {row.session} has no beginning")
            entries.append((last, numbers[row.session], row.session if is_first else None, *self._prefixes.cut(row)))
            self._pages += 2 + len(entries[-1][-1]) // schema.PAGE_BYTES
            draft.take(row)
        self._change("append", entries)
        self._index.put(draft)
        self._written = last
        self._pages += 4

    def commit(self) -> None:
        try:
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            fault = self._fault(error)
            self.rollback()
            raise fault from error
        self._prefixes.commit()
        self._index.commit()
        self._last = max(self._last, self._written)
        self._trees.commit()

    def rollback(self) -> None:
        self._prefixes.rollback()
        self._index.rollback()
        self._trees.rollback()
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._fault(error, is_known=False) from error

    def wants_checkpoint(self) -> bool:
        # Processes that close before they have written much do not count.
        return self._pages >= wal.CHECKPOINT_PAGES or self.log_size() > self._largest_log + self.large_log

    def checkpoint(self) -> None:
        self._pages = 0  # first: pages that are written meanwhile count for the next one
        try:
            if self._checkpointer is None:
                self._checkpointer = self._connect("rw", timeout=self.cut_timeout)
            self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if self.log_size() >= self.large_log:
                # After the first checkpoint little is left to do while writers wait.
                self._checkpointer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._largest_log = self.log_size()  # if a reader keeps it long, we do not try each time
        except sqlite3.Error as error:
            if not is_busy(error):
                raise self._fault(error) from error

    def log_size(self) -> int:
        """Return the size of the log's file; it is overwritten from its beginning after a complete checkpoint."""
        return file_identity.size_of(Path(f"{self.name}-wal"))

    def one_instant(self) -> AbstractContextManager[None]:
        return _Instant(self._begin_reading, self._end_reading)

    def journal(
        self, session: str, after: int = 0, limit: int | None = None, only: Collection[str] | None = None
    ) -> list[JournalEntry]:
        convert = partial(columns.journal_row, session)
        if only is None:
            return self._read_as(convert, "journal", session, after, limit=limit)
        return self._read_as(
            convert,
            "journal_of",
            session,
            after,
            as_json(only),
            keep=lambda row: type(row.event).__name__ in only,
            limit=limit,
        )

    def has_changed(self) -> bool:
        if (why := self._what_happened()) is not None:
            raise self._die(why)
        try:
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise self._fault(error) from error
        if version == self._data_version:
            return False
        # Our own commits change it, too; but their content is known.
        self._data_version = version
        last, known = self.last_position(), self._last
        self._last = max(last, known)
        return last > known

    def _searched(self, words: Sequence[str]) -> tuple[str, str, list[Test]]:
        if not words:
            return "approval_full AS a", "a.asked", []
        wanted = " AND ".join(f'"{word}"*' if is_beginning(word) else f'"{word}"' for word in words)
        tables = "asked_words AS w CROSS JOIN approval_full AS a ON a.asked = w.rowid"
        return tables, "w.rowid", [("w.asked_words MATCH {}", wanted)]

    def remove(self, root: str) -> None:
        self._index.forget()
        self._trees.remove(root)
        numbers = self._numbers(root)
        ((last,),) = self._read("last_position", writing=True)
        keys = {"number": numbers.get(root), "root": root, "last": last}
        for query, key in schema.REMOVAL.items():
            self._change(query, [(keys[key],)])

    def compact(self) -> None:
        compact(self.path, is_shared=self._trees.has_others())

    def claim(self, root: str) -> Owner | None:
        return self._trees.claim(root)

    def get_owner(self, root: str) -> Owner | None:
        return self._trees.owner_of(root)

    def get_owners(self, roots: Sequence[str]) -> dict[str, Owner]:
        return self._trees.owners_of(roots)

    def owners(self) -> list[Owner]:
        return self._trees.owners()

    def owns(self, root: str) -> bool:
        return self._trees.owns(root)

    def take_place(self, limit: str, at_once: int) -> int | None:
        return self._places.take(limit, at_once)

    def give_place_back(self, limit: str, place: int) -> None:
        self._places.give_back(limit, place)

    def find_facts(self, beginning: str) -> dict[str, str]:
        """Return what `put_fact` has kept under names that begin with a text."""
        return dict(self._read("facts", beginning))

    def put_fact(self, name: str, value: str) -> None:
        """Within a transaction: keep a fact about the store itself."""
        self._change("put_fact", [(name, value)])

    def rebuild(self) -> None:
        """Within a transaction: compute the index of sessions and approvals again, from the events only."""
        self._index.forget()
        self._change("clear_spent", [()])
        self._change("clear_sessions", [()])
        self._change("clear_approvals", [()])
        self._change("clear_words", [()])
        last = 0
        while found := self._read("some_rows", last, writing=True):
            last = found[-1][0]
            rows = self._known_rows(found)
            draft = self._index.draft(rows)
            for row in rows:
                draft.take(row)
            self._index.put(draft)

    def _finish_upgrade(self) -> None:
        """Compute the index again where a step has left that to be done. Until then a search finds less. While another
        process writes, a later opening does it."""
        if not self._read("meta", schema.STALE):
            return
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if is_busy(error):
                return
            raise
        self.rebuild()
        self._change("remove_fact", [(schema.STALE,)])
        self.commit()

    def _read_id(self) -> str:
        for (found,) in self._read("meta", "id"):
            return str(found)
        raise StoreUnreadable(f"{self.name} is damaged: it has no id; it was left untouched. Restore a backup")

    def _is_current(self) -> bool:
        """Check, over a connection that cannot write, whether the file is ours, and whether it needs an upgrade."""
        if self._where.stat().st_size == 0 and not self._create:
            raise NotFound(f"{self.name} is an empty file, not a store")
        with closing(schema.connect(self._where, "ro", timeout=RECOVERY_TIMEOUT_SECONDS)) as connection:
            return schema.is_current(connection, self.name)

    def _connect(self, mode: str, timeout: float = 0.0) -> sqlite3.Connection:
        with _opening:
            connection = schema.connect(self._where, mode, timeout=timeout)
            self._connections.append(connection)
            _open_here[self._where] += 1
        return connection

    def _what_happened(self) -> StoreDied | None:
        """Return the error if another process may now write what this one does not see; None if all is well."""
        return self._file.what_happened() or self._trees.what_happened()

    def _die(self, why: StoreDied) -> StoreDied:
        self._died = why
        return why

    def _fault(self, error: sqlite3.Error, *, is_known: bool = True) -> StoreError:
        fault = explain(error, self.path) if self._connections else closed(self.path)
        if not is_known and isinstance(fault, StoreRefused):
            fault = StoreDied(str(fault))
        if isinstance(fault, StoreDied):
            self._died = fault
        return fault

    def _explained(self, error: Exception, *, writing: bool = False) -> Exception:
        """Return the error to raise for one of FAULTS."""
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, MISUSED):
            return self._fault(error)
        return explain_misuse(error, self.path, writing=writing) if self._connections else closed(self.path)

    def _begin_reading(self) -> None:
        self._control_reader("BEGIN")

    def _end_reading(self) -> None:
        if self._reader.in_transaction:
            self._control_reader("COMMIT")

    def _control_reader(self, statement: str) -> None:
        try:
            self._reader.execute(statement)
        except FAULTS as error:
            raise self._explained(error) from error

    def _read(self, query: str, *parameters: Any, writing: bool = False) -> list[Any]:
        try:
            return (self._writer if writing else self._reader).execute(QUERIES[query], parameters).fetchall()
        except FAULTS as error:
            raise self._explained(error, writing=writing) from error

    def _read_as(
        self,
        convert: Callable[[SharedPrefixes, columns.Columns], R],
        query: str,
        *parameters: Any,
        keep: Callable[[R], bool] | None = None,
        limit: int | None = None,
    ) -> list[R]:
        """Convert a few rows at a time: a hundred thousand bodies at once would need more memory than the converted
        values, and to fetch each row by itself takes a tenth longer."""
        is_collecting = gc.isenabled()
        gc.disable()  # these values stay alive; searching them for garbage takes as long as making them
        try:
            with closing(self._reader.execute(QUERIES.get(query, query), parameters)) as rows:
                fetched = chain.from_iterable(iter(partial(rows.fetchmany, min(limit or FETCHED, FETCHED)), []))
                return list(islice(filter(keep, map(partial(convert, self._prefixes), fetched)), limit))
        except FAULTS as error:
            raise self._explained(error) from error
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise contradicts_itself(self.path) from error
        finally:
            if is_collecting:
                gc.enable()

    def _change(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        try:
            self._writer.executemany(QUERIES[query], rows)
        except sqlite3.IntegrityError as error:
            raise IllegalEvent(f"the store already has this: {error}") from error
        except FAULTS as error:
            raise self._explained(error, writing=True) from error

    def _numbers(self, session: str) -> dict[str, int]:
        return dict(self._read("numbers", msgspec.json.encode([session]).decode(), writing=True))


class _Disowned:
    """Takes the place of a connection that was inherited."""

    in_transaction = False

    def __init__(self, why: StoreDied) -> None:
        self._why = why

    def execute(self, *_: object) -> NoReturn:
        raise self._why

    executemany = execute


class _Instant:
    """The context of `one_instant`. One made of a generator would take three times as long."""

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, *error: object) -> None:
        self._end()
