"""What a session's journal says of one approval, for all who have a Supervisor alone."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import anyio

from supervisor.core import events as e
from supervisor.core.approvals.state import PENDING, ApprovalState, fold
from supervisor.core.cursors import cursor_at
from supervisor.core.errors import NotFound
from supervisor.core.rows import JournalEntry
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor

MOST_READ: Final = 5_000
"""The most entries of a session that are searched for what became of one approval."""
PIECE: Final = 100
_RESULTS: Final = (e.ToolCallFinished, e.OperationAbandoned)


async def read_state(
    supervisor: Supervisor,
    approval: Approval,
    until: Callable[[ApprovalState], object] = lambda state: False,
    before: datetime | None = None,
) -> ApprovalState:
    """Return an approval after the entries about it, up to an instant. Only what follows the approval is read, page by
    page, and no more once `until` is true. Raises NotFound; StoreError."""
    state = PENDING
    first = await supervisor.find_entries(approval.session, limit=1)
    after: str | None = cursor_at(first.cursor, approval.position)
    while after is not None and not until(state):
        page = await supervisor.find_entries(approval.session, after=after)
        events = (row.event for row in page.items if before is None or row.event.at <= before)
        state, after = fold(events, approval.id, state, until), page.next
    return state


async def read_course(supervisor: Supervisor, approval: Approval) -> list[JournalEntry]:
    """Return the entries about an approval and its call, in order: from the request to the result, as far as there is
    one among the next MOST_READ entries of the session; none if it was removed. Raises StoreError."""
    found, count = list[JournalEntry](), 0
    try:
        first = await supervisor.find_entries(approval.session, limit=1)
        after: str | None = cursor_at(first.cursor, max(0, approval.position - 1))
        while after is not None and count < MOST_READ:
            page = await supervisor.find_entries(approval.session, after=after, limit=PIECE)
            of_call = [row for row in page if getattr(row.event, "operation", None) == approval.operation]
            found += [row for row in page if row in of_call or e.approval_in(row.event) == approval.id]
            is_over = any(isinstance(row.event, _RESULTS) for row in of_call)
            after, count = None if is_over else page.next, count + len(page)
    except NotFound:
        return []
    return found


async def until_shown(supervisor: Supervisor, approval: Approval, channel: str, seconds: float) -> None:
    """Wait until the store holds a channel's card of an approval, or it has ended; `seconds` at the most. A person may
    be faster than the disk."""
    with anyio.move_on_after(seconds):
        while approval.status == "pending" and channel not in approval.shown:
            await anyio.sleep(0.02)
            approval = await supervisor.get_approval(approval.id)
