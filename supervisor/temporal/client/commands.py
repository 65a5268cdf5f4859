"""Commands to a tree: signals, which count when the server has acknowledged them, whether a worker lives or not.

A command to a tree that has ended begins its next workflow (turns.py).
"""

from collections.abc import Callable
from typing import Any

import anyio
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from supervisor.core.calls.rules import Rule
from supervisor.core.errors import ServerUnavailable
from supervisor.core.ids import new_session_id
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.temporal.carry import unpack
from supervisor.temporal.client.trees import SOON_ENOUGH, Trees
from supervisor.temporal.client.turns import find_left, follow
from supervisor.temporal.connection import SOON, is_no_workflow, server_errors
from supervisor.temporal.mirror.namespace import POLL_SECONDS
from supervisor.temporal.wire import Command, Start, raise_error, to_wire

Check = Callable[[SessionState], object]
"""Raises an error if a session that has ended, as it is then, cannot do what is asked of it."""


def any_session(_: SessionState) -> None:
    """A check of what every session can do that has ended."""


async def send_command(
    trees: Trees,
    root: str,
    kind: Any,
    session: str,
    by: str,
    text: str | None = None,
    rule: Rule | None = None,
    *,
    run: int | None = None,
    message: str | None = None,
    check: Check | None = None,
) -> tuple[str, Any]:
    """Send a command to a tree. Return its id, and what the tree answers; None if no worker answers in time. `check`:
    whether the next workflow of a tree that has ended is to begin with it; without, it is not sent to such a tree."""
    sent = Command(
        id=new_session_id(), kind=kind, session=session, by=by, text=text, rule=rule, run=run, message=message
    )
    if not await _deliver(trees, root, sent, check):
        return sent.id, None
    with anyio.move_on_after(SOON_ENOUGH):
        while True:
            try:
                found: Any = await trees.namespace.query(root, "answer", sent.id, Any)
            except ServerUnavailable:
                found = None
            if found is not None:
                if isinstance(found["answer"], dict) and "error" in found["answer"]:
                    raise_error(found["answer"])
                return sent.id, found["answer"]
            await trees.refuse_ended(await trees.namespace.describe(root))
            await anyio.sleep(POLL_SECONDS / 4)
    return sent.id, None


async def _deliver(trees: Trees, root: str, sent: Command, check: Check | None) -> bool:
    """Give a command to the workflow of a tree that runs, or begin its next one. Return whether it was given."""
    while not await _signal(trees, root, sent):
        described = await trees.namespace.describe(root)
        if described.status == WorkflowExecutionStatus.RUNNING:  # another client has begun it just now
            continue
        await trees.refuse_ended(described)
        if check is None:
            return False
        left = await find_left(trees.client, trees.named, described)
        check(_state_of(left, sent.session))
        await follow(trees.client, trees.named, described, left, sent)
        break
    return True


async def _signal(trees: Trees, root: str, sent: Command) -> bool:
    """Signal the workflow of a tree. Return whether it runs."""
    with server_errors(trees.named, maybe_done=True):
        try:
            await trees.client.get_workflow_handle(root).signal("command", to_wire(sent), rpc_timeout=SOON)
        except RPCError as error:
            if not is_no_workflow(error):
                raise
            return False
    return True


def _state_of(left: Start, session: str) -> SessionState:
    assert left.carried is not None, "a tree leaves its journal"
    return replay_journal(session, [row.event for row in unpack(left.carried.journal) if row.session == session])
