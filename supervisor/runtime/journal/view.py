"""Plans are pure, synchronous functions that return entries to journal. A view is what a plan sees while it runs.

Rules
- A plan sees every session as it is on disk, with the changes of earlier plans of its batch. These changes are drafts,
  which become the live state after the commit. So a refused commit needs no undo, and uncommitted state is never seen.
- The view checks each entry of a plan. An error in one entry fails the caller of that plan alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from supervisor.core.errors import InvalidInput, NotFound, StoreUnreadable, TreeOwned
from supervisor.core.events import AnyEvent, encode_event
from supervisor.core.rows import EncodedRow, JournalEntry, Owner
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.seam.store import Store

Entry = tuple[str, AnyEvent]
S = TypeVar("S", bound=SessionState)
T = TypeVar("T")
Plan = Callable[["View"], Iterable[Entry]]
Answering = Callable[["View"], tuple[Iterable[Entry], T]]
"""A plan that returns its entries together with an answer for its caller."""


class View:
    """What a plan sees: every session as it is on disk, with the changes of earlier plans of this batch."""

    def __init__(
        self,
        store: Store,
        states: Mapping[str, SessionState],
        notes: Mapping[str, Sequence[AnyEvent]],
        position: int,
    ) -> None:
        """`states`: the sessions in memory. They include their `notes`, which are not written yet.
        `position`: the position of the last entry on disk."""
        self.store = store
        self._states = states
        self._notes = notes
        self.position = position
        self.drafts: dict[str, SessionState] = {}
        self.rows: list[JournalEntry] = []
        self.noted: dict[str, int] = {}
        """The sessions whose notes are in `rows`, and the number of these notes."""
        self.has_claimed = False
        self._absent: set[str] = set()
        """Sessions that do not exist in the store. Without this, a new session would be searched for repeatedly."""

    def find_session(self, session: str) -> SessionState | None:
        state = self.drafts.get(session) or self._states.get(session)
        if state is None and session not in self._absent:
            if rows := self.store.journal(session):
                state = self.drafts[session] = replay_journal(session, [row.event for row in rows])
            else:
                self._absent.add(session)
        return state

    def find_readable(self, session: str) -> SessionState | None:
        """As `find_session`, in a plan about many trees: None, too, for a journal that cannot be read. Its tree cannot
        run, and stops no other."""
        if session in self.store.unreadable:
            return None
        try:
            return self.find_session(session)
        except StoreUnreadable:
            return None

    def session(self, session: str) -> SessionState:
        """Return a session's state; do not change it. Raises NotFound."""
        if (state := self.find_session(session)) is None:
            raise NotFound(f"there is no session {session} in {self.store.name}")
        return state

    def own_journal(self, name: str, type_: type[S], what: str, so: str) -> S:
        """Return the state of a journal of the store itself. Raises StoreUnreadable, which says `what` cannot be read,
        and what that means."""
        reason = self.store.unreadable.get(name)
        found = self.find_session(name) if reason is None else None
        if not isinstance(found, type_):
            raise StoreUnreadable(
                f"the {what} in {self.store.name} cannot be read, so {so}: "
                f"{reason or 'a newer program wrote them, or they are damaged'}; use that program, or restore a backup"
            )
        return found

    def claim(self, root: str) -> None:
        """Own a tree from this commit on. Raises TreeOwned if a living process owns it."""
        for other in self.claim_all([root]).values():
            raise TreeOwned(root, str(other))

    def claim_all(self, roots: Sequence[str]) -> dict[str, Owner]:
        """Own trees from this commit on, and return the living owners of the others."""
        wanted = [root for root in roots if not self.store.owns(root)]
        others = self.store.claim_all(wanted) if wanted else {}
        self.has_claimed |= len(others) < len(wanted)
        return others

    def remove(self, root: str) -> None:
        """Remove a tree with this commit. Later plans of the batch do not see it."""
        for row in self.store.find_sessions(root=root):
            self.drafts.pop(row.id, None)
            self._absent.add(row.id)
        self.store.remove(root)
        self.has_claimed = True

    def take(self, session: str, event: AnyEvent) -> None:
        """Append an event to the batch, after the session's notes. Raises InvalidInput for text that UTF-8 cannot hold:
        raised here it fails one caller, raised by the store it would fail the batch."""
        try:
            body = encode_event(event)
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{type(event).__name__} cannot be written to the journal: {error}") from None
        if self._notes or self.store.unreadable:  # almost always there are none
            self.write_notes(session)
        self._draft(session).apply(event)
        self._add(session, event, body)

    def write_notes(self, session: str) -> tuple[()]:
        """Append a session's notes to the batch, unless they are in it. Return what a plan returns that has no entry of
        its own."""
        if (reason := self.store.unreadable.get(session)) is not None:
            raise StoreUnreadable(reason)
        if session not in self.noted and (notes := self._notes.get(session)):
            self._draft(session)  # a session with a draft takes no note until the commit has landed
            self.noted[session] = len(notes)
            for note in notes:
                self._add(session, note, encode_event(note))
        return ()

    def cut(self, length: int) -> None:
        """Drop the entries after the first `length`: they are from a plan that raised half-way."""
        kept, written = self.rows[:length], {row.session for row in self.rows}
        self.rows, noted, self.noted = [], self.noted, {}
        # Drafts that were only read stay: earlier plans of the batch hold references to them.
        self.drafts = {session: draft for session, draft in self.drafts.items() if session not in written}
        for row in kept:
            if row.session not in self.noted and row.session in noted:
                self._draft(row.session)
                self.noted[row.session] = noted[row.session]
            elif noted.get(row.session, 0) > 1:
                noted[row.session] -= 1
            else:
                self._draft(row.session).apply(row.event)
            self.rows.append(row)

    def _draft(self, session: str) -> SessionState:
        if (draft := self.drafts.get(session)) is None:
            live = self._states.get(session)
            draft = live.draft() if live is not None else (self.find_session(session) or SessionState(id=session))
            self.drafts[session] = draft
        return draft

    def _add(self, session: str, event: AnyEvent, body: bytes) -> None:
        self.rows.append(EncodedRow(self.position + len(self.rows) + 1, session, event, body))
