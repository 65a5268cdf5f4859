"""A worker thread for what the loop must not wait for: a commit on a slow disk.

A thread that comes back from the disk needs the interpreter, and a loop that is always busy keeps it, 5 ms a time.
The commit would seem slow for that alone, and would never come back into the loop, where it waits for nobody. So the
loop holds still for a moment, at every tick, as long as somebody is in the thread.
"""

from collections.abc import Callable

import anyio

from supervisor.runtime.clock import nap

GIVE_WAY = 0.0005  # seconds between two naps of a loop that has nothing else to do


async def in_thread(work: Callable[[], None]) -> None:
    """Do the work in a thread, and raise bare what it raises. To be called under a shield: it cannot be given up."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 # raised below: the task group would wrap it
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_give_way)
        await anyio.to_thread.run_sync(run)
        tasks.cancel_scope.cancel()
    if errors:
        raise errors[0]


async def _give_way() -> None:
    while True:
        await anyio.sleep(GIVE_WAY)
        nap()
