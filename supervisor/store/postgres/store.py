"""The store on PostgreSQL: any number of processes on any number of machines share it.

One connection writes, another reads, and a third one, in a thread, says that this process lives (owners.py).

Theory: the row of `store` is the lock of the writers. It is held from `begin` to `commit`, so positions become visible
in their order, and no reader can miss one. What a transaction writes is gathered, and sent in one piece with its
COMMIT; if the connection breaks, the server is asked what became of the transaction, and one that was not committed is
sent again, provided that no other process has committed meanwhile.
A loop (`attend`) whose last ALONE commits had no other one between them begins a transaction without the server: its
plans run on what it knows, and the lock is taken in the piece that commits. The statement that numbers the commit fails
there if another process has committed since, or has declared this one dead. Then the plans run again, under the lock.
(It has more than 400 lines: it is one class, whose methods are those of Store.)

Rules
- No method waits for a lock. A server that is away makes `begin` return False, so that writers wait; a read waits
  RIDE_SECONDS for it. From `attend` on a loop must not be held: a read that the server does not answer is given up
  (pulse.py), and `commit` alone waits: the loop waits for the answer to what `send` has sent, and calls it then.
- What a transaction reads of its own, it reads under the lock. What its plans read otherwise is the present only if
  nothing was committed meanwhile: so a transaction that wrote nothing asks for that, too (`end_reading`).
- Every error leaves through `faults`. After StoreDied this object begins no further transaction.
"""

import gc
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from platformdirs import user_state_path

from supervisor.core.errors import IllegalEvent, StoreDied, StoreError, StoreRefused, StoreUnreadable
from supervisor.core.events import SessionCreated
from supervisor.core.ids import STORE_JOURNALS
from supervisor.core.rows import JournalEntry, Owner, RunnableSession
from supervisor.core.text.words import as_needles
from supervisor.seam.store import Overtaken, StoreAway
from supervisor.store.index import columns
from supervisor.store.index.entries import Index
from supervisor.store.index.prefixes import SharedPrefixes
from supervisor.store.index.reads import IndexReads, Test, as_json
from supervisor.store.postgres import faults, schema
from supervisor.store.postgres.books import LinesOfBook
from supervisor.store.postgres.owners import Heart, OwnedTrees
from supervisor.store.postgres.pieces import Statement
from supervisor.store.postgres.pulse import PATIENCE_SECONDS, Pulse
from supervisor.store.postgres.schema import QUERIES
from supervisor.store.postgres.server import Address, Connection, Line, is_lost
from supervisor.system.forks import THIS_PROCESS, inherited
from supervisor.system.logs import FactLog

R = TypeVar("R")

_REMOVAL: Final = ("remove_approvals", "remove_events", "remove_spent", "remove_sessions")
RIDE_SECONDS: Final = 10.0
"""Seconds for which a transaction or a read waits for a server that is away."""
_SKEWED: Final = timedelta(seconds=0.1)
"""By how much two clocks must differ: less is as much as measuring errs."""
_TRUSTED: Final = timedelta(seconds=0.1)
"""An answer that took longer says too little about the instant."""
ALONE: Final = 8
"""So many commits of this process in a row, and it expects no other process to be faster. Each time that one is, the
server logs an error."""
KEPT: Final = 10_000
"""Commits that can still be asked for."""

log = FactLog(__name__)


