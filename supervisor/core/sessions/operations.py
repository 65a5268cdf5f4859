"""What a session knows of one operation, and of one background job: its events, and values derived from them.

Only the fold changes these values (core/sessions/state.py).
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.state import ENDS_APPROVAL, ApprovalState, asked_by
from supervisor.core.errors import IllegalEvent
from supervisor.core.sessions.machine import BEGINS_OPERATION, ENDS_OPERATION
from supervisor.core.values import JobView

_OF_APPROVAL: Final = ENDS_APPROVAL | e.having("votes", "evidence")
_OPENS: Final = BEGINS_OPERATION - ENDS_OPERATION
"""Events with which an operation begins that is not finished yet."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One operation of a run: its state in the table, and the events that led to it."""

    state: str
    kind: str
    begun: int
    answered: int = 0
    request: e.ToolCallRequested | e.QuestionAsked | e.OperationStarted | None = None
    approval: ApprovalState | None = None
    """The approval that it asks for, if it asks a person."""
    started: e.ToolCallStarted | None = None
    result: e.ToolCallFinished | e.OperationFinished | e.OperationAbandoned | None = None

    def moved(self, state: str, event: Any, length: int) -> "Operation":
        """Return the operation after an event that brings it into `state`. `length`: of the journal before it. Raises
        IllegalEvent for the end of an approval that it does not ask for."""
        if type(event) in _OPENS:
            return replace(self, state=state, request=event, approval=asked_by(event))
        if isinstance(event, e.ToolCallStarted):
            return replace(self, state=state, started=event)
        approval = self.approval
        if type(event) in _OF_APPROVAL and approval is not None:
            approval = approval.apply(event)
        if type(event) in ENDS_OPERATION:
            return replace(self, state=state, approval=approval, result=event, answered=length)
        if event.approval != self.pending_approval:
            raise IllegalEvent(f"{event.operation} does not ask for approval {event.approval}")
        return replace(self, state=state, approval=approval)

    @property
    def is_open(self) -> bool:
        return self.state not in ("finished", "abandoned")

    @property
    def is_call(self) -> bool:
        return isinstance(self.request, e.ToolCallRequested)

    @property
    def pending_approval(self) -> str | None:
        """The id of the approval or question that waits for a person's decision, if there is one."""
        return e.approval_in(self.request) if self.is_asking else None

    @property
    def wants_evidence(self) -> bool:
        """Whether a person would edit the call for which it waits, and is to see evidence of that first (A18)."""
        return self.is_asking and self.approval is not None and self.approval.wanted is not None

    @property
    def is_asking(self) -> bool:
        """Whether it waits for a person."""
        return self.approval is not None and self.approval.status == "pending"

    @property
    def is_decided(self) -> bool:
        """Whether the wait for a person is over."""
        return self.approval is not None and self.approval.status != "pending"

    @property
    def expires_at(self) -> datetime | None:
        """When it expires: from then on no person can decide it. None if it never expires."""
        if self.request is None or isinstance(self.request, e.OperationStarted):
            return None
        return self.request.expires_at

    @property
    def due_at(self) -> datetime | None:
        """When it goes on by itself: a timer, or an approval that expires."""
        if isinstance(self.request, e.OperationStarted):
            return self.request.due_at if self.state == "waiting" else None
        return self.expires_at if self.is_asking else None

    @property
    def began_at(self) -> datetime:
        """When it was asked for."""
        assert self.request is not None
        return self.request.at

    @property
    def edited(self) -> Raw | None:
        """The arguments as the approver edited them; None if the approver did not change them (A8)."""
        return None if self.approval is None else self.approval.edited

    @property
    def arguments(self) -> Raw:
        """The arguments of the effect: as requested, or as the approver edited them (A8)."""
        if self.edited is not None:
            return self.edited
        assert isinstance(self.request, e.ToolCallRequested)
        return self.request.arguments


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A background job of a session: how it began, and how it ended, if it has."""

    started: e.JobStarted
    ended: e.JobEnded | None = None

    def view(self, session: str) -> JobView:
        """Return what the journal says about the job."""
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
