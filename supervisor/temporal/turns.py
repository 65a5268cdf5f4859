"""How a tree that has ended goes on: in a new workflow of the same id, with what the one before has left.

A tree that ends returns, next to its outcome, the Start with which a later workflow goes on (tree.py). Its journal is
read without a worker, and without running its history again, whatever code there is then. A command to such a tree is
one request: it starts the next workflow and signals it, or signals the one that runs by then.

Rules
- A command counts when the server has acknowledged it, whether the tree runs, has ended or ends at this moment. Of two
  clients one starts the next workflow, and the command of the other one comes to it.
- If an end has left nothing, the workflow that follows it fails with the reason, so that no client waits for it.
- The client may know an older end than the latest one. So the workflow itself finds out what it follows: each end is
  followed once. It claims an end by the workflow `turn~SESSION~RUN`, whose memo names the follower. If another one has
  it, that one has ended since, and its end is tried.
"""

from datetime import timedelta
from typing import Any, Final

from msgspec.structs import replace
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import (
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import ActivityError, ApplicationError, WorkflowAlreadyStartedError

from supervisor.core.errors import InvalidInput, LimitExceeded, NotFound, ServerError
from supervisor.core.ids import approval_route
from supervisor.core.store_urls import TemporalStore
from supervisor.temporal.connection import SOON, border
from supervisor.temporal.wire import (
    BARE_CLAIM,
    LEFT_NOTHING,
    MEMO,
    QUEUE,
    ROUTE,
    TAKE_OVER,
    TREE,
    Carried,
    Command,
    Start,
    from_wire,
    to_wire,
    turn_id,
)
from supervisor.temporal.workflow.bridge import wait_for


class LeftNothing(ServerError):
    """The workflow of a tree has ended without leaving anything with which another one can go on."""


_ROUTE: Final = SearchAttributeKey.for_keyword(ROUTE)


class Turns:
    """What a worker does for a tree that follows another workflow."""

    def __init__(self, client: Client, named: TemporalStore) -> None:
        self._client = client
        self._named = named

    @activity.defn(name=TAKE_OVER)
    async def take_over(self, session: str, follows: str, follower: str) -> Any:
        """Claim the latest end of a tree for the workflow `follower`. Return the Start that was left there."""
        with border(self._named):
            left = await _read(self._client, session, follows)
            while (other := await self._claim(session, _carried(left).chain, follower)) != follower:
                left = await _read(self._client, session, other)
        return to_wire(left)

    async def _claim(self, session: str, chain: str, follower: str) -> str:
        """Claim an end. Return whose it is."""
        key = turn_id(session, chain)
        try:
            await self._client.start_workflow(
                BARE_CLAIM,
                id=key,
                task_queue=QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                memo={"follower": follower},
                rpc_timeout=SOON,
            )
        except WorkflowAlreadyStartedError:
            described = await self._client.get_workflow_handle(key).describe(rpc_timeout=SOON)
            return str((await described.memo())["follower"])
        return follower


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


async def find_left(client: Client, named: TemporalStore, described: Any) -> Start:
    """Return what a tree has left that has ended. `described`: its latest workflow. Raises NotFound if it never began;
    InvalidInput or LimitExceeded if nothing can go on with it."""
    session, status = described.id, described.status
    if status == WorkflowExecutionStatus.FAILED:
        raise NotFound(f"session {session} was refused at its start; start it again")
    if status != WorkflowExecutionStatus.COMPLETED:
        raise InvalidInput(
            f"the workflow of session {session} was ended by hand ({status.name.lower()}), so nothing can go on with "
            "it; start a new session"
        )
    return await read_left(client, named, session, described.run_id)


async def read_left(client: Client, named: TemporalStore, session: str, run: str) -> Start:
    """Return what a workflow of a tree has left at its end. Raises LimitExceeded if that was too large."""
    with border(named):
        return await _read(client, session, run)


async def _read(client: Client, session: str, run: str) -> Start:
    """Return what the last workflow of a chain, to which `run` belongs, has left."""
    try:
        ended = await client.get_workflow_handle(session, run_id=run).result(rpc_timeout=SOON)
    except WorkflowFailureError as error:
        raise LeftNothing(f"the workflow of session {session} has left nothing: {error.cause}") from None
    if ended.get("left") is None:
        raise LimitExceeded(
            f"session {session} has ended, and its journal is too large for another turn or a retry: start a new "
            "session, by a client that names a folder for large payloads (SUPERVISOR_TEMPORAL_PAYLOADS)"
        )
    return from_wire(ended["left"], Start)


async def follow(client: Client, named: TemporalStore, described: Any, left: Start, sent: Command) -> None:
    """Start the next workflow of a tree with a command; or give it to the workflow that was started meanwhile."""
    memo = await described.memo()
    start = replace(left, carried=None, follows=described.run_id)
    with border(named, maybe_done=True):
        await client.start_workflow(
            TREE,
            to_wire(start),
            id=left.session,
            task_queue=QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal="command",
            start_signal_args=[to_wire(sent)],
            memo={**memo, MEMO: {"pending": [], "left_out": []}},
            search_attributes=TypedSearchAttributes([SearchAttributePair(_ROUTE, approval_route(left.session))]),
            rpc_timeout=SOON,
        )


def _carried(left: Start) -> Carried:
    assert left.carried is not None, "a tree leaves its journal"
    return left.carried
