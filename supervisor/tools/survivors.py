"""Ending a process that outlived us: after a crash, known only by the pid and start time that were written down.

Rules: nothing is signalled unless pid *and* start time are those of the process meant; a pid is given out again, and
another process that has it by now is none of our business.
"""

import os
import time
from functools import partial
from typing import Literal

import anyio
import anyio.to_thread

from supervisor.tools.descendants import Seen, below, find, table
from supervisor.tools.ending import Ending

Answer = Literal["gone", "ended", "refused", "not ours"]

_PAUSE = 0.02  # seconds between two looks at who is left


async def end_survivor(pid: int, started_at: float | None, grace: float = 2.0) -> Answer:
    """End a process, its group and session and what hangs below it; say what was found.

    "gone": there is no such process. "not ours": the pid is another process's now (or the start time is unknown, so
    that nobody can tell). "ended": SIGTERM, and after `grace` seconds SIGKILL, and nobody is left. "refused": some of
    it may not be signalled, or did not die. On cancellation, what got no signal yet gets none.

    What had left the session *and* lost its parent before is not found: its warden ends that, or the launcher, unless
    that was killed as well. The same holds for what a process that is gone left behind.
    """
    meant = await anyio.to_thread.run_sync(find, pid)
    if meant is None:
        return "gone"
    if started_at is None or meant.started_at != started_at or pid in (os.getpid(), 1):
        return "not ours"
    if meant.is_zombie:
        return "gone"
    ending = Ending(term_at=time.monotonic(), grace=grace)
    while alive := await anyio.to_thread.run_sync(partial(_left_of, meant, ending)):
        # As a group only while the leader is there: its number is given out again when all of it is gone.
        is_led = any(seen.identity == meant.identity for seen in alive)
        if ending.step(alive, time.monotonic(), group=meant.pid if is_led and meant.group == meant.pid else None):
            return "refused"
        await anyio.sleep(_PAUSE)
    return "ended"


def _left_of(meant: Seen, ending: Ending) -> list[Seen]:
    processes = table()
    below_it = below(processes, meant.pid)
    now = processes.get(meant.pid)
    is_there = now is not None and now.identity == meant.identity
    return [
        seen
        for seen in processes.values()
        if not seen.is_zombie
        and (
            ending.knows(seen)
            or (is_there and (seen.pid in below_it or meant.pid in (seen.pid, seen.group, seen.session)))
        )
    ]
