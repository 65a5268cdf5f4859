"""The seam below: what a store promises. The other seams are in abc.py, which offers this one, too."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

from supervisor.core.rows import Counts, JournalEntry, Owner, SessionRow
from supervisor.core.values import Approval


class Store(ABC):
    """What is remembered: journals, and the index of sessions and approvals that follows from them.

    - Called from one thread at a time; only `commit` may be called from another thread than the event loop's.
    - `begin` to `commit` is one transaction: all of it is on disk when `commit` returns, or none is.
    - What is read is committed, whoever committed it; any number of processes may share a store.
    - `open` refuses what it cannot read (StoreUnreadable) and leaves it untouched (A5).
    - If the process dies between any two calls, the next `open` finds the last commit.
    """

    name: str
    """For messages to people: where it is."""
    id: str
    """10 lower-case letters and digits, made with the store: its cursors begin with them. Known once it is open."""
    is_durable: bool
    """Whether another process, or a later one, could answer what is asked here (A6)."""
    jobs_folder: str | None = None
    """Where logs of background jobs may lie, made when it is needed; None if the store is nowhere."""
    generation: int
    """As of the last `begin`: it is another one if anybody else has committed since the transaction before."""
    unreadable: Mapping[str, str]
    """Sessions of which `rows` left out an entry that it cannot read, and why; `journal` refuses them and no others."""

    @abstractmethod
    def open(self) -> None:
        """Open or create. Raises StoreUnreadable."""

    @abstractmethod
    def close(self) -> None:
        """Close; the owner's lock dies with it. Idempotent."""

    @abstractmethod
    def begin(self) -> bool:
        """Begin a transaction; False, at once, while another process is in one."""

    @abstractmethod
    def write(self, rows: Sequence[JournalEntry]) -> None:
        """Add entries in order, and bring the index up to date. Raises StoreRefused; then `rollback`.

        A session begins with its SessionCreated, once; the journal of rules (RULES) has no beginning.
        """

    @abstractmethod
    def commit(self) -> None:
        """Sync to disk. Raises StoreRefused if nothing was written, StoreDied if that is not known."""

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction without a trace. Idempotent."""

    def wants_checkpoint(self) -> bool:
        """Whether enough was written for `checkpoint` to be worth its while. Cheap: ask after every commit."""
        return False

    def checkpoint(self) -> None:  # noqa: B027 # most stores have no log to bound
        """Bound the store's log. May be called in a worker thread, beside everything but `close`, by one at a time."""

    def one_instant(self) -> AbstractContextManager[None]:
        """Let all reads of a block see one instant, whatever other processes commit meanwhile. Nothing is awaited in
        it, and it is not entered twice."""
        return nullcontext()

    @abstractmethod
    def rows(self, after: int, to: int | None = None) -> list[JournalEntry]:
        """Return all entries after a position, up to another, in order, but for those named by `unreadable`."""

    @abstractmethod
    def journal(self, session: str, after: int = 0) -> list[JournalEntry]:
        """Return a session's entries, in order. Raises StoreUnreadable for that session only."""

    @abstractmethod
    def last_position(self) -> int:
        """Return the position of the last entry, 0 in an empty store."""

    @abstractmethod
    def has_changed(self) -> bool:
        """Whether another process has committed since the last call. Cheap: it is asked several times a second.

        Raises StoreDied if the store is not where it was opened any more.
        """

    @abstractmethod
    def get_session(self, session: str) -> SessionRow | None:
        """Return a session as the index knows it, None if there is none."""

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
    def next_due(self) -> list[tuple[str, datetime]]:
        """Return the passivated sessions that a timer will wake, and when, earliest first."""

    @abstractmethod
    def find_asking(self, approval: str) -> tuple[str, str] | None:
        """Return the session and the operation that an approval is of, None if there is none. Cheap: it reads no
        bodies."""

    @abstractmethod
    def get_approval(self, approval: str) -> Approval | None:
        """Return an approval in whatever state it is, None if there is none."""

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
        """Return approvals after a position, oldest first, `limit` at most."""

    @abstractmethod
    def find_shown(self) -> list[Approval]:
        """Return approvals that are decided or withdrawn, and that a card may still show as pending (R3)."""

    @abstractmethod
    def counts(self) -> Counts:
        """Return how much there is. Cheap: it reads no bodies."""

    @abstractmethod
    def measure(self, root: str) -> tuple[int, int]:
        """Return how many entries a tree has, and how many bytes they are."""

    @abstractmethod
    def remove(self, root: str) -> None:
        """Within a transaction: forget a tree, its journals and its approvals; whether that may be is the caller's
        affair. No position is ever given again, so that cursors of other processes stay valid."""

    def compact(self) -> None:  # noqa: B027 # most stores have no space to give back
        """Give back the space that nothing uses, if it is worth holding others up. May be called in a worker thread.

        Raises StoreRefused; then everything is as it was.
        """

    @abstractmethod
    def claim(self, root: str) -> Owner | None:
        """Within a transaction: own a tree, or return the living process that does. Takes over from a dead one."""

    @abstractmethod
    def get_owner(self, root: str) -> Owner | None:
        """Return the living owner of a tree, this process included."""

    @abstractmethod
    def owners(self) -> list[Owner]:
        """Return the living processes that have owned trees, this one included. Cheap: it is asked every second."""

    @abstractmethod
    def owns(self, root: str) -> bool:
        """Whether this process owns the tree."""
