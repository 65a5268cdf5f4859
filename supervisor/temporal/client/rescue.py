"""Rescue a session whose agents' code has changed, so that its history cannot be run again by the new code.

A worker that has the old code moves the session to a new workflow, with its journal (workflow/moving.py). There the
agents are run again over the journal alone, by the rules of one machine (R1), with whatever code the workers have then.

Rules
- The session moves when nothing of it runs any more. A rescue waits for that for a while, and else says what runs.
- Where workers have versions, the new workflow begins with the current one. Else it is parked, until a second command
  says that the workers have the new code: a worker with the old code would go on with it at once.
"""

from typing import Final, Literal

import anyio
from temporalio.api.enums.v1 import VersioningBehavior
from temporalio.client import WorkflowExecutionStatus

from supervisor.core.errors import InvalidInput, ServerUnavailable
from supervisor.seam.supervisor import Supervisor
from supervisor.temporal.client.commands import send_command
from supervisor.temporal.client.remote import TemporalSupervisor
from supervisor.temporal.client.trees import Trees
from supervisor.temporal.mirror.namespace import POLL_SECONDS
from supervisor.temporal.wire import Moving, from_wire

MOVED_WITHIN_SECONDS: Final = 30.0
"""Seconds for which a rescue waits for the end of what runs."""
Rescued = Literal["parked", "continued", "going on"]


async def rescue(supervisor: Supervisor, session: str, *, goes_on: bool, by: str) -> Rescued:
    """Move a session to a new workflow; `goes_on`: let a parked one go on. Raises NotFound; InvalidInput if it has
    ended; LimitExceeded if its journal is too large; ServerUnavailable if no worker with its code answers, or what runs
    does not end soon: then it moves later."""
    assert isinstance(supervisor, TemporalSupervisor)
    trees = supervisor.trees
    root = await trees.find_root(session)
    if not await trees.is_open(root):
        raise InvalidInput(f"session {session} has ended: nothing of it is to go on")
    described = await trees.namespace.describe(root)
    versions = described.raw_description.workflow_execution_info.versioning_info
    has_version = versions.behavior == VersioningBehavior.VERSIONING_BEHAVIOR_PINNED
    text = "go on" if goes_on else "upgrade" if has_version else "park"
    _, answer = await send_command(trees, root, "rescue", root, by, text)
    if answer is None and (lacked := await trees.namespace.why_left(root)) is not None:
        raise ServerUnavailable(f"session {root} goes on when a worker can run it: {lacked}", maybe_done=True)
    if answer is None:
        raise ServerUnavailable(
            f"no worker answers for session {root} with the code that it has now: start a worker with that code, which "
            "then does what was asked",
            maybe_done=True,
        )
    if isinstance(answer, dict):
        await _wait_until_moved(trees, root, from_wire(answer, Moving))
        return "continued" if text == "upgrade" else "parked"
    rescued: Rescued = answer
    return rescued


async def _wait_until_moved(trees: Trees, root: str, moving: Moving) -> None:
    with anyio.move_on_after(MOVED_WITHIN_SECONDS):
        while (described := await trees.namespace.describe(root)).run_id == moving.run:
            if described.status != WorkflowExecutionStatus.RUNNING:
                raise InvalidInput(f"session {root} has ended meanwhile: nothing of it is to go on")
            await anyio.sleep(POLL_SECONDS)
        return
    raise ServerUnavailable(
        f"session {root} begins nothing new, and moves when what runs has ended "
        f"({', '.join(moving.waits_for) or 'its agents'}); rescue it again to wait for that",
        maybe_done=True,
    )
