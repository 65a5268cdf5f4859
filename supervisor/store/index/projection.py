"""The index of a store: its sessions and approvals, computed from the events.

Every store uses this one mechanism: `touched` says which entries a batch may change, `Draft.take` changes them, and the
store writes those that differ. `listing` makes the values that people see.

Rules
- An entry has positions and states, never payload. All of it can be computed again from the events.
- A passivated session is asleep here as long as its journal says so: the tables of the core decide that.
- An event that this program cannot read changes no entry; reading its session raises the error.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.state import ASKS, ENDS_APPROVAL, PENDING, ApprovalState, asked_by
from supervisor.core.blocking import BLOCKED, blocked_at
from supervisor.core.errors import StoreUnreadable
from supervisor.core.events.asking import is_copied
from supervisor.core.ids import STORE_JOURNALS
from supervisor.core.rows import EncodedRow, JournalEntry
from supervisor.core.sessions.state import WAKING
from supervisor.core.usage import NOTHING, Spent, spent_by
from supervisor.store.index.searching import words_asked

_MOVING: Final = {*e.having("begins run", "ends block", "wakes"), e.RunBlocked, *e.SLEEPING, *e.ANSWERS}
"""Events that change a session's entry."""
_ENDS_BLOCK: Final = e.having("ends block")
_INDEXED: Final = {e.SessionCreated, *ASKS, *ENDS_APPROVAL, *e.having("card", "reminds", "votes", "evidence")}
"""Events that begin an entry, or change an approval's."""
NEVER: Final = datetime.fromtimestamp(0, UTC)
ROUGHLY: Final = timedelta(hours=1)
"""The precision of an entry's time of the last event: to write it each time would be a third of a decision's cost."""


class SessionEntry(msgspec.Struct, frozen=True, gc=False):
    """A session in the index. `created` and `finished` (an import has finished when it starts) are positions. What it
    waits for, and until when, is set only while it is asleep. A blocked session waits for BLOCKED, and for the position
    of the entry that says why."""

    id: str
    root: str
    created: int
    last_at: datetime
    waiting_for: tuple[str, ...] | None = None
    due_at: datetime | None = None
    finished: int | None = None
    runs: int = 0
    parent: str | None = None
    """Like the root, it is only needed to make the entry."""
    agent: str = ""
    """Like the root, it is only needed to make entries."""

    @property
    def blocked(self) -> int | None:
        """The position of the entry that says why it is blocked; None if it is not."""
        return blocked_at(self.waiting_for)


class ApprovalEntry(msgspec.Struct, frozen=True, gc=False):
    """An approval in the index. `asked` is a position; `now` has positions and names. `by`: who decided. What is asked
    does not change, and is only needed to make the entry."""

    id: str
    session: str
    asked: int
    now: ApprovalState = PENDING
    by: str | None = None
    at: datetime = NEVER
    tool: str = ""
    agent: str = ""
    words: str = ""
    """By which it is found (store/index/searching.py)."""

    def without_words(self) -> "ApprovalEntry":
        """Return the entry as it is cached: its words may be long."""
        return replace(self, words="") if self.words else self


class Touched(NamedTuple):
    """The ids of the sessions and approvals that a batch of entries concerns."""

    sessions: set[str]
    approvals: set[str]


def touched(rows: Iterable[JournalEntry]) -> Touched:
    """Return the index entries that must be read before these rows can be taken."""
    found = Touched(set(), set())
    made: set[str] = set()
    for row in rows:
        event = row.event
        if row.session not in STORE_JOURNALS:
            found.sessions.add(row.session)
        if type(event) not in _INDEXED:
            continue
        match event:
            case e.SessionCreated():
                made.add(row.session)
            case _ if (approval := e.approval_in(event)) is not None:
                (found.approvals if asked_by(event) is None else made).add(approval)
            case _:
                pass
    return Touched(found.sessions - made, found.approvals - made)


class Written(NamedTuple):
    """The entries that a batch makes, and those that it changes."""

    new_sessions: list[SessionEntry]
    changed_sessions: list[SessionEntry]
    new_approvals: list[ApprovalEntry]
    changed_approvals: list[ApprovalEntry]


