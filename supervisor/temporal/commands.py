"""Commands to a tree: signals, which count when the server has acknowledged them, whether a worker lives or not."""

from typing import Any

import anyio

from supervisor.core.errors import ServerUnavailable
from supervisor.core.ids import new_session_id
from supervisor.core.rules import Rule
from supervisor.temporal.connection import SOON, border
from supervisor.temporal.mirror import POLL
from supervisor.temporal.trees import SOON_ENOUGH, Trees
from supervisor.temporal.wire import Command, raise_error, to_wire


async def command(
    trees: Trees, root: str, kind: Any, session: str, by: str, text: str | None = None, rule: Rule | None = None
) -> tuple[str, Any]:
    """Send a command to a tree. Return its id, and what the tree answers; None if no worker answers in time."""
    sent = Command(id=new_session_id(), kind=kind, session=session, by=by, text=text, rule=rule)
    with border(trees.named, maybe_done=True):
        await trees.client.get_workflow_handle(root).signal("command", to_wire(sent), rpc_timeout=SOON)
    with anyio.move_on_after(SOON_ENOUGH):
        while True:
            try:
                found: Any = await trees.mirror.query(root, "answer", sent.id, Any)
            except ServerUnavailable:
                found = None
            if found is not None:
                if isinstance(found["answer"], dict) and "error" in found["answer"]:
                    raise_error(found["answer"])
                return sent.id, found["answer"]
            await anyio.sleep(POLL / 4)
    return sent.id, None
