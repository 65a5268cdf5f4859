"""What a store that is asked by queries reads of its index. Each store has its named queries; the rows are the same.

Rules
- A query of one name has the same columns in each store (`columns`), whatever its text.
- A search has no name: its text is made of its tests, so that each database finds the index for them. Values are
  parameters.
"""

import pkgutil
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from supervisor.core.rows import ApprovalFilter, Continued, Counts, JournalEntry, SessionRow
from supervisor.core.values import Approval
from supervisor.seam.store import Store
from supervisor.store.index import columns
from supervisor.store.index.listing import read_operation
from supervisor.store.index.prefixes import SharedPrefixes
from supervisor.store.index.projection import read_known_rows

R = TypeVar("R")
Test = tuple[str, Any]
"""A condition of SQL, in which {} stands for the value, if any. It counts unless the value is None or False."""

LAST: Final = 2**63 - 1
"""After every position."""
_IN: Final = "{} = (SELECT position FROM event WHERE id = {{}})"
_PENDING: Final = "id, session_id, asked, created_head, created_body, asked_head, asked_body, shown, reminded_body"
"""The columns of a pending approval: with many rows each further one costs time."""


class IndexReads(Store):
    """The reads of Store that are one query each; see Store."""

    mark: ClassVar[str]
    """What is before the number of a parameter."""
    unreadable: dict[str, str]
    _prefixes: SharedPrefixes

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

    @abstractmethod
    def _searched(self, words: Sequence[str]) -> tuple[str, str, list[Test]]:
        """Return the tables of a search for words in what was asked, its column of the position, and its tests."""

    def _search(
        self,
        convert: Callable[[SharedPrefixes, columns.Columns], R],
        what: str,
        position: str,
        after: int | None,
        tests: Iterable[Test],
        *,
        newest_first: bool,
        limit: int | None,
    ) -> list[R]:
        """Read what passes all tests, in the order of positions. `what`: columns and tables."""
        given: list[Any] = [after if after is not None else LAST if newest_first else 0]
        texts = [f"{position} {'<' if newest_first else '>'} {self.mark}1"]
        for text, value in tests:
            if value is not None and value is not False:
                given.extend([value] if "{}" in text else [])
                texts.append(text.format(f"{self.mark}{len(given)}"))
        order = f"{position}{' DESC' if newest_first else ''}"
        query = f"SELECT {what} WHERE {' AND '.join(texts)} ORDER BY {order}"
        return self._read_as(convert, query, *given, limit=limit)

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
        tests = (
            (_IN.format("root"), root),
            ("finished IS NULL", is_open or is_awake is not None),
            ("finished IS NOT NULL", is_open is False),
            ("waiting_for IS NULL", is_awake),
            ("waiting_for IS NOT NULL", is_awake is False),
        )
        what = "* FROM session_full"
        return self._search(columns.full_session, what, "number", after, tests, newest_first=newest_first, limit=limit)

    def find_approvals(
        self,
        *,
        pending: bool = True,
        root: str | None = None,
        session: str | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[Approval]:
        tests = ((_IN.format("root"), root), (_IN.format("session"), session), ("status IS NULL", pending))
        what = f"{_PENDING if pending else '*'} FROM approval_full"
        return self._search(columns.full_approval, what, "asked", after, tests, newest_first=False, limit=limit)

    def search_approvals(
        self, only: ApprovalFilter, *, root: str | None = None, after: int | None = None, limit: int | None = None
    ) -> list[Approval]:
        tables, position, with_words = self._searched(only.words)
        has_status = isinstance(only.decided, str) and only.decided != "pending"
        tests = (
            (_IN.format("a.root"), root),
            ("a.status IS NULL", only.decided is not None and only.is_pending),
            ("a.status IS NOT NULL", only.decided is not None and not only.is_pending),
            ("a.status = {}", only.decided if has_status else None),
            ("a.decider = {}", only.by),
            ("a.tool = {}", only.tool),
            ("a.agent = {}", only.agent),
            ("a.asked_at < {}", None if only.before is None else columns.to_micros(only.before)),
            *with_words,
        )
        what, newest = f"a.* FROM {tables}", only.newest_first
        return self._search(columns.full_approval, what, position, after, tests, newest_first=newest, limit=limit)

    def rows(self, after: int, to: int | None = None, only: Collection[str] | None = None) -> list[JournalEntry]:
        end = LAST if to is None else to
        if only is None:
            return self._known_rows(self._read("rows", after, end))
        found = self._known_rows(self._read("rows_of", after, end, as_json(only)))
        return [row for row in found if type(row.event).__name__ in only]

    def last_position(self) -> int:
        return int(self._read("last_position")[0][0])

    def _known_rows(self, found: Sequence[columns.Columns]) -> list[JournalEntry]:
        return read_known_rows(map(partial(columns.entry, self._prefixes), found), self.unreadable)

    def _read_one(
        self, convert: Callable[[SharedPrefixes, columns.Columns], R], query: str, *parameters: Any
    ) -> R | None:
        return next(iter(self._read_as(convert, query, *parameters, limit=1)), None)

    def get_session(self, session: str) -> SessionRow | None:
        return self._read_one(columns.full_session, "session", session)

    def get_sessions(self, sessions: Collection[str]) -> list[SessionRow]:
        return self._read_as(columns.full_session, "some_sessions", as_json(sessions)) if sessions else []

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


def read_sql(package: str, name: str) -> str:
    """Return a text of a package. `importlib.resources` takes as long to import as a tenth of this library."""
    found = pkgutil.get_data(package, name)
    assert found is not None
    return found.decode()


def read_queries(package: str) -> dict[str, str]:
    """Return the queries of a package by their names. Each begins with its name and, after the colon, its purpose."""
    blocks = re.findall(r"^-- (\w+): .*\n((?:(?!--).*\n)+)", read_sql(package, "queries.sql"), re.MULTILINE)
    return {name: query.strip().rstrip(";") for name, query in blocks}
