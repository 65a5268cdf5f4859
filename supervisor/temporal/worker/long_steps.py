"""Long steps of a workflow: temporalio neither interrupts one, nor runs another one of the workflow at the same time.

temporalio gives a workflow two seconds for what comes with one of its tasks. Then it fails the task, raises an
exception in the workflow's thread, wherever that is, and takes the workflow out of memory in another thread, whether
the first one has ended or not. A tree may need longer: a thousand sub-agents that are cancelled at once, on a busy
machine. What its event loop then loses is a wake-up, for example. That task never ends, anyio delivers the
cancellation again and again, and the thread runs for ever. So does that of the next try, on a machine that is busier.

Rules
- Nothing interrupts a step. One that the worker gives up runs to its end, and only then does the tree leave memory.
- The worker gives a step up when the server does: no answer counts after that.
"""

from threading import Lock
from typing import Any, Final

from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkflowInstance, WorkflowInstanceDetails

GIVEN_UP_SECONDS: Final = 10
"""Seconds that the server waits for the task of a workflow, where its start names no others."""


class Uninterrupted(UnsandboxedWorkflowRunner):
    """Runs workflows whose threads temporalio cannot find, one step of each at a time."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = super().create_instance(det)
        usual, is_free = instance.activate, Lock()

        def activate(given: Any) -> Any:
            with is_free:
                return usual(given)

        vars(instance).update(activate=activate, get_thread_id=lambda: None)
        return instance


def be_patient(worker: Worker) -> None:
    """Let a step take as long as the server waits for it. temporalio has no option for that, except a mode for
    debuggers, which runs workflows in the thread of the worker's event loop."""
    workflows = worker._workflow_worker  # noqa: SLF001 # see above
    if workflows is not None:  # it runs some
        workflows._deadlock_timeout_seconds = GIVEN_UP_SECONDS  # noqa: SLF001
