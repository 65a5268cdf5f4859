"""What people and programs watch: pending approvals, the inbox, a session's journal.

Classes with `__anext__` rather than async generators, so that a `break` leaves nothing unfinished. Each reads the store
from its own cursor and sleeps on the hub's news: it misses nothing, gets nothing twice, and holds nobody up. When the
supervisor is left, all of them end; who watches a journal is told before what stood in it by then.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from supervisor.abc import InboxWatch, JournalEntry
from supervisor.core import events as e
from supervisor.core.errors import StoreError
from supervisor.core.masking import shown
from supervisor.core.values import Approval
from supervisor.runtime.hub import INBOX, INBOX_EVENTS

if TYPE_CHECKING:
    from supervisor.runtime.local import LocalSupervisor

LOOK: Final = 100
"""Positions of the store that are read at once: whoever comes back after a year holds up nobody."""


class PendingApprovals(AsyncIterator[Approval]):
    """Pending approvals, each once, those of now first. With a session: its own and those below it, until its run is
    over; what the next turn asks is no concern of that run."""

    def __init__(
        self, supervisor: "LocalSupervisor", session: str | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        self._supervisor = supervisor
        self._session = session
        self._root = supervisor.get_row(session).root if session is not None else None
        self._cursor = 0
        self._found: list[Approval] = []
        self._is_over = is_over

    async def __anext__(self) -> Approval:
        while True:
            await anyio.lowlevel.checkpoint()
            if self._supervisor.is_left or self._is_over():
                raise StopAsyncIteration
            while self._found:
                approval = self._supervisor.store.get_approval(self._found.pop(0).id)
                if approval is not None and approval.status == "pending" and self._concerns(approval):
                    return approval
            inbox = self._supervisor.hub.news(INBOX)
            ended = self._supervisor.hub.news(self._session) if self._session is not None else None
            self._found = self._supervisor.store.find_approvals(root=self._root, after=self._cursor)
            if self._found:
                self._cursor = self._found[-1].position
                continue
            self._supervisor.check_running(self._session)
            await _first_of(inbox, ended)

    def _concerns(self, approval: Approval) -> bool:
        return self._session in (None, self._root) or self._supervisor.is_below(approval.session, self._session)


class Inbox(InboxWatch):
    """A snapshot of what is pending, then every approval whose status changes, as it is by then; never ends.

    In the order of what changed them last, so that whoever goes on from `cursor` misses nothing and gets nothing twice.
    """

    def __init__(self, supervisor: "LocalSupervisor", after: int | None = None) -> None:
        self._supervisor = supervisor
        last = supervisor.store.last_position()
        self._read = last if after is None else after
        """Up to where the store has been read."""
        self.cursor = after or 0
        self._changed: dict[str, int] = {}
        """Approval -> position of what changed it last, in the order of those."""
        if after is None or after > last:  # a cursor of another store
            self._read = last
            self._changed.update((approval.id, approval.position) for approval in supervisor.store.find_approvals())

    async def __anext__(self) -> Approval:
        while True:
            await anyio.lowlevel.checkpoint()
            if self._supervisor.is_left:
                raise StopAsyncIteration
            while self._changed:
                changed = next(iter(self._changed))
                self.cursor = self._changed.pop(changed)
                if (approval := self._supervisor.store.get_approval(changed)) is not None:
                    return approval
            news = self._supervisor.hub.news(INBOX)
            last = self._supervisor.store.last_position()
            while self._read < last and not self._supervisor.is_left:
                self._look(min(self._read + LOOK, last))
                await anyio.lowlevel.checkpoint()
            if not self._changed:
                await news.wait()

    def _look(self, to: int) -> None:
        """Note what has changed up to a position."""
        for row in self._supervisor.store.rows(self._read, to):
            if (approved := _approval_in(row)) is not None:
                self._changed.pop(approved, None)
                self._changed[approved] = row.position
        self._read = to


def _approval_in(row: JournalEntry) -> str | None:
    """Return the approval whose status an entry changes."""
    return e.approval_in(row.event) if type(row.event) in INBOX_EVENTS else None


class SessionJournal(AsyncIterator[JournalEntry]):
    """A session's journal behind a cursor, without gaps, until its run has ended; with `stay` for ever."""

    def __init__(self, supervisor: "LocalSupervisor", session: str, after: int, *, stay: bool = False) -> None:
        self._supervisor = supervisor
        self._session = session
        self._cursor = after if after <= supervisor.store.last_position() else 0  # a cursor of another store
        self._stay = stay
        self._found: list[JournalEntry] = []
        supervisor.watching.add(self)

    async def __anext__(self) -> JournalEntry:
        while True:
            await anyio.lowlevel.checkpoint()
            if self._found:
                row = self._found.pop(0)
                self._cursor = row.position
                return row
            if self._supervisor.is_left:
                raise StopAsyncIteration
            news = self._supervisor.hub.news(self._session)
            has_ended = self._supervisor.get_row(self._session).outcome is not None
            self.read()
            if not self._found:
                if has_ended and not self._stay:
                    raise StopAsyncIteration
                await news.wait()

    def read(self) -> None:
        """Read what stands behind the cursor. Raises StoreError."""
        self._found = shown(self._supervisor.store.journal(self._session, self._cursor))


def end_streams(supervisor: "LocalSupervisor") -> None:
    """End all streams, before the store is closed: who watches a journal may be behind it, and is told its end."""
    for journal in list(supervisor.watching):
        with suppress(StoreError):  # who runs the tree is told
            journal.read()
    supervisor.is_left = True
    supervisor.hub.publish_all()


async def _first_of(one: anyio.Event, other: anyio.Event | None) -> None:
    if other is None:
        return await one.wait()

    async def until(event: anyio.Event, done: Callable[[], None]) -> None:
        await event.wait()
        done()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until, one, tasks.cancel_scope.cancel)
        tasks.start_soon(until, other, tasks.cancel_scope.cancel)
    return None
