"""Trees whose workflow was terminated in Temporal, by a person or by a limit of the server. It returns nothing.

Rules
- Nothing of such a tree goes on, so each reader of it (mirror.py) ends its open sessions as abandoned, with the cause,
  and withdraws what they ask. It writes that after the entries of the tree, dated with the workflow's end: all mirrors
  say the same.
- A tree that was refused at its start is not among them: it has never begun. One is that has failed because there was
  nothing to go on with (workflow/turns.py).
"""

from datetime import datetime
from typing import Any, Final

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from supervisor.core.events import encode_event
from supervisor.runtime.journal.view import View
from supervisor.runtime.plans.end import Ending, end_events, open_tree
from supervisor.seam.store import Store
from supervisor.temporal.connection import SOON
from supervisor.temporal.wire import LEFT_NOTHING

ENDED: Final = {
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.TIMED_OUT: "timed out",
    WorkflowExecutionStatus.CANCELED: "canceled",
}
"""The states of a workflow that has ended without leaving anything, in the words of Temporal."""
GOES_ON: Final = "start a new session, or fork this one"


async def why_ended(client: Client, described: Any) -> str | None:
    """Return how Temporal has ended a tree, and what to do; None if it runs, has ended by itself or was refused at its
    start."""
    if described.status not in ENDED:
        return None
    cause: BaseException | None = None
    try:
        await client.get_workflow_handle(described.id, run_id=described.run_id).result(
            follow_runs=False, rpc_timeout=SOON
        )
    except WorkflowFailureError as error:
        cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type != LEFT_NOTHING:
        return None  # what a worker raises that refuses a start (workflow/tree.py)
    return f"ended in Temporal: {ENDED[described.status]} ({cause}); {GOES_ON}"


def end_of(store: Store, root: str, cause: str, at: datetime) -> list[tuple[str, str]]:
    """Return the entries that end what is open in a tree: each a session, and its event as JSON text."""
    view = View(store, {}, {}, store.last_position())
    endings = {each: Ending(kind="abandoned", cause=cause) for each in open_tree(view, root)}
    return [(session, encode_event(event).decode()) for session, event in end_events(view, root, endings, {}, at)]
