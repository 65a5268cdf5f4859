"""Plans that fork: a new tree begins with a copy of another one, in one append (core/sessions/forking.py)."""

from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter

from supervisor.core import events as e
from supervisor.core.errors import SessionConflict
from supervisor.core.sessions.forking import Cut, copy_tree, later_calls
from supervisor.core.values import Fork
from supervisor.runtime.journal.view import Entry, View
from supervisor.seam.store import Store


class Forking:
    """A copy of a tree as it was before entry `before` of `session`, for one append.

    The copy is made before the append, because an append holds the store's lock. Entries before `before` never change.
    Raises InvalidInput.
    """

    def __init__(self, store: Store, root: str, session: str, before: int, fork: str) -> None:
        rows = (row for each in store.find_sessions(root=root) for row in store.journal(each.id))
        cut = Cut(sorted(rows, key=attrgetter("position")), session, before)
        self._sessions, self._entries, copied = copy_tree(cut, fork)
        self._before = {old: cut.entries_of(old) + 1 for old in self._sessions}
        calls = tuple(later_calls(cut, copied))
        self.fork = Fork(session=fork, source=root, before=self._before[root], later_calls=calls)

    def events(self, view: View, by: str, version: str | None, now: datetime) -> Iterator[Entry]:
        """Yield the copied entries of all sessions, a SessionForked in each copy, and a ForkTaken in the source.
        Yield nothing if this same fork was made before.

        Raises SessionConflict if the new session exists and is another one; NotFound if the source is gone.
        """
        root, fork = self.fork.source, self.fork.session
        if (known := view.find_session(fork)) is not None:
            if known.forked is not None and (known.forked.source, known.forked.before) == (root, self.fork.before):
                return
            raise SessionConflict(f"session {fork} exists already; choose another id for the fork")
        view.session(root)
        yield from self.copied(by, version, now)
        yield root, e.ForkTaken(at=now, fork=fork, before=self.fork.before, by=by)

    def copied(self, by: str, version: str | None, now: datetime) -> Iterator[Entry]:
        """Yield the entries of the new tree."""
        yield from self._entries
        for old, new in self._sessions.items():
            its_version = version if old == self.fork.source else None
            yield new, e.SessionForked(at=now, source=old, before=self._before[old], by=by, version=its_version)
