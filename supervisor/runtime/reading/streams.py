"""Watches of people and programs: pending approvals, the inbox, a session's journal.

They are classes with `__anext__` and no async generators, so that a `break` leaves nothing unfinished. Each reads the
store from its own cursor and waits for the hub's news: so it misses nothing, returns nothing twice, and delays no other
task. While the store is away it waits, also in the midst of what it reads: it takes an item when it has all of it. When
the supervisor closes, all watches end. A watch of a journal first returns the entries that it has not returned yet.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self, TypeVar

import anyio

from supervisor.core.approvals.masking import shown_entries
from supervisor.core.cursors import make_cursor
from supervisor.core.errors import StoreError
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.activity import StreamedText
from supervisor.core.values import Approval
from supervisor.runtime.clock.patience import endless, patient
from supervisor.runtime.journal.hub import ASKED, INBOX, text_key
from supervisor.runtime.reading.pieces import PIECE
from supervisor.seam.runs import TextWatch, Watch

if TYPE_CHECKING:
    from supervisor.runtime.reading.reader import Reader

T = TypeVar("T")

PACE_SECONDS: Final = 0.25
"""Seconds between two states of a text that is being written."""
LOOK: Final = 100
"""Positions of the store that are read in one step: so a watch with an old cursor does not block the loop."""


class _LocalWatch(Watch[T]):
    """A watch that reads the store: opening it is one checkpoint, and then one read.

    `session`: only this session and all below it; None: all sessions. `after`: the cursor to continue from.
    """

    def __init__(self, reader: "Reader", session: str | None = None, after: str | None = None) -> None:
        self._reader = reader
        self._session = session
        self._root: str | None = None
        self._after = after
        self._position = 0
        """The position of the last item that it returned."""

    @property
    def cursor(self) -> str:
        return make_cursor(self._reader.store.id, self._position)

    @patient
    async def _open(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self._session is not None:
            self._root = self._reader.get_row(self._session).root
        if self._after is not None:
            self._position = self._reader.position_of(self._after)
        self._begin()

    def _concerns(self, approval: Approval) -> bool:
        if self._session in (None, self._root):
            return self._root in (None, approval.root_session)
        return self._reader.is_below(approval.session, self._session)

    def _begin(self) -> None:
        """Read what it begins with."""


class PendingApprovals(_LocalWatch[Approval]):
    """Pending approvals, each once, beginning with those that are pending now. With a session: its own and those below
    it, until its run is over. Approvals of the next turn are not included."""

    def __init__(
        self, reader: "Reader", session: str | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(reader, session)
        self._found: deque[Approval] = deque()
        self._asked: anyio.Event | None = None
        """Set when a call asks after the last read; None if there is more to read."""
        self._is_over = is_over

    @endless
    async def _next(self) -> Approval:
        while True:
            await anyio.lowlevel.checkpoint()
            if self._reader.is_left or self._is_over():
                raise StopAsyncIteration
            ended = self._reader.hub.news(self._session) if self._session is not None else None
            is_of_now = not self._found and (self._asked is None or self._asked.is_set())
            if is_of_now:
                self._read()
            while self._found:
                found = self._found[0]
                approval = self._reader.complete(found) if is_of_now else self._reader.newest(found.id)
                is_meant = approval is not None and approval.status == "pending" and self._concerns(approval)
                self._position = self._found.popleft().position
                if approval is not None and is_meant:
                    return approval
            if self._asked is not None:
                self._reader.check_running(self._session)
                await _first_of(self._asked, ended)

    def _read(self) -> None:
        asked = self._reader.hub.news(ASKED)
        self._found.extend(self._reader.store.find_approvals(root=self._root, after=self._position, limit=PIECE))
        self._asked = asked if len(self._found) < PIECE else None


class Inbox(_LocalWatch[Approval]):
    """All pending approvals, and then every approval whose status changes, in its newest state. It never ends.

    Approvals come in the order of their last change, so that a watch that continues from `cursor` misses nothing and
    returns nothing twice. With an `after`, it does not begin with the pending approvals.
    """

    def __init__(self, reader: "Reader", session: str | None = None, after: str | None = None) -> None:
        super().__init__(reader, session, after)
        self._read = 0
        """The position up to which the store has been read."""
        self._changed: dict[str, int] = {}
        """By approval, the position of its last change, in the order of these."""
        self._listed: int | None = None
        """The position up to which the pending approvals of its beginning were read; None after the last one."""

    def _begin(self) -> None:
        if self._after is not None:
            self._read = self._position
            return
        self._read = self._reader.store.last_position()
        self._listed = 0

    @endless
    async def _next(self) -> Approval:
        while True:
            await anyio.lowlevel.checkpoint()
            if self._reader.is_left:
                raise StopAsyncIteration
            while self._changed:
                changed = next(iter(self._changed))
                approval = self._reader.newest(changed)
                is_meant = approval is not None and self._concerns(approval)
                self._position = self._changed.pop(changed)
                if approval is not None and is_meant:
                    return approval
            if self._listed is not None:
                self._list(self._listed)
                continue
            news = self._reader.hub.news(INBOX)
            last = self._reader.store.last_position()
            while self._read < last and not self._reader.is_left:
                self._look(min(self._read + LOOK, last))
                await anyio.lowlevel.checkpoint()
            if not self._changed:
                await news.wait()

    def _list(self, after: int) -> None:
        """Note the next approvals that were pending when the watch began. Later requests and decisions are changes."""
        found = self._reader.store.find_approvals(root=self._root, after=after, limit=PIECE)
        self._changed.update((each.id, each.position) for each in found if each.position <= self._read)
        self._listed = found[-1].position if len(found) == PIECE else None

    def _look(self, to: int) -> None:
        """Note the approvals that have changed up to a position."""
        for approval, position in self._reader.changes(self._read, to):
            self._changed.pop(approval, None)
            self._changed[approval] = position
        self._read = to


class SessionJournal(_LocalWatch[JournalEntry]):
    """A session's journal after a cursor, without gaps, until its run has ended; with `stay` it never ends."""

    def __init__(self, reader: "Reader", session: str, after: str | None = None, *, stay: bool = False) -> None:
        super().__init__(reader, session, after)
        self._name = session
        self._stay = stay
        self._found: deque[JournalEntry] = deque()

    def _begin(self) -> None:
        self._reader.watching.add(self)

    @endless
    async def _next(self) -> JournalEntry:
        while True:
            await anyio.lowlevel.checkpoint()
            if self._found:
                row = self._found.popleft()
                self._position = row.position
                return row
            if self._reader.is_left:
                raise StopAsyncIteration
            news = self._reader.hub.news(self._name)
            has_ended = self._reader.get_row(self._name).outcome is not None
            self.read(PIECE)
            if not self._found:
                if has_ended and not self._stay:
                    raise StopAsyncIteration
                await news.wait()

    def read(self, limit: int | None = None) -> None:
        """Read the entries after the cursor, at most `limit`. Raises StoreError."""
        self._found = deque(shown_entries(self._reader.store.journal(self._name, self._position, limit)))


class WrittenText(TextWatch):
    """The text that an agent in this process is writing, at most every PACE seconds. It never ends."""

    def __init__(self, reader: "Reader", session: str) -> None:
        self._reader = reader
        self._session = session
        self._last: StreamedText | None = None
        self._next_at = 0.0

    async def __aenter__(self) -> Self:
        await anyio.lowlevel.checkpoint()
        self._reader.get_row(self._session)
        return self

    async def __anext__(self) -> StreamedText:
        while True:
            await anyio.sleep_until(self._next_at)
            if self._reader.is_left:
                raise StopAsyncIteration
            news = self._reader.hub.news(text_key(self._session))
            if (text := self._reader.hub.texts.get(self._session)) != self._last:
                self._last, self._next_at = text, anyio.current_time() + PACE_SECONDS
                return text
            await news.wait()


def end_streams(reader: "Reader") -> None:
    """End all watches before the store is closed. A watch of a journal first reads the rest of it."""
    for journal in list(reader.watching):
        with suppress(StoreError):  # the process that runs the tree reports it
            journal.read()
    reader.is_left = True
    reader.hub.publish_all()


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
