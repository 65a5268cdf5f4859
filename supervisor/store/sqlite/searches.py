"""The query for a search in the index, and the test that selects its rows. Rows are read until there are enough."""

from collections.abc import Callable
from typing import Any

from supervisor.core.rows import SessionRow
from supervisor.core.values import Approval


def search_sessions(
    root: str | None, is_open: bool | None, is_awake: bool | None, after: int
) -> tuple[tuple[Any, ...], Callable[[SessionRow], bool] | None]:
    """Return the query with its parameters, and the test of a row; None: every row matches."""

    def is_meant(row: SessionRow) -> bool:
        has_ended = row.ended_at is not None
        return is_open in (None, not has_ended) and (is_awake is None or (not has_ended and row.is_asleep != is_awake))

    if root is not None:
        return ("sessions_of_tree", root, after), is_meant
    if is_awake:
        return ("sessions_awake", after), is_meant
    return ("sessions_open" if is_open or is_awake is False else "sessions", after), is_meant


def search_approvals(
    pending: bool, root: str | None, session: str | None, after: int
) -> tuple[tuple[Any, ...], Callable[[Approval], bool] | None]:
    """Return the query with its parameters, and the test of a row; None: every row matches."""

    def is_meant(row: Approval) -> bool:
        return (not pending or row.status == "pending") and root in (None, row.root_session)

    if session is not None:
        return ("approvals_of_session", session, after), is_meant
    if root is not None:
        return ("approvals_of_tree", root, after), is_meant
    return ("approvals_pending" if pending else "approvals", after), None
