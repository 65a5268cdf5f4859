"""A command to a tree that has ended starts its next workflow, in one request (workflow/turns.py)."""

from typing import Any

from msgspec.structs import replace
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.store_urls import TemporalStore
from supervisor.temporal.connection import SOON, server_errors
from supervisor.temporal.left import read_left
from supervisor.temporal.searched import attributes_of
from supervisor.temporal.wire import MEMO, QUEUE, SIGNALS, TREE, Command, Start, to_wire


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


async def follow(client: Client, named: TemporalStore, described: Any, left: Start, sent: Command) -> None:
    """Start the next workflow of a tree with a command; or give it to the workflow that was started meanwhile."""
    memo = await described.memo()
    start = replace(left, has_marks=True, has_signals=True, rules=None, carried=None, follows=described.run_id)
    with server_errors(named, maybe_done=True):
        await client.start_workflow(
            TREE,
            to_wire(start),
            id=left.session,
            task_queue=QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal="command",
            start_signal_args=[to_wire(sent)],
            memo={**memo, MEMO: {**memo[MEMO], "pending": [], "left_out": []}, SIGNALS: True},
            search_attributes=attributes_of(start),
            rpc_timeout=SOON,
        )
