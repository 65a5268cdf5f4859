"""The interface of a store, and what a store promises."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Protocol

from supervisor.core.errors import StoreRefused
from supervisor.core.rows import ApprovalFilter, Continued, Counts, JournalEntry, Owner, RunnableSession, SessionRow
from supervisor.core.values import Approval


class Overtaken(StoreRefused):
    """Nothing of a transaction was written, since another process has committed meanwhile. The journal runs the plans
    again, on what is there now; no caller of the journal is told."""


class StoreAway(StoreRefused):
    """The server of a store does not answer now. Nothing is lost, and what was refused may be tried again soon."""

    moment_seconds: float = 1.0
    """For how long a person waits for it before they are told."""


class Book(Protocol):
    """Lines that all processes of a store share, and that are no entries of a journal."""

    def read(self, after: int) -> list[tuple[int, bytes]]:
        """Return the lines after a number, each with its number, whichever process added them. Raises StoreError."""

    def add(self, lines: Sequence[bytes]) -> None:
        """Add lines; they are on disk when this returns. May be called in a worker thread. Raises StoreError."""

    def note(self, lines: Sequence[bytes]) -> None:
        """Add lines at once, without a sync: a crash of the server may lose them. Raises StoreError."""

    def remove(self, lines: Collection[bytes]) -> None:
        """Remove lines. Raises StoreError."""


class Store(ABC):
    """Keeps journals, and the index of sessions and approvals that is derived from them.

    - One thread at a time calls a store. Only `commit` may be called in another thread than the event loop's.
    - `begin` to `commit` is one transaction: when `commit` returns, all of it is on disk, or none of it.
    - Reads return committed data of any process. Any number of processes may share a store.
    - `open` refuses a file that it cannot read (StoreUnreadable) and leaves it untouched (A5).
    - If the process dies between any two calls, the next `open` finds the last commit.
    """

    name: str
    """Where the store is, for messages to people."""
    id: str
    """10 lower-case letters and digits, made with the store. Its cursors begin with them. Set by `open`."""
    is_shared: bool = False
    """Whether processes on several machines may have it open."""
    is_durable: bool
    """Whether another process, or a later one, can answer the approvals of this one (A6)."""
    local: str | None = None
    """The path that begins the names of the files that the store has on this machine; None if it has none."""
    generation: int
    """Set by `begin`. It changes if another process has committed since the transaction before."""
    unreadable: Mapping[str, str]
    """By session, why `rows` left out an entry that it cannot read. `journal` refuses these sessions and no others."""

    @abstractmethod
    def open(self) -> None:
        """Open or create the store. Raises StoreUnreadable."""

    @abstractmethod
    def close(self) -> None:
        """Close the store, and release the owner's lock. Idempotent."""

    @abstractmethod
    def begin(self) -> bool:
        """Begin a transaction. Return False at once while another process is in a transaction."""

    @abstractmethod
    def write(self, rows: Sequence[JournalEntry]) -> None:
        """Add entries in order, and update the index. Raises StoreRefused, Overtaken; the caller then calls `rollback`.

        The first entry of a session is its only SessionCreated. The journals of the store itself (STORE_JOURNALS)
        have none.
        """

    def send(self) -> Iterator[int]:
        """Begin to commit, and wait for nothing: yield a descriptor each time that the caller has to wait until it is
        readable. Then `commit` returns without a wait. Raises BlockingIOError if only `commit` can go on, and may take
        long: the caller runs it in a thread."""
        raise BlockingIOError

    @abstractmethod
    def commit(self) -> None:
        """Sync to disk. Raises StoreRefused if nothing was written, Overtaken if the plans may run again at once,
        StoreDied if it is not known whether it was written."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo the transaction. Idempotent."""

    def end_reading(self) -> None:
        """End a transaction that has written nothing. Raises Overtaken if its plans may not have seen the present."""
        self.rollback()

    @property
    def jobs_folder(self) -> str | None:
        """The folder for logs of background jobs, made when it is needed; None if the store is in memory."""
        return None if self.local is None else f"{self.local}.jobs"

    def secret(self) -> bytes | None:
        """Return the secret that signs logins, the same for all processes of the store; None if it has none itself, and
        it is in a file next to it."""
        return None

    def book(self, name: str) -> Book | None:
        """Return a book of the store; None if it has none itself, and the lines are in a file next to it."""
        return None

    def attend(self) -> None:  # noqa: B027 # most stores answer at once
        """From now on a loop calls this store, and none of its reads may hold the loop: raise StoreAway instead. Only
        `commit` may wait. Idempotent."""

    def skew(self) -> timedelta:
        """Return by how much the store's clock is ahead of this machine's; nothing for one of one machine. Cheap."""
        return timedelta()

    def take_place(self, limit: str, at_once: int) -> int | None:
        """Take one of the places of a limit that all processes of the store share, and return its number; None if
        others have all. It ends with this process. A store of one process gives each: the caller counts its own.
        Raises StoreError, OSError."""
        return 0

    def give_place_back(self, limit: str, place: int) -> None:  # noqa: B027 # a store of one process keeps none
        """Give a place back. Idempotent."""

    def wants_checkpoint(self) -> bool:
        """Whether enough was written to make a `checkpoint` worthwhile. Cheap: callers ask after every commit."""
        return False

    def checkpoint(self) -> None:  # noqa: B027 # most stores have no log to bound
        """Bound the store's log. One worker thread at a time may call this, during any other call except `close`."""

    def one_instant(self) -> AbstractContextManager[None]:
        """Let all reads inside the context see one instant, although other processes commit meanwhile. The caller
        awaits nothing inside, and does not enter it twice."""
        return nullcontext()

    @abstractmethod
    def rows(self, after: int, to: int | None = None, only: Collection[str] | None = None) -> list[JournalEntry]:
        """Return all entries after a position, up to another, in order. Entries in `unreadable` are left out. `only`:
        the names of the events that are meant; the others cost little, and are not decoded."""

    @abstractmethod
    def journal(
        self, session: str, after: int = 0, limit: int | None = None, only: Collection[str] | None = None
    ) -> list[JournalEntry]:
        """Return a session's entries after a position, in order, `limit` at most. `only`: as in `rows`.

        Raises StoreUnreadable if one of them cannot be read.
        """

    @abstractmethod
    def last_position(self) -> int:
        """Return the position of the last entry, 0 in an empty store."""

    @abstractmethod
    def has_changed(self) -> bool:
        """Whether another process has committed since the last call. Cheap: callers ask several times a second.

        Raises StoreDied if the store was moved or replaced since it was opened.
        """

    @abstractmethod
    def get_session(self, session: str) -> SessionRow | None:
        """Return the index row of a session; None if the session does not exist."""

    @abstractmethod
    def get_sessions(self, sessions: Collection[str]) -> list[SessionRow]:
        """Return those of these sessions that there are, by one query."""

    @abstractmethod
    def latest_run(self, session: str) -> tuple[int, JournalEntry | None] | None:
        """Return the number of a session's latest run, and the entry that ended it, None while it is open; None if the
        session does not exist. Cheap: it reads at most one body. Raises StoreUnreadable if it cannot read that."""

    @abstractmethod
    def find_sessions(
        self,
        *,
        root: str | None = None,
        is_open: bool | None = None,
        is_awake: bool | None = None,
        after: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[SessionRow]:
        """Return sessions after a position, parents before children. `is_awake`: open ones that are not passivated.

        `newest_first`: in the other order, those before the position `after`, or all.
        """

    @abstractmethod
    def find_continued(self, root: str, after: int, start: int, limit: int) -> list[Continued]:
        """Return the sessions of a tree that began after the position `start` and up to `after`, `limit` at most, and
        where the journal of each goes on after `after`. Cheap: it reads no bodies."""

    @abstractmethod
    def next_due(self) -> list[tuple[str, datetime]]:
        """Return the passivated sessions that a timer will wake, and when, earliest first."""

    @abstractmethod
    def find_asking(self, approval: str) -> tuple[str, str] | None:
        """Return the session and the operation of an approval; None if it does not exist. Cheap: it reads no bodies."""

    @abstractmethod
    def get_approval(self, approval: str) -> Approval | None:
        """Return an approval in any state; None if it does not exist."""

    @abstractmethod
    def find_approvals(
        self,
        *,
        pending: bool = True,
        root: str | None = None,
        session: str | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[Approval]:
        """Return approvals after a position, oldest first, at most `limit`."""

    @abstractmethod
    def search_approvals(
        self, only: ApprovalFilter, *, root: str | None = None, after: int | None = None, limit: int | None = None
    ) -> list[Approval]:
        """Return the approvals that a filter has, at most `limit`, after a position; with `newest_first` before it, in
        the other order. Cheap: it reads only what it finds."""

    @abstractmethod
    def find_asked_in(self, roots: Sequence[str], after: int, limit: int) -> list[Approval]:
        """Return what is pending in some trees, one tree after the other, the oldest of a tree first, by one query.
        `after`: the position after which those of the first tree begin."""

    @abstractmethod
    def find_blocked_in(self, roots: Sequence[str], after: int, limit: int) -> list[SessionRow]:
        """Return the open sessions of some trees that are blocked, in the same way."""

    @abstractmethod
    def find_shown(self) -> list[Approval]:
        """Return decided and withdrawn approvals that a card may still show as pending (R3)."""

    @abstractmethod
    def counts(self) -> Counts:
        """Return the numbers of sessions and approvals. Cheap: it reads no bodies."""

    @abstractmethod
    def measure(self, root: str) -> tuple[int, int]:
        """Return the number of entries of a tree, and their size in bytes."""

    @abstractmethod
    def remove(self, root: str) -> None:
        """Within a transaction: remove a tree, its journals and its approvals. The caller checks that it may be
        removed. Its positions are not used again, so that cursors of other processes stay valid."""

    def compact(self) -> None:  # noqa: B027 # most stores have no space to give back
        """Give unused space back to the disk, if there is enough of it. May be called in a worker thread.

        Raises StoreRefused; then nothing has changed.
        """

    @abstractmethod
    def claim(self, root: str) -> Owner | None:
        """Within a transaction: own a tree, or return the living process that owns it. A dead owner is replaced."""

    def claim_all(self, roots: Sequence[str]) -> dict[str, Owner]:
        """Within a transaction: own those of these trees that no other process owns; return the owners of the others. A
        store on another machine does it by one query."""
        return {root: owner for root in roots if (owner := self.claim(root)) is not None}

    def find_open(self, *, after: int, limit: int) -> Sequence[RunnableSession]:
        """Return open sessions after a position, at most `limit`, parents before children. A store on another machine
        reads only what it returns."""
        return self.find_sessions(is_open=True, after=after, limit=limit)

    def find_open_in(self, roots: Sequence[str]) -> Sequence[RunnableSession]:
        """Return the open sessions of some trees, parents before children. A store on another machine does it by one
        query."""
        return [row for root in roots for row in self.find_sessions(root=root, is_open=True)]

    @abstractmethod
    def get_owner(self, root: str) -> Owner | None:
        """Return the living owner of a tree, this process included."""

    @abstractmethod
    def get_owners(self, roots: Sequence[str]) -> dict[str, Owner]:
        """Return the living owners of those of these trees that have one, by one query."""

    @abstractmethod
    def owners(self) -> list[Owner]:
        """Return the living processes that have owned trees, this one included. Cheap: callers ask every second."""

    @abstractmethod
    def owns(self, root: str) -> bool:
        """Whether this process owns the tree."""
