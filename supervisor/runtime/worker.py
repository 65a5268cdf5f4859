"""A worker thread for what the loop must not wait for: a commit on a slow disk.

A thread that comes back from the disk has to get the interpreter back. It may claim it only after having waited for a
whole switch interval, 5 ms, in which nobody let go of it; a busy loop lets go of it at every tick, and has it again
before the thread was woken. That can take seconds; and the commit, seeming slow, would never come back into the loop,
where it waits for nobody. So the interval is short as long as somebody is in the thread.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import anyio

SWITCH_INTERVAL = 0.0005

_usual: list[float] = []
"""The interpreter's own interval, once for everybody who has shortened it."""


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

    with _switching_fast():
        while not came:
            with suppress(anyio.get_cancelled_exc_class()):
                await anyio.to_thread.run_sync(do, limiter=anyio.CapacityLimiter(1))
    if came[0] is not None:
        raise came[0]


@contextmanager
def _switching_fast() -> Iterator[None]:
    _usual.append(_usual[0] if _usual else sys.getswitchinterval())
    sys.setswitchinterval(min(SWITCH_INTERVAL, _usual[0]))
    try:
        yield
    finally:
        usual = _usual.pop()
        if not _usual:
            sys.setswitchinterval(usual)
