"""Native cancellations belong to no cancel scope. asyncio has them: by its own timeouts, by mistake, and for all tasks
at once when a program ends (a second Ctrl-C).

Rules
- At the end of a program no operation is abandoned or withdrawn, and no run fails. The task that has the supervisor
  open is cancelled in the same moment and closes it. So an attempt waits a few ticks of the loop to see whether the
  supervisor closes (W8). It also does so if an agent's own scope has passed such a cancellation on to its other tasks.
- Every other native cancellation counts as the agent's own.
"""

from contextlib import suppress
from math import inf
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.host import StopReason

TICKS: Final = 20
"""Ticks of the loop in which a task that is cancelled together with us has time to close the supervisor."""


async def is_own_doing(attempt: Attempt) -> bool:
    """Return whether the agent itself caused a cancellation. Call this where the cancellation was caught."""
    if attempt.stop_reason is None and (attempt.host.may_be_left or anyio.current_effective_deadline() > -inf):
        with anyio.CancelScope(shield=True):
            for _ in range(TICKS):
                if attempt.host.is_closed:
                    attempt.stop(StopReason("suspended", "the supervisor was stopped"))
                    break
                await checkpoint()
    return attempt.stop_reason is None


async def take_pending(task: anyio.TaskInfo) -> None:
    """Take a native cancellation of the current task that has been requested and not been raised yet: it came too late
    for the agent, or at the end of the task. asyncio counts even a task that has returned as cancelled by it."""
    if task.has_pending_cancellation():
        with anyio.CancelScope(shield=True), suppress(anyio.get_cancelled_exc_class()):
            await checkpoint()
