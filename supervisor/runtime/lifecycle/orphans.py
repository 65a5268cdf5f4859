"""Orphaned processes, those of interrupted calls that are still alive, are ended before their session goes on (T9).

Rules
- An interrupted call may still have a living process. It is found by the pid and start time that were committed with
  `executing`, on this host only. The caller passes the function that ends it, since tools are a layer above.
- A call that began a background job is interrupted like any other one, but its job goes on.
- If an idempotent tool is called again, the process of the former call is ended first: two never run at once.
"""

from collections.abc import Awaitable, Callable

from supervisor.core.session import SessionState
from supervisor.logs import FactLog
from supervisor.runtime.plans.interrupted import Found, job_of
from supervisor.system.identity import HOST

log = FactLog(__name__)

EndOne = Callable[[int, float | None], Awaitable[str]]
"""Ends a process by pid and start time; returns gone, ended, refused or not ours."""


class OrphanedProcesses:
    """Ends orphaned processes, and keeps the findings until the results of the calls are written."""

    def __init__(self, end_one: EndOne | None = None) -> None:
        self._end_one = end_one
        self._found: dict[tuple[str, str], str] = {}

    @property
    def found(self) -> Found:
        return self._found

    async def end(self, state: SessionState) -> None:
        """Find the processes of a session's interrupted calls, and end them one after the other."""
        for operation, record in state.operations.items():
            started = record.started
            is_known = (state.id, operation) in self._found
            if is_known or record.state != "executing" or started is None or started.process is None:
                continue
            if job_of(state, operation) is not None:
                found = "kept"
            elif started.host != HOST or self._end_one is None:
                found = "not ours"
            else:
                found = await self._end_one(started.process, started.process_started_at)
            log.warning("orphaned_process.looked_for", session=state.id, pid=started.process, found=found)
            self._found[state.id, operation] = found

    def forget(self, session: str) -> None:
        """Drop the findings of a session: its results are written."""
        for key in [key for key in self._found if key[0] == session]:
            del self._found[key]
