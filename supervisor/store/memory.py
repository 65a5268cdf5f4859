"""A store that ends with its process: for tests, and for runs that need no resume.

It keeps what the durable store keeps, the encoded events and the same index, so that its values, too, are decoded from
bytes. A transaction is a draft: a commit merges it, a rollback drops it. (It has more than 400 lines: it is one class,
whose methods are those of Store.)
"""

import os
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from itertools import islice, takewhile
from operator import attrgetter, itemgetter
from typing import Final, TypeVar

from msgspec.structs import replace

from supervisor.core.errors import IllegalEvent
from supervisor.core.events import SessionCreated
from supervisor.core.ids import STORE_JOURNALS
from supervisor.core.rows import ApprovalFilter, Continued, Counts, JournalEntry, Owner, SessionRow
from supervisor.core.store_urls import MEMORY
from supervisor.core.text.words import as_needles
from supervisor.core.usage import NOTHING, Spent
from supervisor.core.values import Approval
from supervisor.seam.store import Store
from supervisor.store.index.listing import (
    as_asked,
    as_ended,
    as_shown,
    read_operation,
    read_path,
    session_row,
)
from supervisor.store.index.projection import (
    ApprovalEntry,
    Draft,
    SessionEntry,
    body_of,
    read_known_rows,
    read_rows,
    touched,
)
from supervisor.system.forks import inherited

T = TypeVar("T")
Entry = tuple[int, str, bytes]
_position: Final = itemgetter(0)
_BY, _TOOL, _AGENT = (attrgetter(name) for name in ("by", "tool", "agent"))
"""What an approval in the index and a filter have under the same name."""