class Draft:
    """The index entries that a batch touches: before, and after it."""

    def __init__(self, sessions: Iterable[SessionEntry] = (), approvals: Iterable[ApprovalEntry] = ()) -> None:
        self.sessions = {entry.id: entry for entry in sessions}
        self.approvals = {entry.id: entry for entry in approvals}
        self.spent: dict[str, Spent] = {}
        """By session: what the batch adds to what it has spent. The store adds it to the session's sum, and to the sum
        of what is below it of each session above."""
        self._old_sessions = self.sessions.copy()
        self._old_approvals = self.approvals.copy()

    def take(self, row: JournalEntry) -> None:
        """Apply one journal entry."""
        event = row.event
        if type(event) in _INDEXED:
            self._index(row, event)
        if type(event) in _MOVING:
            self._move(row)
        if type(event) is e.UsageSpent:
            self.spent[row.session] = self.spent.get(row.session, NOTHING) + spent_by(event.usage)

    def _index(self, row: JournalEntry, event: e.AnyEvent) -> None:
        match event:
            case e.SessionCreated():
                self.sessions[row.session] = SessionEntry(
                    row.session,
                    event.root,
                    row.position,
                    event.at,
                    parent=event.parent,
                    agent=event.path[-1] if event.path else "",
                )
            case _ if (approval := e.approval_in(event)) is None or is_copied(approval):
                pass
            case _ if (now := asked_by(event)) is not None:
                self.approvals[approval] = ApprovalEntry(
                    approval,
                    row.session,
                    row.position,
                    now,
                    at=event.at,
                    tool=getattr(event, "tool", ""),
                    agent=self.sessions[row.session].agent if row.session in self.sessions else "",
                    words=words_asked(event),
                )
            case _ if (old := self.approvals.get(approval)) is not None:
                if (now := old.now.apply(event, row.position)) is not old.now:
                    by = getattr(event, "by", None) if now.ended is not old.now.ended else old.by
                    self.approvals[approval] = replace(old, now=now, by=by)
            case _:
                pass

    def written(self) -> "Written":
        """Return the entries that the batch has made or changed."""
        found = Written([], [], [], [])
        for session in self.sessions.values():
            if (before := self._old_sessions.get(session.id)) is not session:
                (found.new_sessions if before is None else found.changed_sessions).append(session)
        for approval in self.approvals.values():
            if (known := self._old_approvals.get(approval.id)) is not approval:
                (found.new_approvals if known is None else found.changed_approvals).append(approval)
        return found

    def _move(self, row: JournalEntry) -> None:
        """As in the fold of a session: an event that it does not wait for does not wake it."""
        event, old = row.event, self.sessions.get(row.session)
        if old is None:
            return
        waiting_for, due_at, finished = old.waiting_for, old.due_at, old.finished
        if isinstance(event, e.RunBlocked):
            waiting_for, due_at = (BLOCKED, str(row.position)), None
        elif old.blocked is not None:
            if type(event) in _ENDS_BLOCK:
                waiting_for = None
        elif isinstance(event, e.SLEEPING):
            waiting_for, due_at = event.waiting_for, event.due_at
        elif waiting_for is not None and (type(event) in WAKING or e.answers(event) in waiting_for):
            waiting_for = due_at = None
        if isinstance(event, e.RunStarted):
            finished = None
        elif isinstance(event, e.RunFinished | e.ImportStarted):
            finished = row.position
        runs = old.runs + (type(event) in e.BEGINS_RUN)
        if (waiting_for, due_at, finished, runs) != (old.waiting_for, old.due_at, old.finished, old.runs) or not (
            old.last_at <= event.at < old.last_at + ROUGHLY
        ):
            self.sessions[row.session] = replace(
                old, last_at=event.at, waiting_for=waiting_for, due_at=due_at, finished=finished, runs=runs
            )


def body_of(row: JournalEntry) -> bytes:
    """Return an entry as it is written."""
    return row.body if isinstance(row, EncodedRow) else e.encode_event(row.event)


def read_rows(rows: Sequence[tuple[int, str, bytes]]) -> list[JournalEntry]:
    """Decode journal entries; raises StoreUnreadable at the first one that cannot be read."""
    return [JournalEntry(position, session, e.decode_event(body)) for position, session, body in rows]


def read_known_rows(rows: Iterable[tuple[int, str, bytes]], unreadable: dict[str, str]) -> list[JournalEntry]:
    """Decode journal entries; leave out those that cannot be read, and name their sessions in `unreadable`."""
    found = []
    for position, session, body in rows:
        try:
            found.append(JournalEntry(position, session, e.decode_event(body)))
        except StoreUnreadable as error:
            unreadable[session] = str(error)
    return found
