"""Cancellations that know no scopes. asyncio has them: of its own timeouts, by mistake, and of all tasks at once when a
program ends (a second Ctrl-C). No scope of ours or of the agent's is behind one.

Rules
- At the end of a program nothing is given up or withdrawn, and nobody fails: whoever has the supervisor open is
  cancelled in the same moment and leaves it, so it is awaited for a few ticks whether that is what comes (W8).
- Every other one is the agent's own doing.
"""

from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from supervisor.runtime.attempt import Attempt
from supervisor.runtime.host import Fate

TICKS: Final = 20
"""Of the loop, which whoever is cancelled with us has to come out of what it waits in, and leave the supervisor."""


async def is_own_doing(attempt: Attempt) -> bool:
    """Whether what has just been cancelled was by the agent itself; call it where the cancellation was caught."""
    if attempt.fate is None and not is_of_a_scope():
        with anyio.CancelScope(shield=True):
            for _ in range(TICKS):
                if attempt.host.is_closed:
                    attempt.stop(Fate("suspended", "the supervisor was stopped"))
                    break
                await checkpoint()
    return attempt.fate is None


def is_of_a_scope() -> bool:
    """Whether a scope has cancelled this task, which goes on to do so; otherwise it was cancelled once."""
    return anyio.current_effective_deadline() == -float("inf")
