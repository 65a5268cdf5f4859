"""What a tree has left that has ended: the Start with which a later workflow goes on (workflow/turns.py).

It is next to the outcome of the tree in what its workflow has returned. So it is read without a worker, and without
running the history again, whatever code there is by then.
"""

from temporalio.client import Client, WorkflowFailureError

from supervisor.core.errors import LimitExceeded, ServerError
from supervisor.core.store_urls import TemporalStore
from supervisor.temporal.connection import SOON, server_errors
from supervisor.temporal.wire import Start, from_wire


class LeftNothing(ServerError):
    """The workflow of a tree has ended without leaving anything with which another one can go on."""


async def read_left(client: Client, named: TemporalStore, session: str, run: str) -> Start:
    """Return what a workflow of a tree has left at its end. Raises LimitExceeded if that was too large."""
    with server_errors(named):
        return await read_end(client, session, run)


async def read_end(client: Client, session: str, run: str) -> Start:
    """Return what the last workflow of a chain, to which `run` belongs, has left. Raises LimitExceeded, LeftNothing and
    RPCError."""
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
