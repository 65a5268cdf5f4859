"""Orphaned processes, those of interrupted calls that are still alive, are ended before their session goes on (T9).

Rules
- An interrupted call may still have a living process. It is found by the pid and start time that were committed with
  `executing`, on this host only. The caller passes the function that ends it, since tools are a layer above.
- A call that began a background job is interrupted like any other one, but its job goes on.
- If an idempotent tool is called again, the process of the former call is ended first: two never run at once.
- A session's processes are ended by one task at a time. A second task, such as the end of its cancelled tree, waits for
  the first and takes its findings: it would find the process gone that the first one ended.
"""

from collections.abc import Awaitable, Callable

import anyio

from supervisor.core import events as e
from supervisor.core.sessions.overlay import EMPTY
from supervisor.core.sessions.state import SessionState
from supervisor.runtime.plans.interrupted import Found, job_of
from supervisor.system.identity import is_here
from supervisor.system.logs import FactLog

log = FactLog(__name__)

EndOne = Callable[[int, float | None], Awaitable[str]]
"""Ends a process by pid and start time; returns gone, ended, refused or not ours."""


class OrphanedProcesses:
    """Ends orphaned processes, and keeps the findings until the results of the calls are written. `found`: what is
    known already."""

    def __init__(self, end_one: EndOne | None = None, found: Found = EMPTY) -> None:
        self._end_one = end_one
        self._found = dict(found)
        self._turns: dict[str, anyio.Lock] = {}  # by session, while a task ends its processes

    @property
    def found(self) -> Found:
        return self._found

    async def end(self, state: SessionState) -> None:
        """Find the processes of a session's interrupted calls, and end them one after the other."""
        if not _interrupted(state):
            return
        turn = self._turns.setdefault(state.id, anyio.Lock())
        try:
            async with turn:
                for operation, started in _interrupted(state):
                    if (state.id, operation) not in self._found:
                        self._found[state.id, operation] = await self._look_for(state, operation, started)
        finally:
            if not turn.locked():  # nor does a task wait for it
                self._turns.pop(state.id, None)

    async def _look_for(self, state: SessionState, operation: str, started: e.ToolCallStarted) -> str:
        if job_of(state, operation) is not None:
            found = "kept"
        elif not is_here(started.host) or self._end_one is None or started.process is None:
            found = "not ours"
        else:
            found = await self._end_one(started.process, started.process_started_at)
        log.warning("orphaned_process.looked_for", session=state.id, pid=started.process, found=found)
        return found

    def forget(self, session: str) -> None:
        """Drop the findings of a session: its results are written."""
        for key in [key for key in self._found if key[0] == session]:
            del self._found[key]


def _interrupted(state: SessionState) -> list[tuple[str, e.ToolCallStarted]]:
    """Return the calls of a session that had a process and no result, with how they started."""
    return [
        (operation, record.started)
        for operation, record in state.operations.items()
        if record.state == "executing" and record.started is not None and record.started.process is not None
    ]
