"""Forks, appended: a new tree begins with a copy of another one in one append (core/forking.py)."""

from collections.abc import Iterator
from datetime import datetime

from supervisor.core import events as e
from supervisor.core.errors import SessionConflict
from supervisor.core.forking import Cut, copy_tree, later_calls
from supervisor.core.rows import Row
from supervisor.core.values import Fork
from supervisor.runtime.journal import Entry, View


class Forking:
    """A fork that is about to be appended: before entry `entry` of `session`, whose root is `root`."""

    def __init__(self, root: str, session: str, entry: int, fork: str) -> None:
        self.root = root
        self.session = session
        self.entry = entry
        self.fork = fork
        self.made: Fork | None = None

    def events(self, view: View, by: str, version: str | None, now: datetime) -> Iterator[Entry]:
        """Yield the copies of all sessions, what says where they are from, and what says so in the source.

        Raises InvalidInput; SessionConflict if the new session is there already.
        """
        if view.find_session(self.fork) is not None:
            raise SessionConflict(f"there is a session {self.fork} already; choose another id for the fork")
        cut = Cut(_rows_of_tree(view, self.root), self.session, self.entry)
        sessions, entries, copied = copy_tree(cut, self.fork)
        yield from entries
        for old, new in sessions.items():
            before, its_version = cut.entries_of(old) + 1, version if old == self.root else None
            yield new, e.SessionForked(at=now, source=old, before=before, by=by, version=its_version)
        before = cut.entries_of(self.root) + 1
        yield self.root, e.ForkTaken(at=now, fork=self.fork, before=before, by=by)
        calls = tuple(later_calls(cut, copied))
        self.made = Fork(session=self.fork, source=self.root, before=before, later_calls=calls)


def _rows_of_tree(view: View, root: str) -> list[Row]:
    """Return the entries of all sessions of a tree, as they are on disk, in order."""
    found = [row for session in view.store.find_sessions(root=root) for row in view.store.journal(session.id)]
    return sorted(found, key=lambda row: row.position)
