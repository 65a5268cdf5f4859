"""The workflow that a schedule of Temporal starts: it begins the tree of the instant that is due, if one is.

It stands between the two since Temporal adds the time to the id of what it starts, which the id of a session cannot
have. The tree is its child, and it lasts as long: so Temporal knows whether the session before is open, and does then
what the schedule says.

Rules
- The id of the tree says which instant it is of, and is used once: so one instant is one tree, whatever is repeated.
- Of several instants until now only the last one counts. The others were missed: no worker was there.
- What became of the instant is in the memo, where a client reads it without a worker.
- A tree that has begun needs this workflow no more: an end of it, however it comes, ends no tree.
"""

from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace
from temporalio import workflow
from temporalio.common import SearchAttributeKey, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError, WorkflowAlreadyStartedError
from temporalio.workflow import ChildWorkflowHandle

from supervisor.runtime.plans.schedules import NO_PROCESS
from supervisor.temporal.searched import attributes_of
from supervisor.temporal.wakes import was_missed
from supervisor.temporal.wire import (
    FIND_DUE,
    HANDLED,
    SCHEDULE,
    TREE,
    Handled,
    Scheduled,
    from_wire,
    mark_of_start,
    memo_of,
    to_wire,
)

_WAKE = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")


@workflow.defn(name=SCHEDULE, sandboxed=False)
class ScheduledWorkflow:
    """One wake of a schedule."""

    @workflow.run
    async def run(self, document: dict[str, Any]) -> None:
        given, now, began = from_wire(document, Scheduled), workflow.now(), workflow.info().start_time
        wake = workflow.info().typed_search_attributes.get(_WAKE, began)
        found = await workflow.execute_local_activity(
            FIND_DUE,
            args=[document, wake.isoformat(), now.isoformat()],
            start_to_close_timeout=timedelta(seconds=10),
        )
        if found is None:
            return
        due = datetime.fromisoformat(found)
        if given.schedule.if_missed == "skip" and was_missed(due, began, now):
            _note(Handled(instant=due, became="skipped", reason=NO_PROCESS))
        else:
            await self._begin(given, due)

    async def _begin(self, given: Scheduled, due: datetime) -> None:
        start = replace(given.start, given=given.schedule.input, session=given.schedule.session_at(due))
        tree: ChildWorkflowHandle[Any, Any] | None
        try:
            tree = await workflow.start_child_workflow(
                TREE,
                to_wire(start),
                id=start.session,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
                memo=memo_of(start, mark_of_start(start)),
                search_attributes=attributes_of(start),
            )
        except WorkflowAlreadyStartedError:  # the wake of this instant, or of one before, has begun it
            tree = None
        _note(Handled(instant=due, became="begun", session=start.session))
        if tree is None:
            return
        try:
            await tree
        except ChildWorkflowError as error:
            if isinstance(error.cause, ApplicationError):  # a worker has refused it
                _note(Handled(instant=due, became="skipped", reason=error.cause.message))


def _note(handled: Handled) -> None:
    workflow.upsert_memo({HANDLED: to_wire(handled)})
