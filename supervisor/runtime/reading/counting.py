"""Counts of a store, without the approvals that have expired before any process has noted that (A10).

The store counts rows of an index, and reads no bodies. When an approval expires is in a body, and never changes. So the
approvals that wait are read once for each process that counts them, and later only those that were asked since. Of
those, the ones whose expiry has passed are looked up again at each count: they are few, since the process that runs a
tree notes an expiry at once.
"""

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from supervisor.core.rows import Counts
from supervisor.runtime.journal.pages import pages_of
from supervisor.runtime.reading.pieces import PIECE, Pieces

if TYPE_CHECKING:
    from supervisor.runtime.reading.reader import Reader


class Counting:
    """Counts what one store holds."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._seen = 0
        """The position of the newest approval that was read."""
        self._due: dict[str, datetime] = {}
        """When approvals expire that were pending when they were read, by id."""

    def counts(self) -> Pieces[Counts]:
        store = self._reader.store
        if len(self._due) > store.counts().pending_approvals + PIECE:  # most of them were decided
            self._seen, self._due = 0, {}
        for some in pages_of(store.find_approvals, PIECE, after=self._seen):
            self._due |= {each.id: each.expires_at for each in some if each.expires_at is not None}
            self._seen = some[-1].position
            yield
        found = store.counts()
        passed = [each for each, due_at in self._due.items() if self._reader.has_passed(due_at)]
        late = [each for each in passed if (now := store.get_approval(each)) is not None and now.status == "pending"]
        for each in set(passed).difference(late):
            del self._due[each]
        return replace(
            found,
            pending_approvals=found.pending_approvals - len(late),
            oldest_pending_at=self._oldest() if late else found.oldest_pending_at,
        )

    def _oldest(self) -> datetime | None:
        """Return when the oldest approval was asked that has not expired."""
        waiting = (each for some in pages_of(self._reader.store.find_approvals, PIECE) for each in some)
        late = self._reader.has_passed
        return next((each.created_at for each in waiting if each.expires_at is None or not late(each.expires_at)), None)
