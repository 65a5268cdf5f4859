"""Lists, page by page: sessions, approvals, entries, the audit trail.

Rules
- Each list is read in pieces of at most PIECE items (runtime/reading/pieces.py). The page's cursor is the instant of
  the first piece: so a watch that continues from it returns all changes during the later pieces.
- `next` names the last item that was read, even if the filter left it out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from supervisor.abc import JournalEntry, Page
from supervisor.core import events as e
from supervisor.core.cursors import make_cursor
from supervisor.core.errors import InvalidInput
from supervisor.core.masking import shown
from supervisor.core.values import Approval, SessionStatus, SessionView
from supervisor.runtime.reading.pieces import PIECE, Pieces
from supervisor.runtime.reading.sessions import session_views

if TYPE_CHECKING:
    from supervisor.runtime.reading.reader import Reader

T = TypeVar("T")

AUDITED: Final = e.having("audited")
"""The events of the audit trail: approvals asked, shown and decided, and calls that ran (A15)."""
_OF_OPEN: Final = ("active", "waiting_approval", "blocked")


@dataclass(frozen=True)
class SessionFilter:
    """The filter and the order of a list of sessions. None: no filter."""

    is_open: bool | None = None
    status: SessionStatus | None = None
    agent: str | None = None
    root: str | None = None
    newest_first: bool = False


class Lists:
    """The lists of one store."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._store = reader.store

    def whole(self, items: Iterable[T]) -> Page[T]:
        """Return a list that is complete in one page."""
        return Page(tuple(items), None, self._reader.now())

    def sessions(
        self, only: SessionFilter, *, after: str | None = None, limit: int | None = None
    ) -> Pieces[Page[SessionView]]:
        position, cursor = self._begin(after, limit), self._reader.now()
        is_open, order = only.is_open, only.newest_first
        if is_open is None and only.status is not None:
            is_open = only.status in _OF_OPEN
        found: list[SessionView] = []
        while True:
            views = session_views(
                self._store, root=only.root, is_open=is_open, after=position, limit=PIECE, newest_first=order
            )
            for view in views:
                if len(found) == limit:
                    return self._page(found, position, cursor)
                position = view.position
                if only.status in (None, view.status) and only.agent in (None, view.agent):
                    found.append(view)
            if len(views) < PIECE:
                return self._page(found, None, cursor)
            yield

    def approvals(
        self, *, pending: bool = True, session: str | None = None, after: str | None = None, limit: int | None = None
    ) -> Pieces[Page[Approval]]:
        root = None if session is None else self._reader.get_row(session).root
        position, cursor = self._begin(after, limit), self._reader.now()
        found: list[Approval] = []
        while True:
            some = self._store.find_approvals(pending=pending, root=root, after=position or 0, limit=PIECE)
            for approval in some:
                if len(found) == limit:
                    return self._page(found, position, cursor)
                position = approval.position
                if session in (None, root) or self._reader.is_below(approval.session, session):
                    found.append(self._reader.mark(approval))
            if len(some) < PIECE:
                return self._page(found, None, cursor)
            yield

    def entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = None
    ) -> Pieces[Page[JournalEntry]]:
        row = self._reader.get_row(session)
        position, cursor = self._begin(after, limit) or 0, self._reader.now()
        end = self._store.last_position()
        sessions = [session]
        if tree:
            views = self._store.find_sessions(root=row.root, after=row.position)
            sessions += [each.id for each in views if self._reader.is_below(each.id, session)]
        found: list[JournalEntry] = []
        for each in sessions:
            found += [entry for entry in self._store.journal(each, position) if entry.position <= end]
            if tree:
                yield
        if tree:
            found.sort(key=lambda entry: entry.position)
        is_all = limit is None or len(found) <= limit
        found = found[:limit]
        return self._page(shown(found), None if is_all else found[-1].position, cursor)

    def audit(self, *, after: str | None = None, limit: int | None = None) -> Pieces[Page[JournalEntry]]:
        position, cursor = self._begin(after, limit) or 0, self._reader.now()
        rows = self._store.rows(0)
        copied_to = {row.session: row.position for row in rows if isinstance(row.event, e.SessionForked)}
        facts = [row for row in rows if row.position > max(position, copied_to.get(row.session, 0)) and _is_fact(row)]
        is_all = limit is None or len(facts) <= limit
        facts = facts[:limit]
        yield
        return self._page(shown(facts), None if is_all else facts[-1].position, cursor)

    def _begin(self, after: str | None, limit: int | None) -> int | None:
        if limit is not None and limit < 1:
            raise InvalidInput(f"a page has at least one item, not {limit}; None: all")
        return None if after is None else self._reader.position_of(after)

    def _page(self, items: Iterable[T], last: int | None, cursor: str) -> Page[T]:
        return Page(tuple(items), None if last is None else make_cursor(self._store.id, last), cursor)


def _is_fact(row: JournalEntry) -> bool:
    return type(row.event) in AUDITED or (isinstance(row.event, e.RunStarted) and row.event.again is not None)