class MemoryStore(Store):
    """See Store. This process owns every tree, since no other process can reach the store."""

    name = MEMORY
    is_durable = False

    def __init__(self) -> None:
        self.id = secrets.token_hex(5)
        self.unreadable: dict[str, str] = {}
        self._entries: list[Entry] = []
        self._journals: dict[str, Sequence[Entry]] = {}
        self._sessions: dict[str, SessionEntry] = {}
        self._approvals: dict[str, ApprovalEntry] = {}
        self._pending: dict[str, ApprovalEntry] = {}
        self._spent: dict[str, tuple[Spent, Spent]] = {}
        """By session: what it has spent, and what was spent below it."""
        self._in_order = _InOrder()
        self._asked_in_order = _InOrder()
        self._owner = Owner(secrets.token_hex(16), os.uname().nodename, os.getpid(), datetime.now(UTC))
        self._process = os.getpid()
        self._owned: set[str] = set()
        self._draft: _Transaction | None = None
        self._last = self._commits = 0

    def open(self) -> None:
        """Note which process uses the store: there is nothing to open."""
        self._process = os.getpid()

    def close(self) -> None:
        """Keep everything: a test may open the same store again, as another process would."""
        self._draft = None
        self._owned.clear()

    def copy(self) -> "MemoryStore":
        """Return the store that another process would find if this one were killed now."""
        copy = MemoryStore()
        copy.id, copy.unreadable = self.id, dict(self.unreadable)
        copy._entries, copy._last, copy._commits = list(self._entries), self._last, self._commits
        copy._journals = {session: list(entries) for session, entries in self._journals.items()}
        copy._sessions, copy._approvals = dict(self._sessions), dict(self._approvals)
        copy._pending, copy._spent = dict(self._pending), dict(self._spent)
        copy._in_order, copy._asked_in_order = deepcopy((self._in_order, self._asked_in_order))
        return copy

    @property
    def generation(self) -> int:  # type: ignore[override] # of every supervisor on it, including ours
        """How many commits there were, of all supervisors."""
        return self._commits

    def begin(self) -> bool:
        if os.getpid() != self._process:
            raise inherited(self.name)
        assert self._draft is None, "a transaction is open"
        self._draft = _Transaction(self.last_position())
        return True

    def write(self, rows: Sequence[JournalEntry]) -> None:
        transaction = self._transaction
        keys = touched(rows)
        draft = Draft(
            [entry for name in keys.sessions if (entry := self._session(name)) is not None],
            [found for name in keys.approvals if (found := self._approval(name)) is not None],
        )
        for row in rows:
            if row.position <= transaction.last:
                raise IllegalEvent(f"position {row.position} is taken: read what is new before writing")
            is_known = row.session in draft.sessions or self._session(row.session) is not None
            if row.session not in STORE_JOURNALS and isinstance(row.event, SessionCreated) == is_known:
                raise IllegalEvent(f"session {row.session} must have one beginning, and have it first")
            transaction.last = row.position
            transaction.entries.append((row.position, row.session, body_of(row)))
            draft.take(row)
        transaction.sessions.update(draft.sessions)
        transaction.approvals.update(draft.approvals)
        transaction.spent.append(draft.spent)

    def commit(self) -> None:
        transaction, self._draft = self._transaction, None
        self._commits += 1
        self._forget(transaction.removed)
        self._last = transaction.last
        self._entries += transaction.entries
        for entry in transaction.entries:
            self._journals[entry[1]] = _longer(self._journals.get(entry[1], ()), entry)
        for session in transaction.sessions.values():
            if session.id not in self._sessions:
                self._in_order.add(session.created, session.id, session.root)
            self._sessions[session.id] = session
        for approval in transaction.approvals.values():
            if approval.id not in self._approvals:
                self._asked_in_order.add(approval.asked, approval.id, self._sessions[approval.session].root)
            self._approvals[approval.id] = approval
            if approval.now.status == "pending":
                self._pending[approval.id] = approval
            else:
                self._pending.pop(approval.id, None)
        for spender, spent in (each for some in transaction.spent for each in some.items()):
            self._add_spent(spender, spent)
        self._owned |= transaction.owned

    def _add_spent(self, session: str, spent: Spent) -> None:
        above: str | None = session
        while above is not None:
            own, below = self._spent.get(above, (NOTHING, NOTHING))
            self._spent[above] = (own + spent, below) if above == session else (own, below + spent)
            above = self._sessions[above].parent if above in self._sessions else None

    def rollback(self) -> None:
        self._draft = None

    def rows(self, after: int, to: int | None = None, only: Collection[str] | None = None) -> list[JournalEntry]:
        first = bisect_right(self._entries, after, key=_position)
        end = None if to is None else bisect_right(self._entries, to, key=_position)
        return read_known_rows(_of(only, self._entries[first:end]), self.unreadable)

    def journal(
        self, session: str, after: int = 0, limit: int | None = None, only: Collection[str] | None = None
    ) -> list[JournalEntry]:
        entries = self._journals.get(session, ())
        start = bisect_right(entries, after, key=_position)
        end = start + limit if limit is not None and only is None else None
        return read_rows(_of(only, entries[start:end])[:limit])

    def last_position(self) -> int:
        return max(self._last, self._entries[-1][0] if self._entries else 0)

    def has_changed(self) -> bool:
        return False

    def get_session(self, session: str) -> SessionRow | None:
        entry = self._sessions.get(session)
        return None if entry is None else self._session_row(entry)

    def latest_run(self, session: str) -> tuple[int, JournalEntry | None] | None:
        if (entry := self._sessions.get(session)) is None:
            return None
        body = self._body(session, entry.finished)
        end = [] if entry.finished is None or body is None else read_rows([(entry.finished, session, body)])
        return entry.runs, next(iter(end), None)

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
        found = (
            entry
            for entry in map(self._sessions.__getitem__, self._in_order.of(root, after, newest_first=newest_first))
            if (is_open is None or (entry.finished is None) == is_open)
            and (is_awake is None or (entry.finished is None and (entry.waiting_for is None) == is_awake))
        )
        return [self._session_row(entry) for entry in islice(found, limit)]

    def get_sessions(self, sessions: Collection[str]) -> list[SessionRow]:
        return [self._session_row(self._sessions[name]) for name in sessions if name in self._sessions]

    def find_continued(self, root: str, after: int, start: int, limit: int) -> list[Continued]:
        begun = (self._sessions[name] for name in self._in_order.of(root, start))
        found = []
        for entry in takewhile(lambda entry: entry.created <= after, islice(begun, limit)):
            journal = self._journals[entry.id]
            place = bisect_right(journal, after, key=_position)
            found.append(Continued(entry.created, entry.id, journal[place][0] if place < len(journal) else None))
        return found

    def next_due(self) -> list[tuple[str, datetime]]:
        due = [(entry.due_at, entry.created, entry.id) for entry in self._sessions.values() if entry.due_at is not None]
        return [(session, due_at) for due_at, _, session in sorted(due)]

    def find_asking(self, approval: str) -> tuple[str, str] | None:
        entry = self._approvals.get(approval)
        asked = None if entry is None else self._body(entry.session, entry.asked)
        return None if entry is None or asked is None else (entry.session, read_operation(asked))

    def get_approval(self, approval: str) -> Approval | None:
        entry = self._approvals.get(approval)
        return None if entry is None else self._approval_row(entry)

    def find_approvals(
        self,
        *,
        pending: bool = True,
        root: str | None = None,
        session: str | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[Approval]:
        entries = self._pending if pending else self._approvals
        names = (name for name in self._asked_in_order.of(root, after) if name in entries)
        found = (entries[name] for name in names if session in (None, entries[name].session))
        return [self._approval_row(entry) for entry in islice(found, limit)]

    def search_approvals(
        self, only: ApprovalFilter, *, root: str | None = None, after: int | None = None, limit: int | None = None
    ) -> list[Approval]:
        names = self._asked_in_order.of(root, after, newest_first=only.newest_first)
        found: Iterable[ApprovalEntry] = map(self._approvals.__getitem__, names)
        if needles := as_needles(only.words):
            found = (entry for entry in found if all(needle in entry.words for needle in needles))
        for of in (_BY, _TOOL, _AGENT):
            if (wanted := of(only)) is not None:
                found = _equal(found, of, wanted)
        if (before := only.before) is not None:
            found = (entry for entry in found if entry.at < before)
        if only.decided is not None:
            found = (entry for entry in found if only.has_status(entry.now.status))
        return [self._approval_row(entry) for entry in islice(found, limit)]

    def find_asked_in(self, roots: Sequence[str], after: int, limit: int) -> list[Approval]:
        found = (name for name in self._asked_in_order.of_each(roots, after) if name in self._pending)
        return [self._approval_row(self._pending[name]) for name in islice(found, limit)]

    def find_blocked_in(self, roots: Sequence[str], after: int, limit: int) -> list[SessionRow]:
        entries = (self._sessions[name] for name in self._in_order.of_each(roots, after))
        found = (entry for entry in entries if entry.blocked is not None and entry.finished is None)
        return [self._session_row(entry) for entry in islice(found, limit)]

    def find_shown(self) -> list[Approval]:
        entries = (entry for entry in self._approvals.values() if entry.now.cards and entry.now.status != "pending")
        return [self._approval_row(entry) for entry in sorted(entries, key=lambda entry: entry.asked)]

    def counts(self) -> Counts:
        since = next((oldest.created_at for oldest in self.find_approvals(limit=1)), None)
        count_open = sum(entry.finished is None for entry in self._sessions.values())
        blocked = sum(entry.blocked is not None and entry.finished is None for entry in self._sessions.values())
        return Counts(len(self._sessions), count_open, len(self._pending), since, blocked)

    def measure(self, root: str) -> tuple[int, int]:
        sizes = [len(entry[2]) for name in self._tree({root}) for entry in self._journals[name]]
        return len(sizes), sum(sizes)

    def remove(self, root: str) -> None:
        self._transaction.remove(root, self._tree({root}))

    def _tree(self, roots: set[str]) -> set[str]:
        return {name for root in roots for name in self._in_order.of(root)}

    def _forget(self, roots: set[str]) -> None:
        if not roots:
            return
        gone = self._tree(roots)
        self._entries = [entry for entry in self._entries if entry[1] not in gone]
        for session in gone:
            del self._journals[session], self._sessions[session]
            self._spent.pop(session, None)
        for approval in [each for each in self._approvals.values() if each.session in gone]:
            del self._approvals[approval.id]
            self._pending.pop(approval.id, None)
        self._in_order.forget(roots)
        self._asked_in_order.forget(roots)
        self._owned -= roots

    def claim(self, root: str) -> Owner | None:
        self._transaction.owned.add(root)
        return None

    def get_owner(self, root: str) -> Owner | None:
        return self._owner if root in self._owned else None

    def get_owners(self, roots: Sequence[str]) -> dict[str, Owner]:
        return {root: self._owner for root in roots if root in self._owned}

    def owners(self) -> list[Owner]:
        return [self._owner] if self._owned else []

    def owns(self, root: str) -> bool:
        return root in self._owned

    @property
    def _transaction(self) -> "_Transaction":
        assert self._draft is not None, "no transaction is open"
        return self._draft

    def _session(self, session: str) -> SessionEntry | None:
        """Return an entry as the transaction left it, or else as it was committed."""
        transaction, kept = self._transaction, self._sessions.get(session)
        return transaction.sessions.get(session) or (None if session in transaction.gone else kept)

    def _approval(self, approval: str) -> ApprovalEntry | None:
        transaction, kept = self._transaction, self._approvals.get(approval)
        is_gone = kept is not None and kept.session in transaction.gone
        return transaction.approvals.get(approval) or (None if is_gone else kept)

    def _body(self, session: str, position: int | None) -> bytes | None:
        if position is None:
            return None
        entries = self._journals[session]
        return entries[bisect_right(entries, position - 1, key=_position)][2]

    def _session_row(self, entry: SessionEntry) -> SessionRow:
        created = self._body(entry.id, entry.created)
        assert created is not None
        found = session_row(entry, read_path(created), created, self._body(entry.id, entry.finished))
        own, below = self._spent.get(entry.id, (NOTHING, NOTHING))
        return replace(found, spent=own, spent_below=below)

    def _approval_row(self, entry: ApprovalEntry) -> Approval:
        session = self._sessions[entry.session]
        created, asked = self._body(session.id, session.created), self._body(session.id, entry.asked)
        assert created is not None
        assert asked is not None
        now = entry.now
        found = as_asked(entry.id, session.id, entry.asked, read_path(created), created, asked)
        names, reminded = (*now.cards, *now.votes, *now.evidence), self._body(session.id, now.reminded)
        found = as_shown(found, names, reminded, lambda position: self._body(session.id, position) or b"")
        ended = self._body(session.id, now.ended)
        return found if ended is None else as_ended(found, now.status, ended)


SMALL = 16
"""The most positions of a tree, and entries of a journal, that are in a tuple."""


def _longer(known: Sequence[T], new: T) -> Sequence[T]:
    """Return a sequence with one more item. Most trees and journals are short, and there may be many. So short ones are
    tuples, which the garbage collector does not visit again, and only long ones are lists."""
    if isinstance(known, list):
        known.append(new)
        return known
    return (*known, new) if len(known) < SMALL else [*known, new]


class _InOrder:
    """The ids of sessions, or of approvals, by the positions of their first entries: all of them, and each tree's."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._all: list[int] = []
        self._of_tree: dict[str, Sequence[int]] = {}

    def add(self, position: int, name: str, root: str) -> None:
        """Add the newest one."""
        self._names[position] = name
        self._all.append(position)
        self._of_tree[root] = _longer(self._of_tree.get(root, ()), position)

    def of(self, root: str | None, after: int | None = None, *, newest_first: bool = False) -> Iterator[str]:
        """Yield those of a tree, or all, after a position; with `newest_first` in the other order, before it."""
        found = self._all if root is None else self._of_tree.get(root, ())
        if newest_first:
            last = len(found) if after is None else bisect_left(found, after)
            return (self._names[found[place]] for place in range(last - 1, -1, -1))
        first = 0 if after is None else bisect_right(found, after)
        return (self._names[found[place]] for place in range(first, len(found)))

    def of_each(self, roots: Sequence[str], after: int) -> Iterator[str]:
        """Yield those of some trees, one tree after the other; those of the first tree after a position."""
        for number, root in enumerate(roots):
            yield from self.of(root, 0 if number else after)

    def forget(self, roots: set[str]) -> None:
        """Forget trees."""
        gone = {position for root in roots for position in self._of_tree.pop(root, ())}
        for position in gone:
            del self._names[position]
        self._all = [position for position in self._all if position not in gone]


class _Transaction:
    """The changes that a commit will merge, after it has removed the trees that are gone."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.entries: list[Entry] = []
        self.sessions: dict[str, SessionEntry] = {}
        self.approvals: dict[str, ApprovalEntry] = {}
        self.spent: list[dict[str, Spent]] = []
        self.owned: set[str] = set()
        self.removed: set[str] = set()
        self.gone: set[str] = set()
        """The sessions of removed trees, as they were committed."""

    def remove(self, root: str, tree: set[str]) -> None:
        self.removed.add(root)
        self.owned.discard(root)
        self.gone |= tree
        tree = tree | {entry.id for entry in self.sessions.values() if entry.root == root}
        self.entries = [entry for entry in self.entries if entry[1] not in tree]
        self.sessions = {name: entry for name, entry in self.sessions.items() if name not in tree}
        self.approvals = {name: entry for name, entry in self.approvals.items() if entry.session not in tree}


def _of(names: Collection[str] | None, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries of the events with these names; None: all of them."""
    if names is None:
        return entries
    beginnings = tuple(f'{{"event":"{name}",'.encode() for name in names)
    return [entry for entry in entries if entry[2].startswith(beginnings)]


def _equal(found: Iterable[ApprovalEntry], of: "attrgetter[str]", wanted: str) -> Iterator[ApprovalEntry]:
    return (entry for entry in found if of(entry) == wanted)
