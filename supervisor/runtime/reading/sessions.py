"""Sessions as their users see them. They are read from the store's index alone, and no journal is loaded."""

from typing import Any

from supervisor.abc import SessionRow, Store
from supervisor.core import events as e
from supervisor.core.blocking import Block
from supervisor.core.values import Approval, Outcome, SessionStatus, SessionView


def session_views(
    store: Store,
    *,
    root: str | None = None,
    is_open: bool | None = None,
    after: int | None = None,
    limit: int | None = None,
    newest_first: bool = False,
) -> list[SessionView]:
    """Return sessions, parents before children, each with what is pending at it and below it."""
    rows = everywhere = store.find_sessions(
        root=root, is_open=is_open, after=after, limit=limit, newest_first=newest_first
    )
    if limit is None:
        asked = store.find_approvals(root=root)
    else:  # of a page: not the whole inbox, but whole trees, since what is below may be on another page
        roots = dict.fromkeys(row.root for row in rows if row.outcome is None)
        everywhere = [row for root in roots for row in store.find_sessions(root=root)]
        asked = [approval for root in roots for approval in store.find_approvals(root=root)]
    parents = {row.id: row.parent for row in everywhere}
    pending: dict[str, list[Approval]] = {}
    for approval in asked:
        session: str | None = approval.session
        while session is not None:
            pending.setdefault(session, []).append(approval)
            session = parents.get(session)
    status: dict[str, SessionStatus] = {}
    for row in everywhere:
        session = row.id if row.blocked is not None and row.outcome is None else None
        while session is not None:
            status[session] = "blocked"
            session = parents.get(session)
    owners = {root: store.get_owner(root) for root in {row.root for row in rows if row.outcome is None}}
    return [
        _view(row, tuple(pending.get(row.id, ())), owners.get(row.root), status.get(row.id), block_of(store, row))
        for row in rows
    ]


def block_of(store: Store, row: SessionRow) -> Block | None:
    """Return why a session is blocked; None if it is not."""
    if row.blocked is None or row.outcome is not None:
        return None
    said = [
        entry.event.block for entry in store.rows(row.blocked - 1, row.blocked) if isinstance(entry.event, e.RunBlocked)
    ]
    return said[0] if said else Block(why="path", cause="the entry that says why cannot be read")


def _view(
    row: SessionRow,
    pending: tuple[Approval, ...],
    owner: object | None,
    status: SessionStatus | None,
    block: Block | None,
) -> SessionView:
    return SessionView(
        id=row.id,
        parent=row.parent,
        root=row.root,
        agent=row.agent,
        path=row.path,
        status=(status if row.outcome is None else None) or _status(row.outcome, is_waiting=bool(pending)),
        outcome=_outcome(row.outcome),
        pending_approvals=pending,
        created_at=row.created_at,
        ended_at=row.ended_at,
        position=row.position,
        owner=str(owner) if owner is not None and row.outcome is None else None,
        blocked=block,
    )


def _status(outcome: Outcome[Any] | None, *, is_waiting: bool) -> SessionStatus:
    if outcome is None:
        return "waiting_approval" if is_waiting else "active"
    return "completed" if outcome.kind in ("succeeded", "cancelled") else "error"


def _outcome(outcome: Outcome[Any] | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {"kind": outcome.kind, "value": outcome.value, "cause": outcome.cause}
