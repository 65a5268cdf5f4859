"""How a tree that has ended goes on: in a new workflow of the same id, with what the one before has left.

A tree that ends returns, next to its outcome, the Start with which a later workflow goes on (left.py). A command to
such a tree is one request: it starts the next workflow and signals it, or signals the one that runs by then
(client/turns.py).

Rules
- A command counts when the server has acknowledged it, whether the tree runs, has ended or ends at this moment. Of two
  clients one starts the next workflow, and the command of the other one comes to it.
- If an end has left nothing, the workflow that follows it fails with the reason, so that no client waits for it.
- The client may know an older end than the latest one. So the workflow itself finds out what it follows: each end is
  followed once. Its worker claims an end by the workflow `turn~SESSION~RUN`, whose memo names the follower
  (worker/namespace.py). If another one has it, that one has ended since, and its end is tried.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from supervisor.core.errors import LimitExceeded
from supervisor.temporal.wire import LEFT_NOTHING, TAKE_OVER, Start, from_wire
from supervisor.temporal.workflow.bridge import wait_for


async def take_over(start: Start) -> Start:
    """Return what the latest end of a tree has left. Call it in the workflow that follows. It fails the workflow if
    nothing was left."""
    handle = workflow.start_activity(
        TAKE_OVER,
        args=[start.session, start.follows, workflow.info().run_id],
        start_to_close_timeout=timedelta(seconds=15),
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=0.2),
            maximum_interval=timedelta(seconds=10),
            non_retryable_error_types=[LimitExceeded.__name__, LEFT_NOTHING],
        ),
    )
    if (cancellation := await wait_for(handle)) is not None:
        raise cancellation
    try:
        return from_wire(handle.result(), Start)
    except ActivityError as error:
        if not isinstance(error.cause, ApplicationError):
            raise
        raise ApplicationError(error.cause.message, type=LEFT_NOTHING, non_retryable=True) from None
