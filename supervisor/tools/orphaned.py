"""Ending an orphaned process after a crash: it is known only by the pid and start time that were journaled.

Rules: a process is signalled only if pid *and* start time match. The kernel gives a pid out again, and we leave another
process that has the pid by now alone.
"""

import os
import time
from functools import partial
from typing import Literal

import anyio

from supervisor.system.threads import in_thread
from supervisor.tools.descendants import Seen, find_process, process_table, processes_below
from supervisor.tools.termination import Termination

Answer = Literal["gone", "ended", "refused", "not ours"]

_PAUSE_SECONDS = 0.02  # seconds between two looks at the processes that are left


async def end_orphaned_process(pid: int, started_at: float | None, grace: float = 2.0) -> Answer:
    """End a process, its group and session and everything below it; return what was found.

    "gone": there is no such process. "not ours": the pid belongs to another process now, or the start time is unknown,
    so that we cannot tell. "ended": SIGTERM, and SIGKILL after `grace` seconds; no process is left. "refused": some
    process may not be signalled, or did not die. On cancellation, processes without a signal so far get none.

    A process that had left the session *and* lost its parent is not found. Its warden ends such a process, or the
    launcher, unless both were killed. The same holds for the processes that a gone process left behind.
    """
    meant = await in_thread(find_process, pid)
    if meant is None:
        return "gone"
    if started_at is None or meant.started_at != started_at or pid in (os.getpid(), 1):
        return "not ours"
    if meant.is_zombie:
        return "gone"
    ending = Termination(term_at=time.monotonic(), grace=grace)
    while alive := await in_thread(partial(_left_of, meant, ending)):
        # By group only while the leader is there: when the whole group is gone, the kernel gives its number out again.
        is_led = any(seen.identity == meant.identity for seen in alive)
        if ending.step(alive, time.monotonic(), group=meant.pid if is_led and meant.group == meant.pid else None):
            return "refused"
        await anyio.sleep(_PAUSE_SECONDS)
    return "ended"


def _left_of(meant: Seen, ending: Termination) -> list[Seen]:
    processes = process_table()
    below_it = processes_below(processes, meant.pid)
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
