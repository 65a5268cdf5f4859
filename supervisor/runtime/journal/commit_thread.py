"""A worker thread for what the loop must not wait for: a commit on a slow disk (supervisor/system/interpreter.py)."""

import threading
from collections.abc import Callable
from contextlib import suppress

import anyio

from supervisor.system.interpreter import switching_fast


async def in_thread(work: Callable[[], None]) -> None:
    """Do the work in a thread. To be called under a shield: it cannot be given up, nor can asyncio's own cancellation
    make it so. It never waits for the threads of others: they may all be taken by what waits for this commit."""
    begun, came = threading.Lock(), list[BaseException | None]()

    def do() -> None:
        if begun.acquire(blocking=False):  # once: nobody knows whether a thread that was given up does it
            try:
                work()
            except BaseException as error:  # noqa: BLE001 # it is raised again below, where it is waited for
                came.append(error)
            else:
                came.append(None)

    with switching_fast():
        while not came:
            with suppress(anyio.get_cancelled_exc_class()):
                await anyio.to_thread.run_sync(do, limiter=anyio.CapacityLimiter(1))
    if came[0] is not None:
        raise came[0]
