"""The index of a store in a database: entries are read for a batch, and written if the batch changes them.

Theory: events of one session come in bursts: its decision, its call, the call's result, its end. A query costs about as
much as all other work on an entry, so entries that were read or written lately are cached, as long as no other process
has written to the store. That is known at the beginning of each transaction (Store.begin).

Rules
- The changes of a transaction are cached only from its commit on; the transaction itself sees them at once.
- At most MOST entries of a kind are cached; then all are dropped: work on more of them reads many with one query.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from supervisor.core.rows import JournalEntry
from supervisor.store.index import columns
from supervisor.store.index.projection import Draft, touched

MOST: Final = 4096


E = TypeVar("E")
Read = Callable[..., list[Any]]


class _Entries(Generic[E]):
    """Entries of one kind: the cached ones, and over them those of the current transaction."""

    def __init__(self, query: str, convert: Callable[[columns.Columns], E]) -> None:
        self._query = query
        self._convert = convert
        self._kept: dict[str, E] = {}
        self.drafted: dict[str, E] = {}

    def find(self, read: Read, ids: Iterable[str]) -> list[E]:
        """Return the entries of these ids that exist; those that must be read, with one query."""
        known = {id_: entry for id_ in ids if (entry := self.drafted.get(id_) or self._kept.get(id_)) is not None}
        if unknown := [id_ for id_ in ids if id_ not in known]:
            found = map(self._convert, read(self._query, msgspec.json.encode(unknown).decode(), writing=True))
            return [*known.values(), *found]
        return list(known.values())

    def keep(self) -> None:
        if len(self._kept) + len(self.drafted) > MOST:
            self._kept.clear()
        if len(self.drafted) <= MOST:
            self._kept |= self.drafted
        self.drafted = {}

    def forget(self) -> None:
        self._kept.clear()


class Index:
    """The entries of one store, for its writer; `read` and `change` run queries."""

    def __init__(self, read: Read, change: Callable[[str, Sequence[columns.Columns]], None]) -> None:
        self._read = read
        self._change = change
        self._sessions = _Entries("session_entries", columns.session_entry)
        self._approvals = _Entries("approval_entries", columns.approval_entry)

    def draft(self, rows: Iterable[JournalEntry]) -> Draft:
        """Return the entries that these rows concern."""
        keys = touched(rows)
        sessions = self._sessions.find(self._read, keys.sessions)
        return Draft(sessions, self._approvals.find(self._read, keys.approvals))

    def put(self, draft: Draft) -> None:
        """Write the entries that a draft has made or changed."""
        written = draft.written()
        self._write("add_session", columns.new_session, written.new_sessions)
        self._write("change_session", columns.changed_session, written.changed_sessions)
        self._write("add_approval", columns.new_approval, written.new_approvals)
        self._write("add_words", columns.words, written.new_approvals)
        self._write("change_approval", columns.changed_approval, written.changed_approvals)
        self._write("add_spent", columns.spent_columns, draft.spent.items())
        self._sessions.drafted |= draft.sessions
        self._approvals.drafted |= {name: entry.without_words() for name, entry in draft.approvals.items()}

    def _write(self, query: str, columns_of: Callable[[E], columns.Columns], entries: Collection[E]) -> None:
        if entries:
            self._change(query, [*map(columns_of, entries)])

    def commit(self) -> None:
        self._sessions.keep()
        self._approvals.keep()

    def rollback(self) -> None:
        self._sessions.drafted = {}
        self._approvals.drafted = {}

    def forget(self) -> None:
        """Drop the cache: the file was written without this index."""
        self.rollback()
        self._sessions.forget()
        self._approvals.forget()
