"""Entries, page by page: of a session and all sessions below it, whose journals are merged.

Rules
- A page reads about as many entries as it shows, however long the history is.
- Of each session that began before a page of many sessions, only the index is asked: where does its journal go on?
  Sessions that began later are listed when the merge reaches them.
"""

import heapq
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from supervisor.core.events import AnyEvent
from supervisor.core.rows import JournalEntry
from supervisor.runtime.journal.pages import pages_of
from supervisor.runtime.reading.pieces import PIECE, Pieces
from supervisor.seam.store import Store

if TYPE_CHECKING:
    from supervisor.runtime.reading.reader import Reader

FIRST: Final = 4
"""How many entries are read at first of one session among many. Each further read of it takes twice as many."""


def find_first(
    store: Store, session: str, after: int, is_meant: Callable[[AnyEvent], bool]
) -> Pieces[JournalEntry | None]:
    """Return a session's first entry after a position whose event is meant; None if there is none."""
    for rows in pages_of(store.journal, PIECE, session=session, after=after):
        found = next((row for row in rows if is_meant(row.event)), None)
        if found is not None:
            return found
        if len(rows) == PIECE:
            yield
    return None


class _Journal:
    """The journal of one session, read in growing pieces. `place`: no entry before this position is left to show."""

    def __init__(self, session: str, place: int, size: int) -> None:
        self.session = session
        self.place = place
        self.size = size
        self.rows: deque[JournalEntry] = deque()

    def __lt__(self, other: "_Journal") -> bool:
        return self.place < other.place

    def take(self) -> JournalEntry:
        """Return the next entry of those that were read."""
        row = self.rows.popleft()
        self.place = self.rows[0].position if self.rows else row.position + 1
        return row


class Merge:
    """A read of the entries between two positions, `end` included; `most`: how many at most, None for all."""

    def __init__(self, reader: "Reader", after: int, end: int, most: int | None) -> None:
        self._reader = reader
        self._store = reader.store
        self._after = after
        self._end = end
        self._most = most
        self._journals: list[_Journal] = []
        """A heap: the journal with the next entry is the first one."""
        self._known: dict[str | None, bool] = {None: False}
        """By session: whether it is the one that was asked for, or below it."""

    def tree(self, session: str) -> Pieces[list[JournalEntry]]:
        """Return entries of a session and of those below it. Raises NotFound."""
        row = self._reader.get_row(session)
        self._known[session] = True
        start = row.position - 1
        while found := self._store.find_continued(row.root, self._after, start, PIECE):
            for each in found:
                if each.next is not None and (session == row.root or self._is_below(each.session)):
                    self._journals.append(_Journal(each.session, each.next, FIRST))
            start = found[-1].position
            yield
        heapq.heapify(self._journals)
        return (yield from self._merge(row.root, max(self._after, row.position - 1)))

    def _merge(self, root: str, listed: int) -> Pieces[list[JournalEntry]]:
        """Merge the journals, and those of the tree's sessions that begin after the position `listed`."""
        found: list[JournalEntry] = []
        journals, count = self._journals, 0
        while self._most is None or len(found) < self._most:
            while listed < self._end and (not journals or listed < journals[0].place):
                if count:
                    yield
                listed, count = self._list_later(root, listed), PIECE
            if not journals:
                break
            if (journal := journals[0]).rows:
                found.append(journal.take())
            else:
                size = min(journal.size, PIECE if self._most is None else self._most - len(found))
                if count + size > PIECE:
                    yield
                    count = 0
                count += size
                self._read(journal, size)
            if journal.place <= self._end:
                heapq.heapreplace(journals, journal)
            else:
                heapq.heappop(journals)
        return found

    def _read(self, journal: _Journal, size: int) -> None:
        """Read the next entries of a journal."""
        read = self._store.journal(journal.session, journal.place - 1, size)
        journal.rows.extend(row for row in read if row.position <= self._end)
        journal.size = min(2 * journal.size, PIECE)
        journal.place = journal.rows[0].position if journal.rows else self._end + 1

    def _list_later(self, root: str, listed: int) -> int:
        """Add the journals of further sessions; return the position up to which all of them are known."""
        rows = self._store.find_sessions(root=root, after=listed, limit=PIECE)
        for row in rows:
            if row.id not in self._known:
                self._known[row.id] = self._is_below(row.parent)
            if row.position <= self._end and self._known[row.id]:
                heapq.heappush(self._journals, _Journal(row.id, row.position, FIRST))
        return rows[-1].position if len(rows) == PIECE else self._end

    def _is_below(self, session: str | None) -> bool:
        """Whether a session is the one that was asked for, or below it."""
        climbed = []
        while session not in self._known:
            assert session is not None, "None is known"
            climbed.append(session)
            row = self._store.get_session(session)
            session = None if row is None else row.parent
        found = self._known[session]
        self._known.update(dict.fromkeys(climbed, found))
        return found
