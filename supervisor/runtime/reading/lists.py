"""Lists, page by page: sessions, approvals, entries, the audit trail.

Rules
- Each list is read in pieces of at most PIECE items (runtime/reading/pieces.py). The page's cursor is the instant of
  the first piece: so a watch that continues from it returns all changes during the later pieces.
- `next` names the last item that was read, even if the filter left it out.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.masking import shown_entries
from supervisor.core.approvals.state import asked_by, ends_approval
from supervisor.core.cursors import make_cursor
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.rows import ApprovalFilter, JournalEntry, SessionFilter, TreeView, ids_from
from supervisor.core.sessions.state import Job
from supervisor.core.text.masks import hide, mask_arguments
from supervisor.core.values import Approval, JobView, Message, SessionView
from supervisor.runtime.journal.pages import pages_of, parts_of
from supervisor.runtime.operations.messages import Transcript
from supervisor.runtime.reading.journals import Merge, find_first
from supervisor.runtime.reading.pieces import PIECE, Pieces
from supervisor.runtime.reading.sessions import Trees
from supervisor.seam.runs import Page

if TYPE_CHECKING:
    from supervisor.runtime.reading.reader import Reader

T = TypeVar("T")

AUDITED: Final = e.having("audited")
"""The events of the audit trail: approvals asked, shown and decided, and calls that ran (A15)."""
SCANNED: Final = 10 * PIECE
"""The number of entries that are searched for jobs in one step. Few of them are decoded."""
_OF_JOBS: Final = ("JobStarted", "JobEnded")


class Lists:
    """The lists of one store."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._store = reader.store

    def whole(self, items: Iterable[T], position: int | None = None) -> Page[T]:
        """Return a list that is complete in one page. `position`: what the items show; None: all that is on disk."""
        return Page(tuple(items), None, self._reader.now() if position is None else self._reader.cursor_of(position))

    def session(self, session: str) -> Pieces[SessionView]:
        """Return one session. Of its tree only what waits there is read. Raises NotFound."""
        trees, row = self._trees(), self._reader.get_row(session)
        yield from trees.read([row])
        return trees.view(row)

    def _trees(self) -> Trees:
        return Trees(self._store, self._reader.has_passed, self._reader.find_waits)

    def sessions(
        self, only: SessionFilter, *, after: str | None = None, limit: int | None = None
    ) -> Pieces[Page[SessionView]]:
        position, cursor = self._begin(after, limit), self._reader.now()
        indexed = True if only.root is None and only.must_be_open else None
        """Open ones of all trees have an index; other ones are picked here, so that a piece stays small."""
        trees = self._trees()
        found: list[SessionView] = []
        while True:
            most = PIECE if only.picks or limit is None else min(PIECE, limit - len(found) + 1)
            rows = self._store.find_sessions(
                root=only.root, is_open=indexed, after=position, limit=most, newest_first=only.newest_first
            )
            yield from trees.read([row for row in rows if only.has(row)])
            for row in rows:
                if len(found) == limit:
                    yield from trees.forget()
                    return self._page(found, position, cursor)
                position = row.position
                if only.has(row) and only.status in (None, (view := trees.view(row)).status):
                    found.append(view)
            if len(rows) < most:
                yield from trees.forget()
                return self._page(found, None, cursor)
            yield

    def approvals(
        self, only: ApprovalFilter, session: str | None, *, after: str | None = None, limit: int | None = None
    ) -> Pieces[Page[Approval]]:
        root = None if session is None else self._reader.get_row(session).root
        position, cursor = self._begin(after, limit), self._reader.now()
        pending = only.is_pending
        searches = only.searches or only.newest_first or only.decided not in (None, False, "pending")
        found: list[Approval] = []
        takes_all = session in (None, root)
        while True:
            room = PIECE if limit is None else limit - len(found)
            wanted = min(PIECE, room + 1) if takes_all else PIECE  # one more says whether there is another page
            if searches:
                some = self._store.search_approvals(only, root=root, after=position, limit=wanted)
            else:
                some = self._store.find_approvals(pending=pending, root=root, after=position or 0, limit=wanted)
            below = some if takes_all else [each for each in some if self._reader.is_below(each.session, session)]
            if any(len(each.path) > 1 for each in below):
                yield  # the inputs of sub-agents are as many entries again
            below = [self._reader.mark(each) for each in below]
            if pending:  # one that has expired needs no decision any more
                below = [each for each in below if each.status == "pending"]
            found += below[:room]
            if len(below) > room:
                return self._page(found, found[-1].position if room else position, cursor)
            if len(some) < wanted:
                return self._page(found, None, cursor)
            position = some[-1].position
            yield

    def revealed(self, approval: Approval) -> Pieces[Any]:
        """Return the arguments of a call, as a person edited them if one has. Declared secrets are masked. Raises
        NotFound."""
        is_meant = ends_approval if approval.edited else asked_by
        found = yield from find_first(
            self._store,
            approval.session,
            approval.position - 1,
            lambda event: e.approval_in(event) == approval.id and bool(is_meant(event)),
        )
        if found is None:
            raise NotFound(f"the request of {approval.id} cannot be read any more")
        return mask_arguments(msgspec.json.decode(getattr(found.event, "arguments", "null")), approval.secret)

    def tree(self, session: str, entries: int | None) -> Pieces[TreeView]:
        """Return the tree of a session, and the journals of the session and of those below it, up to the cursor; see
        Supervisor.get_tree."""
        root, cursor, end = self._reader.get_row(session).root, self._reader.now(), self._store.last_position()
        views = yield from self._views(root, end)
        found, left_out = list[JournalEntry](), 0
        for each in ids_from(session, views):
            if each != session and entries is not None and len(found) >= entries:
                left_out += 1
            else:
                yield from self._journal(each, 0, end, found)
        self._reader.get_row(session)  # it may have been removed meanwhile
        yield
        found.sort(key=lambda entry: entry.position)
        return TreeView(sessions=tuple(views), entries=tuple(found), cursor=cursor, left_out=left_out)

    def _views(self, root: str, end: int) -> Pieces[list[SessionView]]:
        """Return the sessions of a tree that began up to a position, parents before children."""
        trees, views = self._trees(), list[SessionView]()
        for rows in pages_of(self._store.find_sessions, PIECE, root=root):
            yield from trees.read(rows)
            views += [trees.view(row) for row in rows if row.position <= end]
            if len(rows) == PIECE:
                yield
        return views

    def _journal(
        self, session: str, after: int, end: int, found: list[JournalEntry], most: int | None = None
    ) -> Pieces[None]:
        """Add the entries of a session between two positions, `end` included, until there are `most`."""
        while most is None or len(found) < most:
            size = PIECE if most is None else min(PIECE, most - len(found))
            rows = self._store.journal(session, after, size)
            before = len(found) // PIECE
            found += shown_entries([row for row in rows if row.position <= end])
            if len(found) // PIECE > before:
                yield
            if len(rows) < size or rows[-1].position > end:
                return
            after = rows[-1].position

    def transcript(self, session: str) -> Pieces[tuple[Message, ...]]:
        """Return the messages of a session, with their credentials masked. An agent has its own words back:
        Context.transcript does not mask them."""
        rows = yield from self.entries(session)
        told = Transcript()
        for number, row in enumerate(rows, 1):
            told.take(row.event)
            if not number % PIECE:
                yield
        return tuple(each if (text := hide(each.text)) is each.text else replace(each, text=text) for each in told.said)

    def entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = None
    ) -> Pieces[Page[JournalEntry]]:
        self._reader.latest_run(session)  # raises for one that does not exist
        position, cursor = self._begin(after, limit) or 0, self._reader.now()
        end, most = self._store.last_position(), None if limit is None else limit + 1
        found = list[JournalEntry]()
        if tree:
            found = yield from self._masked((yield from Merge(self._reader, position, end, most).tree(session)))
        else:
            yield from self._journal(session, position, end, found, most)
        return self._first(found, limit, cursor)

    def audit(self, *, after: str | None = None, limit: int | None = None) -> Pieces[Page[JournalEntry]]:
        """Return the audit trail. Entries that a fork has copied do not count."""
        position, cursor = self._begin(after, limit) or 0, self._reader.now()
        end = self._store.last_position()
        found: list[JournalEntry] = []
        copied: dict[str, int] = {}
        """By session: how many SessionForked are still to come. No cursor is inside a copy, which is one append."""
        while position < end and (limit is None or len(found) <= limit):
            to = min(position + PIECE, end)
            for row in self._store.rows(position, to):
                match row.event:
                    case e.SessionCreated(forked=forked) if forked:
                        copied[row.session] = forked
                    case e.SessionForked() if row.session in copied:
                        copied[row.session] -= 1
                    case _ if _is_fact(row) and not copied.get(row.session):
                        found.append(row)
                    case _:
                        pass
            position = to
            yield
        return self._first((yield from self._masked(found)), limit, cursor)

    def jobs(self) -> Pieces[Page[JobView]]:
        """Return all background jobs as the journals have them, oldest first."""
        cursor, end = self._reader.now(), self._store.last_position()
        found: dict[str, tuple[str, Job]] = {}
        for start in range(0, end, SCANNED):
            for row in self._store.rows(start, min(start + SCANNED, end), _OF_JOBS):
                match row.event:
                    case e.JobStarted(job=job):
                        found[job] = (row.session, Job(started=row.event))
                    case e.JobEnded(job=job) if job in found:
                        found[job] = (row.session, Job(started=found[job][1].started, ended=row.event))
                    case _:
                        pass
            yield
        views = list[JobView]()
        for session, known in found.values():
            views.append(known.view(session))
            if len(views) % PIECE == 0:
                yield
        return self._page(views, None, cursor)

    def _begin(self, after: str | None, limit: int | None) -> int | None:
        if limit is not None and limit < 1:
            raise InvalidInput(f"a page has at least one item, not {limit}; None: all")
        return None if after is None else self._reader.position_of(after)

    def _masked(self, found: list[JournalEntry]) -> Pieces[list[JournalEntry]]:
        items = list[JournalEntry]()
        for some in parts_of(found, PIECE):
            yield
            items += shown_entries(some)
        return items

    def _first(self, found: list[JournalEntry], limit: int | None, cursor: str) -> Page[JournalEntry]:
        """Return a page of the first entries. `found` has one more than `limit` if the list goes on."""
        is_all = limit is None or len(found) <= limit
        found = found[:limit]
        return self._page(found, None if is_all else found[-1].position, cursor)

    def _page(self, items: Iterable[T], last: int | None, cursor: str) -> Page[T]:
        return Page(tuple(items), None if last is None else make_cursor(self._store.id, last), cursor)


def _is_fact(row: JournalEntry) -> bool:
    return type(row.event) in AUDITED or (isinstance(row.event, e.RunStarted) and row.event.again is not None)
