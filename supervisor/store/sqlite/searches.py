"""The query for a search in the index, and the test that selects its rows. Rows are read until there are enough.

The tables have what a search of approvals looks at, and a table of FTS5 has their words: so it reads only what it
finds.
"""

from collections.abc import Callable
from typing import Any

from supervisor.core.rows import ApprovalFilter, SessionRow
from supervisor.core.text.words import is_beginning
from supervisor.core.values import Approval
from supervisor.store.index.columns import to_micros


def search_sessions(
    root: str | None, is_open: bool | None, is_awake: bool | None, start: int, *, newest_first: bool = False
) -> tuple[tuple[Any, ...], Callable[[SessionRow], bool] | None]:
    """Return the query with its parameters, and the test of a row; None: every row matches.

    `start`: the position after which, or with `newest_first` before which, they stand.
    """

    def is_meant(row: SessionRow) -> bool:
        has_ended = row.ended_at is not None
        return is_open in (None, not has_ended) and (is_awake is None or (not has_ended and row.is_asleep != is_awake))

    order = "_newest" if newest_first else ""
    if root is not None:
        return (f"sessions_of_tree{order}", root, start), is_meant
    if is_awake and not newest_first:
        return ("sessions_awake", start), is_meant
    if is_open or is_awake is not None:
        return (f"sessions_open{order}", start), is_meant
    return (f"sessions{order}", start), is_meant


def search_approvals(
    pending: bool, root: str | None, session: str | None, after: int
) -> tuple[tuple[Any, ...], Callable[[Approval], bool] | None]:
    """Return the query with its parameters, and the test of a row; None: every row matches."""

    def is_meant(row: Approval) -> bool:
        return (not pending or row.status == "pending") and root in (None, row.root_session)

    if session is not None:
        return ("approvals_of_session", session, after), is_meant
    if root is not None:
        return ("approvals_pending_of_tree" if pending else "approvals_of_tree", root, after), is_meant
    return ("approvals_pending" if pending else "approvals", after), None


def search_found(only: ApprovalFilter, root: str | None, start: int) -> tuple[Any, ...]:
    """Return the query for the approvals that a filter has, with its parameters. `start`: as in search_sessions."""
    is_status = isinstance(only.decided, str) and only.decided != "pending"
    has_ended = None if only.decided is None else not only.is_pending
    before = None if only.before is None else to_micros(only.before)
    status = only.decided if is_status else None
    given = (start, root, has_ended, status, only.by, only.tool, only.agent, before)
    order = "_newest" if only.newest_first else ""
    if not (words := only.words):
        return (f"approvals_found{order}", *given)
    wanted = " AND ".join(f'"{word}"*' if is_beginning(word) else f'"{word}"' for word in words)
    return (f"approvals_with{order}", *given, wanted)
