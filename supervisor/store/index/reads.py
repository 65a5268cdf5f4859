"""What a store that is asked by named queries reads of its index. Each store has its queries; the rows are the same.

Rules
- A query of one name has the same columns in each store (`columns`), whatever its text.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from supervisor.core.rows import Continued, Counts, JournalEntry, SessionRow
from supervisor.core.values import Approval
from supervisor.seam.store import Store
from supervisor.store.index import columns
from supervisor.store.index.listing import read_operation
from supervisor.store.index.prefixes import SharedPrefixes

R = TypeVar("R")


class IndexReads(Store):
    """The reads of Store that are one query each; see Store."""

    @abstractmethod
    def _read(self, query: str, *parameters: Any, writing: bool = False) -> list[Any]:
        """Return the rows of a query, by its name. `writing`: as the transaction sees them."""

    @abstractmethod
    def _read_as(
        self,
        convert: Callable[[SharedPrefixes, columns.Columns], R],
        query: str,
        *parameters: Any,
        limit: int | None = None,
    ) -> list[R]:
        """Return what the rows of a query, by its name, are converted into."""

    def _read_one(
        self, convert: Callable[[SharedPrefixes, columns.Columns], R], query: str, *parameters: Any
    ) -> R | None:
        return next(iter(self._read_as(convert, query, *parameters, limit=1)), None)

    def get_session(self, session: str) -> SessionRow | None:
        return self._read_one(columns.full_session, "session", session)

    def get_sessions(self, sessions: Collection[str]) -> list[SessionRow]:
        return self._read_as(columns.full_session, "some_sessions", as_json(sessions))

    def latest_run(self, session: str) -> tuple[int, JournalEntry | None] | None:
        return self._read_one(partial(columns.latest_run, session), "latest_run", session)

    def find_continued(self, root: str, after: int, start: int, limit: int) -> list[Continued]:
        return [Continued(*row) for row in self._read("continued", root, start, after, limit)]

    def next_due(self) -> list[tuple[str, datetime]]:
        return [(session, columns.from_micros(due_at)) for session, due_at in self._read("due")]

    def find_asking(self, approval: str) -> tuple[str, str] | None:
        return next(((session, read_operation(body)) for session, body in self._read("asking", approval)), None)

    def get_approval(self, approval: str) -> Approval | None:
        return self._read_one(columns.full_approval, "approval", approval)

    def find_asked_in(self, roots: Sequence[str], after: int, limit: int) -> list[Approval]:
        return self._read_as(columns.full_approval, "approvals_pending_in", as_json(roots), after, limit=limit)

    def find_blocked_in(self, roots: Sequence[str], after: int, limit: int) -> list[SessionRow]:
        return self._read_as(columns.full_session, "sessions_blocked_in", as_json(roots), after, limit=limit)

    def find_shown(self) -> list[Approval]:
        return self._read_as(columns.full_approval, "approvals_shown")

    def counts(self) -> Counts:
        sessions, is_open, pending, blocked = self._read("counts")[0]
        since = next((oldest.created_at for oldest in self.find_approvals(limit=1)), None)
        return Counts(sessions, is_open, pending, since, blocked)

    def measure(self, root: str) -> tuple[int, int]:
        found: tuple[int, int] = self._read("size_of_tree", root)[0]
        return found


def as_json(ids: Collection[str]) -> str:
    """Return ids as a query takes them."""
    return msgspec.json.encode(list(ids)).decode()