class PostgresStore(IndexReads):
    """See Store. `create=False`: `open` raises NotFound if there is no store in the database."""

    is_durable = is_shared = True
    mark = "$"
    stopped_seconds: float = 10.0
    """Seconds after which a writer that sends no more of its transaction loses the lock."""

    coming_seconds: float = 3.0
    """Seconds for which `open` waits for a server that is restarted."""

    moment_seconds: float = StoreAway.moment_seconds
    """See StoreAway."""

    gone_seconds: float = 120.0
    """Seconds after which a server that is away counts as gone."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._address = Address(url)
        self._process = THIS_PROCESS.pid
        self._busy_since: float | None = None
        self._was_away = False
        self.tell: Callable[[str], object] = _log_away
        """Says once that the server is away."""
        self.name = self._address.name
        self.unreadable: dict[str, str] = {}
        self._create = create
        self._writer = Line(self._address, "writer", self._come_in, self._give_up_writing)
        self._reader = Line(self._address, "reader", self._come_in, self._give_up)
        self._pulse: Pulse | None = None
        self._hint: tuple[int, bool, float] | None = None
        """What was looked at last: the last position, whether this process lives, and when the server was asked."""
        self._seen_at = 0.0
        self._is_planning = self._is_committing = False
        """Whether plans of a transaction run, and whether it is committed."""
        self._died: StoreError | None = None
        self._is_open = self._in_transaction = False
        self._is_locked = self._has_begun = False
        """Whether this transaction has the lock, and knows the present; and whether it has begun on the server."""
        self._sent_over: Connection | None = None
        """The connection over which the piece that commits was sent."""
        self._alone = 0
        """The commits of this process since the last one of another process that it knows of."""
        self._instant: int | None = None
        self.generation = -1
        self._commits = self._base = self._seen = self._last = self._written = 0
        self._sign: str | None = None
        """The token of the last commit, whose number is `_commits`."""
        self._token, self._backend = "", 0
        self._skew = timedelta()
        self._operations: list[tuple[str, Sequence[Any]]] = []
        self._sent = 0
        self._index = Index(self._read, self._change)
        self._trees = OwnedTrees(self.name, self._read, self._change, self._make_heart)

    def __repr__(self) -> str:
        return f"<PostgresStore {self.name} {'dead' if self._died else 'open' if self._is_open else 'closed'}>"

    def _make_heart(self, owner: str, presence: int) -> Heart:
        return Heart(self._address, owner, presence, QUERIES["beat"])

    def _come_in(self, connection: Connection) -> None:
        """Raises StoreUnreadable if the store was upgraded or replaced since it was opened."""
        is_first = not self._is_open
        found = schema.come_in(connection, self._address.schema, self.name, create=self._create and is_first)
        if not is_first and found != self.id:
            raise StoreUnreadable(f"{self.name} is another store than the one that was opened. Start the program again")
        self.id = found

    def open(self) -> None:
        is_inherited = self._process != THIS_PROCESS.pid
        if self._is_open and self._died is None and not is_inherited:  # a daemon opens it to have its secret
            return
        self._process = THIS_PROCESS.pid
        if (fault := self._connect()) is not None:
            raise fault  # alone: psycopg's error has the password in an attribute
        self._is_open, self._in_transaction, self._died = True, False, None
        self.generation = self._commits = -1
        self._alone = 0
        self._prefixes = SharedPrefixes(self._read, self._change)
        self.local = str(user_state_path("subagent-supervisor", appauthor=False) / "stores" / self.id)
        self._last = self._seen = self.last_position()
        self._hint = None
        self.has_changed()

    def _connect(self) -> StoreError | None:
        until = time.monotonic() + self.coming_seconds
        while True:
            try:
                self._reader.open()
                self._writer.open()
                return None
            except psycopg.Error as error:
                self.close()
                if not faults.may_come(error) or time.monotonic() > until:
                    return faults.explain_opening(error, self.name)
            except BaseException:
                self.close()
                raise
            time.sleep(0.1)

    def close(self) -> None:
        if THIS_PROCESS.pid != self._process:  # the connections are those of the other process
            return
        is_away = self._is_away()
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None
        former = self._trees.release()
        if former is not None and not is_away and (connection := self._reader.get()) is not None:
            with suppress(psycopg.Error):  # others find out by the lease
                connection.execute(QUERIES["bury"], [former])
                connection.execute(QUERIES["clear_owners"], [""])
        self._writer.close()
        self._reader.close()
        self._is_open = self._in_transaction = False

    def _refuse_copy(self) -> None:
        if THIS_PROCESS.pid != self._process:
            raise inherited(self.name)

    def begin(self) -> bool:
        if self._died is not None:
            raise StoreDied(str(self._died))
        if not self._is_open:
            raise faults.closed(self.name)
        self._refuse_copy()
        if (why := self._trees.what_happened()) is not None:
            raise self._die(why)
        connection = self._writer.get()
        if connection is None:
            self._check(self._writer)
            if self._writer.down_for() > self.gone_seconds:
                raise self._die(faults.gone(self.name, self.gone_seconds))
            return False
        self._operations, self._sent, self._written, self._token = [], 0, 0, secrets.token_hex(8)
        self._is_locked = self._has_begun = False
        self._sent_over = None
        self._backend = connection.info.backend_pid
        try:
            goes_ahead = self._pulse is not None and self._alone >= ALONE
            self._in_transaction = self._is_planning = goes_ahead or self._lock(connection)
            self._base = self._commits  # what the transaction is built on: not changed before the next `begin`
            return self._in_transaction
        except psycopg.Error as error:
            if is_lost(error, connection):
                return False
            raise self._fault(error) from error

    def _lock(self, connection: Connection) -> bool:
        """Begin a transaction, and take the lock; return whether it was free."""
        begin, lock, present = QUERIES["begin"], QUERIES["lock"], QUERIES["present"]
        _, found, ((commits, sign, lives),) = self._writer.send(
            connection, [(begin, ()), (lock, ()), (present, (self._trees.fenced,))]
        )
        if not found:
            connection.execute("ROLLBACK")
            self._free_lock(connection)
            return False
        self._busy_since = None
        ((last, format_),) = found
        self._in_transaction = self._has_begun = self._is_locked = True
        why = self._trees.declared_dead() if not lives else self._what_was_lost(last)
        if why is None and commits == self._commits and sign != self._sign:
            why = faults.lost_commits(self.name, f"commit {commits} was this process's, and is another one's")
        if why is not None:
            self.rollback()
            raise self._die(why)
        if format_ != schema.newest():
            self.rollback()
            raise StoreUnreadable(f"{self.name} was upgraded by a newer program; restart with that program")
        if commits != self._commits:
            self._index.forget()
            self._last, self._commits, self._sign = last, commits, sign
            self.generation += 1
            self._alone = 0
        return True

    def _free_lock(self, connection: Connection) -> None:
        """Free the lock if its holder was stopped within a transaction. The server ends one that is idle between two
        statements (idle_in_transaction_session_timeout), but not one that has sent a part of a pipeline."""
        now = time.monotonic()
        self._busy_since = self._busy_since or now
        if now - self._busy_since > 1.0:
            self._busy_since = now
            connection.execute(QUERIES["free"], [self.stopped_seconds])

    def _what_was_lost(self, last: int) -> StoreDied | None:
        self._seen, former = max(self._seen, last), self._seen
        self._seen_at = time.monotonic()
        if last >= former:
            return None
        return faults.lost_commits(self.name, f"its last position was {former} and is {last}")

    def write(self, rows: Sequence[JournalEntry]) -> None:
        if not self._in_transaction:
            raise self._died or StoreRefused(f"{self.name}: a part of the transaction was refused, and so all of it is")
        draft = self._index.draft(rows)
        numbers = {entry.id: entry.created for entry in draft.sessions.values()}
        begun = [row.session for row in rows if isinstance(row.event, SessionCreated)]
        if journals := STORE_JOURNALS.intersection(row.session for row in rows):
            numbers |= self._numbers(list(journals))
        if begun and (twice := self._numbers(begun)):
            raise IllegalEvent(f"the store already has session {next(iter(twice))}")
        last = self._written or self._last
        entries = []
        for row in rows:
            if row.position <= last:
                raise IllegalEvent(f"position {row.position} is taken: read what is new before writing")
            last = row.position
            is_created = isinstance(row.event, SessionCreated)
            if is_created and row.session in numbers:
                raise IllegalEvent(f"the store already has session {row.session}")
            is_first = is_created or (row.session in STORE_JOURNALS and row.session not in numbers)
            if is_first:
                numbers[row.session] = last
            elif row.session not in numbers:
                raise IllegalEvent(f"session {row.session} has no beginning")
            entries.append((last, numbers[row.session], row.session if is_first else None, *self._prefixes.cut(row)))
            draft.take(row)
        if entries:
            self._change("append", entries)
        self._index.put(draft)
        self._written, self._is_planning = last, False

    def send(self) -> Iterator[int]:
        if (connection := self._writer.get()) is None:
            raise BlockingIOError
        try:
            self._begin_commit(connection)
            yield from self._writer.pieces(connection).waits()
        except psycopg.Error:
            raise BlockingIOError from None  # `commit` finds out what became of it

    def commit(self) -> None:
        self._is_committing = True
        try:
            self._commit()
        finally:
            self._is_committing = False

    def _commit(self) -> None:
        try:
            connection = self._sent_over or self._writer.get()
            try:
                if connection is None:
                    raise psycopg.OperationalError("the connection is lost")
                if self._sent_over is None:
                    self._begin_commit(connection)
                self._writer.pieces(connection).finish()
            except psycopg.Error as error:
                if not is_lost(error, connection):
                    raise
                self._settle()
        except psycopg.Error as error:
            fault, is_locked = faults.explain(error, self.name), self._is_locked
            self.rollback()
            if not is_locked:  # the reason may be the commit of another process
                raise self._overtaken() from error
            raise self._noted(fault) from error
        except StoreError as fault:
            self.rollback()
            raise self._noted(fault) from None
        self._in_transaction = False
        self._commits, self._sign = self._base + 1, self._token  # the next `begin` sees what others commit
        self._alone += 1
        self._prefixes.commit()
        self._index.commit()
        self._last = self._seen = max(self._last, self._written)
        self._seen_at = time.monotonic()
        self._trees.commit()

    def _begin_commit(self, connection: Connection) -> None:
        """Send all that is left of the transaction, in one piece with its COMMIT."""
        begin = [] if self._has_begun else [(QUERIES["begin"], ()), (QUERIES["lock_now"], ())]
        known = self._base, self._sign, self._trees.fenced
        end = [(QUERIES["move"], (self._written, self._token, *known)), ("COMMIT", ())]
        if self._base % KEPT == 0:
            end.insert(0, (QUERIES["clear_signs"], (self._base - KEPT,)))
        self._writer.pieces(connection).begin([*begin, *self._gathered(), *end])
        self._sent_over, self._has_begun, self._sent = connection, True, len(self._operations)

    def _overtaken(self) -> Overtaken:
        self._alone = 0
        return Overtaken(f"another process has committed to {self.name}; nothing of the transaction was written")

    def end_reading(self) -> None:
        if self._in_transaction and not self._is_locked:
            try:
                present = self._read("present", self._trees.fenced)
            except StoreRefused:  # it does not answer: the plans run again when it does
                present = []
            if present != [(self._base, self._sign, True)]:
                raise self._overtaken()
        self.rollback()

    def _settle(self) -> None:
        """The connection broke while a transaction was committed: find out what became of it, and commit it if it was
        not. Raises StoreRefused if it was not committed, StoreDied if that cannot be found out."""
        until, is_known = time.monotonic() + min(RIDE_SECONDS, self.gone_seconds), False
        while time.monotonic() < until:
            try:
                connection = self._resume(until)
                is_known = True  # it is sent again below: after that, another commit is in doubt
                if connection is None:
                    return
                is_known = False
                self._begin_commit(connection)
                self._writer.pieces(connection).finish()
                return
            except psycopg.Error as error:
                if not is_lost(error, self._writer.get()):
                    raise
        if is_known:
            raise faults.away(self.name, self.moment_seconds)
        raise StoreDied(
            f"{self.name} went away during a commit; whether it was written is not known. Start the program again: it "
            "goes on from what is there"
        )

    def _resume(self, until: float) -> Connection | None:
        """Begin a transaction again whose connection broke, over another connection. Return None if it was committed.
        Raises StoreRefused if another process has committed instead, and psycopg.Error if the server is away."""
        while time.monotonic() < until:
            connection = self._writer.get(wait=max(0.0, until - time.monotonic()))
            if connection is None:
                continue
            try:
                commits = self._base
                if not self._lock(connection):
                    connection.execute(  # the server has not noticed yet that the former connection is broken
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND usename = "
                        "current_user AND application_name LIKE 'supervisor writer%'", [self._backend])  # fmt: skip
                    time.sleep(0.01)
                    continue
                if self._commits != commits:
                    signed = connection.execute(QUERIES["signed"], [commits + 1]).fetchone()
                    connection.execute("ROLLBACK")
                    if signed == (self._token,):
                        self._commits = commits  # `commit` counts it
                        return None
                    self._in_transaction = (
                        False  # a plan that is refused must not let the others of its batch be written
                    )
                    raise Overtaken(f"{self.name} broke a transaction, and another process was faster; nothing of it "
                                       "was written")  # fmt: skip
                self._sent, self._sent_over = 0, None
                return connection
            except psycopg.Error as error:
                if not is_lost(error, connection):
                    raise
        raise psycopg.OperationalError("the server is away")

    def _gathered(self) -> list[Statement]:
        """Return the statements that were not sent yet."""
        return [(QUERIES[query], row) for query, rows in self._operations[self._sent :] for row in rows]

    def rollback(self) -> None:
        self._is_planning = False
        self._prefixes.rollback()
        self._index.rollback()
        self._trees.rollback()
        if not self._in_transaction:
            return
        self._in_transaction = False
        connection = self._writer.get()
        if connection is not None and self._has_begun:
            try:
                connection.execute("ROLLBACK")
            except psycopg.Error:
                self._writer.drop()  # the server rolls back what it has

    @contextmanager
    def one_instant(self) -> Iterator[None]:
        self._instant = self._ask(_begin_instant)
        try:
            yield
        finally:
            self._instant = None
            with suppress(psycopg.Error):
                if (connection := self._reader.get()) is not None:
                    connection.execute("COMMIT")

    def journal(
        self, session: str, after: int = 0, limit: int | None = None, only: Collection[str] | None = None
    ) -> list[JournalEntry]:
        convert = partial(columns.journal_row, session)
        if only is None:
            return self._read_as(convert, "journal", session, after, limit=limit)
        found = self._read_as(convert, "journal_of", session, after, as_json(only))
        return [row for row in found if type(row.event).__name__ in only][:limit]

    def has_changed(self) -> bool:
        if (why := self._trees.what_happened()) is not None:
            raise self._die(why)
        self._look_at_absence()
        if self._pulse is None:
            if self._is_open and self._reader.get() is None:
                self._check(self._reader)
                return False  # it is only asked again
            asked = datetime.now(UTC)
            try:
                self._learn(self._read("look", self._trees.fenced)[0], asked)
            except StoreRefused:
                return False
        elif self._reader.get() is None:
            self._check(self._reader)
        if self._hint is None:
            return False
        last, lives, asked_at = self._hint
        if not lives and self._trees.fenced is not None:
            raise self._die(self._trees.declared_dead())
        if asked_at > self._seen_at and (why := self._what_was_lost(last)) is not None:
            raise self._die(why)
        known, self._last = self._last, max(self._last, last)
        if last > known:
            self._alone = 0
        return bool(last > known)

    def _look_at_absence(self) -> None:
        """Say once that the server is away, and for how long it is waited for. Raises StoreDied after that."""
        if (away := 0.0 if self._pulse is None else self._pulse.away_for()) > self.gone_seconds:
            raise self._die(faults.gone(self.name, self.gone_seconds))
        if away and not self._was_away:
            self.tell(f"{self.name} does not answer. Waiting for it, for up to {self.gone_seconds:g} s")
        self._was_away = bool(away)

    def attend(self) -> None:
        if self._pulse is None:
            self._pulse = Pulse(self._address, QUERIES["look"], lambda: self._trees.fenced, self._learn)

    def _learn(self, found: tuple[Any, ...], asked: datetime) -> None:
        """Take what `look` has read. The thread of the pulse calls this, too."""
        last, lives, instant = found
        self._set_clock(asked, columns.from_micros(instant))
        ago = (datetime.now(UTC) - asked).total_seconds()
        self._hint = last, lives, time.monotonic() - ago

    def _give_up(self, waited: float) -> bool:
        return self._pulse is not None and self._pulse.give_up(waited)

    def _give_up_writing(self, waited: float) -> bool:
        return not self._is_committing and self._give_up(waited)

    def _is_away(self) -> bool:
        return self._pulse is not None and self._pulse.is_away

    def _away(self) -> StoreRefused:
        """Return the error for a read that was not answered. A plan runs again when the server is back."""
        if self._is_planning:
            return Overtaken(f"{self.name} does not answer, and a transaction is begun again")
        return faults.away(self.name, self.moment_seconds)

    def _patience(self) -> float:
        """Return for how long a read waits for a connection."""
        return RIDE_SECONDS if self._pulse is None else PATIENCE_SECONDS

    def skew(self) -> timedelta:
        return self._skew

    def _set_clock(self, before: datetime, instant: datetime) -> None:
        """Compare the clock of this machine with an instant of the server, for which it was asked since `before`."""
        trip = datetime.now(UTC) - before
        found = instant - before - trip / 2
        if trip < _TRUSTED and abs(found - self._skew) > _SKEWED:
            self._skew = found if abs(found) > _SKEWED else timedelta()

    def _searched(self, words: Sequence[str]) -> tuple[str, str, list[Test]]:
        return "approval_full AS a", "a.asked", [("strpos(a.words, {}) > 0", needle) for needle in as_needles(words)]

    def remove(self, root: str) -> None:
        self._index.forget()
        self._trees.remove(root)
        number = self._numbers([root]).get(root)
        for query in _REMOVAL:
            self._change(query, [(number,)])
        self._change("remove_tree", [(root,)])

    def claim(self, root: str) -> Owner | None:
        return self._trees.claim([root]).get(root)

    def claim_all(self, roots: Sequence[str]) -> dict[str, Owner]:
        return self._trees.claim(roots)

    def find_open(self, *, after: int, limit: int) -> list[RunnableSession]:
        return [columns.runnable(row) for row in self._read("sessions_open", after, limit)]

    def find_open_in(self, roots: Sequence[str]) -> list[RunnableSession]:
        return [columns.runnable(row) for row in self._read("sessions_open_in", as_json(roots))]

    def get_owner(self, root: str) -> Owner | None:
        return self._trees.owner_of(root)

    def get_owners(self, roots: Sequence[str]) -> dict[str, Owner]:
        return self._trees.owners_of(roots)

    def owners(self) -> list[Owner]:
        return self._trees.owners()

    def owns(self, root: str) -> bool:
        return self._trees.owns(root)

    def secret(self) -> bytes:
        def ask(connection: Connection) -> list[Any]:
            connection.execute(QUERIES["make_secret"], (secrets.token_bytes(32),))
            return connection.execute(QUERIES["secret"]).fetchall()

        return bytes(self._ask(ask)[0][0])

    def book(self, name: str) -> LinesOfBook:
        return LinesOfBook(name, self._address, self._ask)

    def take_place(self, limit: str, at_once: int) -> int | None:
        if (owner := self._trees.fenced) is None:
            return 0  # this process runs no tree, and so nothing that has a limit

        def take(connection: Connection) -> list[Any]:
            with connection.pipeline():
                connection.execute("BEGIN")
                connection.execute(QUERIES["place_lock"], (self._address.schema,))
                found = connection.execute(QUERIES["take_place"], (limit, at_once, owner))
                connection.execute("COMMIT")
            return found.fetchall()

        return next((number for (number,) in self._ask(take)), None)

    def give_place_back(self, limit: str, place: int) -> None:
        if (owner := self._trees.fenced) is not None:
            self._ask(lambda connection: connection.execute(QUERIES["give_place_back"], (limit, place, owner)).rowcount)

    def _numbers(self, sessions: Sequence[str]) -> dict[str, int]:
        return dict(self._read("numbers", as_json(sessions), writing=True))

    def _check(self, line: Line) -> None:
        """Raise StoreDied if the server that answers now keeps no store, or another one than before."""
        if self._is_open and line.refused is not None:
            raise self._die(StoreDied(str(line.refused)))

    def _die(self, why: StoreDied) -> StoreDied:
        self._died = why
        return why

    def _noted(self, fault: StoreError) -> StoreError:
        if isinstance(fault, StoreDied):
            self._died = fault
        return fault

    def _fault(self, error: psycopg.Error) -> StoreError:
        return self._noted(faults.explain(error, self.name))

    def _read(self, query: str, *parameters: Any, writing: bool = False) -> list[Any]:
        if writing:
            return self._read_in_transaction(query, parameters)
        return self._ask(lambda connection: self._reader.send(connection, [(QUERIES[query], parameters)])[-1])

    def _ask(self, work: Callable[[Connection], R]) -> R:
        """Read; if the connection breaks, again over another one."""
        if not self._is_open and self._reader.get() is None:
            raise faults.closed(self.name)
        self._refuse_copy()
        until, is_again = time.monotonic() + self._patience(), False
        while not self._is_away():
            if (connection := self._reader.get(wait=max(0.0, until - time.monotonic()))) is None:
                break
            try:
                if is_again and self._instant is not None and _begin_instant(connection) != self._instant:
                    raise faults.away(self.name, self.moment_seconds)  # the instant of the other reads is over
                return work(connection)
            except psycopg.Error as error:
                if not is_lost(error, connection):
                    raise faults.explain_reading(error, self.name) from error
                is_again = True
            except (UnicodeEncodeError, OverflowError) as error:
                raise faults.misused(error, self.name) from error
        self._check(self._reader)
        raise self._away() if self._died is None else StoreDied(str(self._died))

    def _read_in_transaction(self, query: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Read what the transaction has written so far. A connection that breaks here has committed nothing."""
        connection = self._writer.get()
        try:
            if connection is None:
                raise psycopg.OperationalError("the connection is lost")
            if not self._is_locked and not (self._lock(connection) and self._commits == self._base):
                self.rollback()
                raise self._overtaken()
            found = self._writer.send(connection, [*self._gathered(), (QUERIES[query], parameters)])[-1]
            self._sent = len(self._operations)
            return found
        except psycopg.Error as error:
            if is_lost(error, connection):
                self._in_transaction = False  # a plan that is refused must not let the others of its batch be written
                raise Overtaken(f"{self.name} broke a transaction, and it is begun again") from error
            if isinstance(error, psycopg.IntegrityError):
                raise IllegalEvent(f"the store already has this: {error}") from error
            raise self._fault(error) from error

    def _read_as(
        self,
        convert: Callable[[SharedPrefixes, columns.Columns], R],
        query: str,
        *parameters: Any,
        limit: int | None = None,
    ) -> list[R]:
        query = QUERIES.get(query, query)  # a search is made for its tests, and has no name
        if limit is not None:
            query, parameters = f"{query} LIMIT ${len(parameters) + 1}", (*parameters, limit)

        def read(connection: Connection) -> list[R]:
            found = self._reader.send(connection, [(query, parameters)])[-1]
            return list(map(partial(convert, self._prefixes), found))

        is_collecting = gc.isenabled()
        gc.disable()
        try:
            return self._ask(read)
        finally:
            if is_collecting:
                gc.enable()

    def _change(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Gather a change; it is sent before the next read of the transaction, or with its COMMIT."""
        self._operations.append((query, rows))


def _log_away(what: str) -> None:
    log.warning("store.away", reason=what)


def _begin_instant(connection: Connection) -> int:
    """Let all reads see the present until COMMIT. Return its number: no other present has the same one."""
    with connection.pipeline():
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = connection.execute("SELECT commits FROM store")
    (commits,) = found.fetchone() or (0,)
    return int(commits)
