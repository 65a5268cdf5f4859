"""What a session knows of one operation, and of one background job: the events that say so, and what follows from them.

Changed by the fold alone (core/session.py).
"""

from datetime import datetime

import msgspec
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.values import JobView

ASKING = ("asked", "posed")
"""States of operations that wait for a person."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One operation of a run: where it is in its table, and the events that say so."""

    state: str
    kind: str
    begun: int
    answered: int = 0
    request: e.ToolCallRequested | e.QuestionAsked | e.OperationStarted | None = None
    decision: e.ApprovalDecided | e.QuestionAnswered | e.ApprovalExpired | e.ApprovalWithdrawn | None = None
    """What ended the wait for a person."""
    started: e.ToolCallStarted | None = None
    result: e.ToolCallFinished | e.OperationFinished | e.OperationAbandoned | None = None

    @property
    def is_open(self) -> bool:
        return self.state not in ("finished", "abandoned")

    @property
    def pending_approval(self) -> str | None:
        """The id of the approval or question that a person has yet to decide, if there is one."""
        return e.approval_in(self.request) if self.state in ASKING else None

    @property
    def expires_at(self) -> datetime | None:
        """From when on nobody can decide it; None if it never expires."""
        if self.request is None or isinstance(self.request, e.OperationStarted):
            return None
        return self.request.expires_at

    @property
    def due_at(self) -> datetime | None:
        """When it goes on by itself: a timer, or an approval that expires."""
        if isinstance(self.request, e.OperationStarted):
            return self.request.due_at if self.state == "waiting" else None
        return self.expires_at if self.state in ASKING else None

    @property
    def edited(self) -> Raw | None:
        """The arguments as the approver edited them, None if she left them as they were (A8)."""
        return self.decision.edited if isinstance(self.decision, e.ApprovalDecided) else None

    @property
    def arguments(self) -> Raw:
        """What is going to run: the arguments as requested, or as the approver edited them (A8)."""
        if self.edited is not None:
            return self.edited
        assert isinstance(self.request, e.ToolCallRequested)
        return self.request.arguments


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A background job of a session: how it began, and how it ended, if it has."""

    started: e.JobStarted
    ended: e.JobEnded | None = None

    def view(self, session: str) -> JobView:
        """Return what the journal says of it."""
        began, ended = self.started, self.ended
        return JobView(
            job=began.job,
            session=session,
            state="running" if ended is None else ended.how,
            command=began.command,
            host=began.host,
            process=began.process,
            process_started_at=began.process_started_at,
            guard=began.guard,
            guard_started_at=began.guard_started_at,
            log=began.log,
            began_at=began.at,
            exit_code=None if ended is None else ended.exit_code,
            signal=None if ended is None else ended.signal,
            duration=None if ended is None else ended.duration,
            by=None if ended is None else ended.by,
            keep=began.keep,
        )
