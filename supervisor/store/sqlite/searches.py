"""The query for a search in the index, and the test that selects its rows. Rows are read until there are enough."""

from collections.abc import Callable
from typing import Any

from supervisor.core.rows import SessionRow
from supervisor.core.values import Approval


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
