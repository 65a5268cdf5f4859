"""A store that ends with its process: for tests, and for runs that need no resume.

It keeps what the durable store keeps, the encoded events and the same index, so that its values, too, are decoded from
bytes. A transaction is a draft: a commit merges it, a rollback drops it.
"""

import os
import secrets
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime

from supervisor.abc import Counts, JournalEntry, Owner, SessionRow, Store
from supervisor.core.errors import IllegalEvent
from supervisor.core.events import SessionCreated
from supervisor.core.ids import RULES
from supervisor.core.store_urls import MEMORY
from supervisor.core.values import Approval
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

Entry = tuple[int, str, bytes]


class MemoryStore(Store):
    """See Store. This process owns every tree, since no other process can reach the store."""

    name = MEMORY
    is_durable = False

    def __init__(self) -> None:
        self.id = secrets.token_hex(5)
        self.unreadable: dict[str, str] = {}
        self._entries: list[Entry] = []
        self._journals: dict[str, list[Entry]] = {}
        self._sessions: dict[str, SessionEntry] = {}
        self._approvals: dict[str, ApprovalEntry] = {}
        self._pending: dict[str, ApprovalEntry] = {}
        self._owner = Owner(secrets.token_hex(16), os.uname().nodename, os.getpid(), datetime.now(UTC))
        self._owned: set[str] = set()
        self._draft: _Transaction | None = None
        self._last = self._commits = 0

    def open(self) -> None:
        """Do nothing: there is nothing to open."""

    def close(self) -> None:
        """Keep everything: a test may open the same store again, as another process would."""
        self._draft = None
        self._owned.clear()

    @property
    def generation(self) -> int:  # type: ignore[override] # of every supervisor on it, including ours
        """How many commits there were, of all supervisors."""
        return self._commits

    def begin(self) -> bool:
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
            if row.session != RULES and isinstance(row.event, SessionCreated) == is_known:
                raise IllegalEvent(f"session {row.session} must have one beginning, and have it first")
            transaction.last = row.position
            transaction.entries.append((row.position, row.session, body_of(row)))
            draft.take(row)
        transaction.sessions.update(draft.sessions)
        transaction.approvals.update(draft.approvals)

    def commit(self) -> None:
        transaction, self._draft = self._transaction, None
        self._commits += 1
        self._forget(transaction.removed)
        self._last = transaction.last
        self._entries += transaction.entries
        for entry in transaction.entries:
            self._journals.setdefault(entry[1], []).append(entry)
        self._sessions.update(transaction.sessions)
        for approval in transaction.approvals.values():
            self._approvals[approval.id] = approval
            if approval.status == "pending":
                self._pending[approval.id] = approval
            else:
                self._pending.pop(approval.id, None)
        self._owned |= transaction.owned

    def rollback(self) -> None:
        self._draft = None

    def rows(self, after: int, to: int | None = None) -> list[JournalEntry]:
        first = bisect_right(self._entries, after, key=_position)
        end = None if to is None else bisect_right(self._entries, to, key=_position)
        return read_known_rows(self._entries[first:end], self.unreadable)

    def journal(self, session: str, after: int = 0) -> list[JournalEntry]:
        entries = self._journals.get(session, [])
        return read_rows(entries[bisect_right(entries, after, key=_position) :])

    def last_position(self) -> int:
        return max(self._last, self._entries[-1][0] if self._entries else 0)

    def has_changed(self) -> bool:
        return False

    def get_session(self, session: str) -> SessionRow | None:
        entry = self._sessions.get(session)
        return None if entry is None else self._session_row(entry)

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
        found = [
            entry
            for entry in sorted(self._sessions.values(), key=lambda entry: entry.created, reverse=newest_first)
            if (after is None or (entry.created < after if newest_first else entry.created > after))
            and (root is None or entry.root == root)
            and (is_open is None or (entry.finished is None) == is_open)
            and (is_awake is None or (entry.finished is None and (entry.waiting_for is None) == is_awake))
        ]
        return [self._session_row(entry) for entry in found[:limit]]

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
        found = [
            entry
            for entry in sorted(entries.values(), key=lambda entry: entry.asked)
            if entry.asked > after
            and (session is None or entry.session == session)
            and (root is None or self._sessions[entry.session].root == root)
        ]
        return [self._approval_row(entry) for entry in found[:limit]]

    def find_shown(self) -> list[Approval]:
        entries = (entry for entry in self._approvals.values() if entry.shown and entry.status != "pending")
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
        return {entry.id for entry in self._sessions.values() if entry.root in roots}

    def _forget(self, roots: set[str]) -> None:
        if not roots:
            return
        gone = self._tree(roots)
        self._entries = [entry for entry in self._entries if entry[1] not in gone]
        for session in gone:
            del self._journals[session], self._sessions[session]
        for approval in [each for each in self._approvals.values() if each.session in gone]:
            del self._approvals[approval.id]
            self._pending.pop(approval.id, None)
        self._owned -= roots

    def claim(self, root: str) -> Owner | None:
        self._transaction.owned.add(root)
        return None

    def get_owner(self, root: str) -> Owner | None:
        return self._owner if root in self._owned else None

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
        return session_row(entry, read_path(created), created, self._body(entry.id, entry.finished))

    def _approval_row(self, entry: ApprovalEntry) -> Approval:
        session = self._sessions[entry.session]
        created, asked = self._body(session.id, session.created), self._body(session.id, entry.asked)
        assert created is not None
        assert asked is not None
        decided, reminded = (self._body(session.id, position) for position in (entry.decided, entry.reminded))
        found = as_asked(entry.id, session.id, entry.asked, read_path(created), created, asked)
        found = as_shown(found, entry.shown, reminded)
        return found if decided is None else as_ended(found, entry.status, decided)


class _Transaction:
    """The changes that a commit will merge, after it has removed the trees that are gone."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.entries: list[Entry] = []
        self.sessions: dict[str, SessionEntry] = {}
        self.approvals: dict[str, ApprovalEntry] = {}
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


def _position(entry: Entry) -> int:
    return entry[0]
