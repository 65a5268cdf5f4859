"""Calls that were lost: executing when their process died. Answered before the agent runs again (T2), and whatever of
them is still alive is ended before that (T9).

Rules
- Lost does not mean dead: the process is looked for by the pid and start time that were committed with `executing`, on
  this host only. How that is done is given from above: tools are a higher floor.
- A call that began a background job is lost like any other, but the job is nobody's survivor: it goes on.
- What is called again because its tool is idempotent is ended first, too: never two of it at once.
"""

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.session import SessionState
from supervisor.core.values import LOST
from supervisor.logs import FactLog
from supervisor.runtime.identity import HOST

log = FactLog(__name__)

EndOne = Callable[[int, float | None], Awaitable[str]]
"""Ends a process by pid and start time; says gone, ended, refused or not ours."""
_REMARKS: Final = {
    "ended": "; its process was still running and was ended",
    "refused": "; its process is still running and could not be ended",
    "kept": "; the background job that it began is not ended by that",
}


class Survivors:
    """Ends survivors, and remembers what was found until the calls' results are written."""

    def __init__(self, end_one: EndOne | None = None) -> None:
        self._end_one = end_one
        self._found: dict[tuple[str, str], str] = {}

    async def end(self, state: SessionState) -> None:
        """Look for the processes of a session's lost calls, one after the other, and end them."""
        for operation, record in state.operations.items():
            started = record.started
            is_known = (state.id, operation) in self._found
            if is_known or record.state != "executing" or started is None or started.process is None:
                continue
            if _job_of(state, operation) is not None:
                found = "kept"
            elif started.host != HOST or self._end_one is None:
                found = "not ours"
            else:
                found = await self._end_one(started.process, started.process_started_at)
            log.warning("survivor.looked_for", session=state.id, pid=started.process, found=found)
            self._found[state.id, operation] = found

    def found_of(self, state: SessionState, operation: str) -> dict[str, str]:
        """Return what a lost call's details say of its process; empty if it had none."""
        found = self._found.get((state.id, operation))
        if found is None:
            return {}
        job = _job_of(state, operation)
        return {"survivor": found} if job is None else {"survivor": found, "job": job}

    def forget(self, session: str) -> None:
        """The results are written."""
        for key in [key for key in self._found if key[0] == session]:
            del self._found[key]

    def lost_calls(self, state: SessionState, now: datetime) -> Iterator[e.AnyEvent]:
        """Answer each call that was executing when its process died; it never runs again unless its tool says so."""
        for operation, record in state.operations.items():
            request = record.request
            if record.state == "executing" and not (isinstance(request, e.ToolCallRequested) and request.idempotent):
                survivor = self.found_of(state, operation)
                details: dict[str, Any] = {"reason": "lost", "effect": "maybe", "synthesised": True, **survivor}
                yield e.ToolCallFinished(
                    at=now,
                    operation=operation,
                    kind="interrupted",
                    content=f"{LOST} The command may have run{_REMARKS.get(survivor.get('survivor', ''), '')}.",
                    details=Raw(msgspec.json.encode(details)),
                )


def _job_of(state: SessionState, operation: str) -> str | None:
    return next((name for name, job in state.jobs.items() if job.started.operation == operation), None)
