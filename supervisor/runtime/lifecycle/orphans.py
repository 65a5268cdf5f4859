"""Processes that outlive the calls of a process that died: each is ended before its session goes on (T9).

Rules
- Lost does not mean dead: the process is looked for by the pid and start time that were committed with `executing`, on
  this host only. How that is done is given from above: tools are a higher floor.
- A call that began a background job is lost like any other, but its job goes on.
- What is called again because its tool is idempotent is ended first, too: never two of it at once.
"""

from collections.abc import Awaitable, Callable

from supervisor.core.session import SessionState
from supervisor.logs import FactLog
from supervisor.runtime.plans.interrupted import Found, job_of
from supervisor.system.identity import HOST

log = FactLog(__name__)

EndOne = Callable[[int, float | None], Awaitable[str]]
"""Ends a process by pid and start time; says gone, ended, refused or not ours."""


class OrphanedProcesses:
    """Ends orphaned processes, and keeps what was found until the results of the calls are written."""

    def __init__(self, end_one: EndOne | None = None) -> None:
        self._end_one = end_one
        self._found: dict[tuple[str, str], str] = {}

    @property
    def found(self) -> Found:
        return self._found

    async def end(self, state: SessionState) -> None:
        """Look for the processes of a session's lost calls, one after the other, and end them."""
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
        """Drop what was found: the results are written."""
        for key in [key for key in self._found if key[0] == session]:
            del self._found[key]
