"""Cancellations that know no scopes. asyncio has them: of its own timeouts, by mistake, and of all tasks at once when a
program ends (a second Ctrl-C). No scope of ours or of the agent's is behind one.

Rules
- At the end of a program nothing is given up or withdrawn, and nobody fails: whoever has the supervisor open is
  cancelled in the same moment and leaves it, so it is awaited for a few ticks whether that is what comes (W8). Then,
  too, where an agent's own scope has passed such a cancellation on to its other tasks.
- Every other one is the agent's own doing.
"""

from math import inf
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.host import StopReason

TICKS: Final = 20
"""Of the loop, which whoever is cancelled with us has to come out of what it waits in, and leave the supervisor."""


async def is_own_doing(attempt: Attempt) -> bool:
    """Whether what has just been cancelled was by the agent itself; call it where the cancellation was caught."""
    if attempt.stop_reason is None and (attempt.host.may_be_left or anyio.current_effective_deadline() > -inf):
        with anyio.CancelScope(shield=True):
            for _ in range(TICKS):
                if attempt.host.is_closed:
                    attempt.stop(StopReason("suspended", "the supervisor was stopped"))
                    break
                await checkpoint()
    return attempt.stop_reason is None
