"""Lost calls: calls that were executing when their process died. They are answered before the agent runs again (T2).

Rules
- A lost call never runs again, unless its tool is idempotent, or it is known that it has not begun.
- The answer says what was found of its process (runtime/lifecycle/orphans.py).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from supervisor.core import events as e
from supervisor.core.sessions.state import SessionState
from supervisor.core.values import LOST
from supervisor.runtime.plans.results import finished_call

Found = Mapping[tuple[str, str], str]
"""The findings about the processes of lost calls, by session and operation: gone, ended, refused, kept or not ours. Or
NOT_BEGUN, about a call that counts as executing."""
NOT_BEGUN: Final = "not begun"
_REMARKS: Final = {
    "ended": "; its process was still running and was ended",
    "refused": "; its process is still running and could not be ended",
    "kept": "; the background job that it began goes on",
}


def lost_calls(state: SessionState, found: Found, now: datetime) -> Iterator[e.AnyEvent]:
    """Answer each lost call as interrupted, except those of idempotent tools, and those that have not begun:
    they run."""
    for operation, record in state.operations.items():
        request = record.request
        runs = found.get((state.id, operation)) == NOT_BEGUN
        runs = runs or (isinstance(request, e.ToolCallRequested) and request.idempotent)
        if record.state == "executing" and not runs:
            orphan = orphan_of(state, operation, found)
            details: dict[str, Any] = {"reason": "lost", "effect": "maybe", "synthesised": True, **orphan}
            told = f"{LOST} The command may have run{_REMARKS.get(orphan.get('orphaned_process', ''), '')}."
            yield finished_call(operation, now, "interrupted", told, details)


def orphan_of(state: SessionState, operation: str, found: Found) -> dict[str, str]:
    """Return the details of a lost call about its process; empty if it had none."""
    orphan = found.get((state.id, operation))
    if orphan is None or orphan == NOT_BEGUN:
        return {}
    job = job_of(state, operation)
    return {"orphaned_process": orphan} if job is None else {"orphaned_process": orphan, "job": job}


def job_of(state: SessionState, operation: str) -> str | None:
    """Return the background job that a call began, if it began one."""
    return next((name for name, job in state.jobs.items() if job.started.operation == operation), None)
