"""Refuses events of a workflow for which no task of it was started.

A worker that is asked a query, and does not have the workflow in memory, fetches its history. Meanwhile a timer may
have fired. Then the history ends with events whose task is only scheduled. temporalio 1.35 gives the workflow these
events all the same, at the time of the task before. When their task is started, it does not give them again, and what
the workflow has asked for too early goes into the history. A replay gives the events at the time at which their task
was started, together with those that came until then. There a timer is due that was not due at the time before. So the
replay asks for something else, and no worker can run the workflow any more.

Rules
- Events that are new, at a time that is not, belong to no task. They are refused. temporalio then drops the workflow
  from memory, and fails the query. The client asks again (mirror/namespace.py).
- Two tasks that the server's clock does not tell apart look the same. The second one is refused, and the server gives
  it again.
- The history that a replay follows is not looked at: all its tasks were started.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails

from supervisor.temporal.wire import UNSTARTED
from supervisor.temporal.worker.long_steps import Uninterrupted

_WITHOUT_EVENTS: Final = frozenset(("query_workflow", "remove_from_cache"))


class TaskRunner(Uninterrupted):
    """Runs workflows without an interruption, and refuses events that belong to no task."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = super().create_instance(det)
        vars(instance)["activate"] = partial(_Tasks().activate, instance.activate)
        return instance


def refuse(given: Any) -> WorkflowActivationCompletion:
    """Return the answer to events that belong to no task: a query fails with its type, and the client asks again."""
    refusal = WorkflowActivationCompletion(run_id=given.run_id)
    refusal.failed.failure.message = "no task of the workflow was started for its latest events"
    refusal.failed.failure.application_failure_info.type = UNSTARTED
    return refusal


class _Tasks:
    """The tasks of a workflow in memory: the time of the latest one, and how many events there were."""

    def __init__(self) -> None:
        self._at = -1
        self._events = 0

    def activate(self, usual: Callable[[Any], Any], given: Any) -> Any:
        if all(job.WhichOneof("variant") in _WITHOUT_EVENTS for job in given.jobs):
            return usual(given)
        at, events = given.timestamp.ToNanoseconds(), given.history_length
        if at == self._at and events > self._events and not given.is_replaying:
            return refuse(given)
        self._at, self._events = at, events
        return usual(given)
