"""Our own work in worker threads, apart from that of agents and tools.

Rule: it waits for none of their threads. anyio lends a loop forty threads by default, and tools that hang may hold all
of them for as long as they like. A token is revoked all the same.
"""

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MOST: Final = 40
_LIMITER: Final[RunVar[anyio.CapacityLimiter]] = RunVar("supervisor_threads")


async def in_thread(work: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Do work in a worker thread, and return its result. A cancellation is delivered after it."""
    try:
        limiter = _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MOST)
        _LIMITER.set(limiter)
    return await anyio.to_thread.run_sync(work, *args, limiter=limiter)
