"""Sessions as their users see them. They are read from the store's index alone, and no journal is loaded.

A session's view has what is pending at it and below it. So of each open tree what waits in it is read once, and handed
up from session to session; the sessions between are read by their ids. Other sessions of the tree are not read.

Rules
- A list of very many trees remembers only MOST of them, then forgets all, and reads a tree again if another session of
  it follows. So no map grows with the list: to enlarge or to free a map of 100,000 would block the loop.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from supervisor.core import events as e
from supervisor.core.blocking import Block
from supervisor.core.limits import LimitWait, name_of, shown_name
from supervisor.core.rows import Owner, SessionRow
from supervisor.core.text.masks import hide
from supervisor.core.values import Approval, HasPassed, Outcome, SessionStatus, SessionView, as_of
from supervisor.runtime.journal.pages import pages_in
from supervisor.runtime.reading.pieces import PIECE, Pieces
from supervisor.seam.store import Store

FindWaits: TypeAlias = Callable[[Collection[str]], Mapping[str, LimitWait]]
"""Returns for which limits some sessions wait in this process."""

MOST: Final = 1000
"""The number of trees that are remembered, and of sessions that are forgotten in one step."""


class Trees:
    """The pending approvals and the owners of some trees. What has expired is not pending."""

    def __init__(self, store: Store, has_passed: HasPassed, find_waits: FindWaits) -> None:
        self._store = store
        self._has_passed = has_passed
        self._find_waits = find_waits
        self._waits: Mapping[str, LimitWait] = {}
        """Of the sessions that were read last."""
        self._begin()

    def _begin(self) -> None:
        self._known: set[str] = set()
        self._owners: dict[str, Owner] = {}
        self._pending: dict[str, list[Approval]] = {}
        """Session -> what is pending at it and below it, oldest first."""
        self._blocked: set[str] = set()
        """Blocked sessions, and those above them."""
        self._parents: dict[str, str | None] = {}

    def read(self, rows: Sequence[SessionRow]) -> Pieces[None]:
        """Read what the views of these sessions need and is not known yet, in pieces: one query each."""
        open_roots = dict.fromkeys(row.root for row in rows if row.outcome is None)
        self._waits = self._find_waits([row.id for row in rows if row.outcome is None]) if open_roots else {}
        if len(self._known) > MOST:
            yield from self.forget()
            self._begin()
        self._parents.update((row.id, row.parent) for row in rows if row.root in open_roots)
        roots = [root for root in open_roots if root not in self._known]
        if not roots:
            return
        self._known.update(roots)
        self._owners |= self._store.get_owners(roots)
        for asked in pages_in(roots, self._store.find_asked_in, PIECE, attrgetter("root_session")):
            self._take_asked(asked)
            if len(asked) == PIECE:
                yield
        for blocked in pages_in(roots, self._store.find_blocked_in, PIECE, attrgetter("root")):
            self._take_blocked(blocked)
            if len(blocked) == PIECE:
                yield

    def forget(self) -> Pieces[None]:
        """Forget what was read, in pieces: what waits in one tree may be much."""
        while len(self._pending) > MOST:
            for _ in range(MOST):
                self._pending.popitem()
            yield

    def view(self, row: SessionRow) -> SessionView:
        """Return what users see of a session whose tree has been read."""
        is_open = row.outcome is None
        pending = tuple(self._pending.get(row.id, ())) if is_open else ()
        owner = self._owners.get(row.root) if is_open else None
        return SessionView(
            id=row.id,
            parent=row.parent,
            root=row.root,
            agent=row.agent,
            path=row.path,
            status=self._status(row, is_waiting=bool(pending)),
            outcome=_outcome(row.outcome),
            pending_approvals=pending,
            created_at=row.created_at,
            ended_at=row.ended_at,
            position=row.position,
            run=row.runs,
            owner=str(owner) if owner is not None else None,
            running=owner is not None,
            blocked=block_of(self._store, row),
            usage=row.spent + row.spent_below,
            own_usage=row.spent,
            limit=self._waits.get(row.id) or limit_of(self._store, row),
        )

    def _status(self, row: SessionRow, *, is_waiting: bool) -> SessionStatus:
        if row.outcome is not None:
            return "completed" if row.outcome.kind in ("succeeded", "cancelled") else "error"
        if row.id in self._blocked:
            return "blocked"
        return "waiting_approval" if is_waiting else "active"

    def _take_asked(self, asked: Sequence[Approval]) -> None:
        self._know_parents(approval.session for approval in asked)
        for approval in asked:
            if as_of(approval, self._has_passed).status != "pending":
                continue
            session: str | None = approval.session
            while session is not None:
                self._pending.setdefault(session, []).append(approval)
                session = self._parents.get(session)

    def _take_blocked(self, rows: Sequence[SessionRow]) -> None:
        self._know_parents(row.id for row in rows)
        for row in rows:
            session: str | None = row.id
            while session is not None and session not in self._blocked:
                self._blocked.add(session)
                session = self._parents.get(session)

    def _know_parents(self, sessions: Iterable[str]) -> None:
        """Read the way up from these sessions: one query for each level that is not known."""
        unknown = {session for session in sessions if session not in self._parents}
        while unknown:
            rows = self._store.get_sessions(unknown)
            self._parents.update((row.id, row.parent) for row in rows)
            unknown = {row.parent for row in rows if row.parent is not None and row.parent not in self._parents}


def block_of(store: Store, row: SessionRow) -> Block | None:
    """Return why a session is blocked; None if it is not."""
    if row.blocked is None or row.outcome is not None:
        return None
    said = [
        entry.event.block for entry in store.rows(row.blocked - 1, row.blocked) if isinstance(entry.event, e.RunBlocked)
    ]
    return said[0] if said else Block(why="path", cause="the entry that says why cannot be read")


def limit_of(store: Store, row: SessionRow) -> LimitWait | None:
    """Return the limit for which a session that has left memory waits, by its journal; None if it waits for none."""
    if not row.waits_for_limit or row.outcome is not None:
        return None
    last = [entry.event for entry in store.journal(row.id, only=(e.RunPassivated.__name__,))][-1:]
    keys = [key for event in last if isinstance(event, e.RunPassivated) for key in event.waiting_for]
    return next((LimitWait(name=shown_name(name)) for key in keys if (name := name_of(key)) is not None), None)


def _outcome(outcome: Outcome[Any] | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {"kind": outcome.kind, "value": outcome.value, "cause": hide(outcome.cause)}
