"""Waits for a commit that the loop must not be held for: of a slow disk, in a worker thread (system/interpreter.py); of
a server, in the loop, until its answer can be read. Neither can be given up.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

import anyio

from supervisor.system.interpreter import switching_fast


async def in_thread(work: Callable[[], None]) -> None:
    """Do the work in a thread, exactly once. Call this under a shield: the work cannot be given up, and neither can
    native cancellation end it. It uses no shared thread limit: the tasks that hold all other threads may be waiting for
    this commit."""
    begun, came = threading.Lock(), list[BaseException | None]()

    def do() -> None:
        if begun.acquire(blocking=False):  # a thread that was given up after a cancellation may have begun the work
            try:
                work()
            except BaseException as error:  # noqa: BLE001 # raised again below, in the task that waits
                came.append(error)
            else:
                came.append(None)

    with switching_fast():
        while not came:
            with suppress(anyio.get_cancelled_exc_class()):
                await anyio.to_thread.run_sync(do, limiter=anyio.CapacityLimiter(1))
    if came[0] is not None:
        raise came[0]


async def until_readable(descriptor: int) -> None:
    """Wait until a descriptor is readable, or a native cancellation comes. Call this under a shield, and again as long
    as the answer is not there."""
    with suppress(anyio.get_cancelled_exc_class()):
        await anyio.wait_readable(descriptor)
