"""What code asks for that does not follow the history of its tree: Temporal says the kind of it alone.

temporalio drops such a workflow from memory. Before it does, its journal has what the code has asked for in the task
that failed. The worker keeps that in the memo of the workflow `diverged~RUN`, where each client reads it
(mirror/stuck.py): once for each workflow, since its own code stays the same. That of a later worker takes its place.
"""

import asyncio
from typing import Any, Final

from temporalio.bridge.proto.workflow_activation import RemoveFromCache
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails

from supervisor.system.logs import FactLog
from supervisor.temporal.connection import SOON
from supervisor.temporal.wire import BARE_CLAIM, QUEUE, diverged_id
from supervisor.temporal.worker.unstarted import TaskRunner
from supervisor.temporal.workflow.workflows import TreeWorkflow

log = FactLog(__name__)

_DIVERGED: Final = RemoveFromCache.EvictionReason.NONDETERMINISM


class TellingRunner(TaskRunner):
    """Runs workflows as TaskRunner, and tells what does not follow a history."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._told: dict[str, asyncio.Task[None]] = {}
        """By the run of each workflow of which it was told."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance, before = super().create_instance(det), 0
        usual = instance.activate

        def activate(given: Any) -> Any:
            nonlocal before
            tree = vars(instance)["_object"]  # None before its first task
            if isinstance(tree, TreeWorkflow):
                if any(job.remove_from_cache.reason == _DIVERGED for job in given.jobs):
                    self._loop.call_soon_threadsafe(self._tell, given.run_id, tree.asked_after(before))
                if any(job.WhichOneof("variant") != "query_workflow" for job in given.jobs):
                    before = tree.asked_until()
            return usual(given)

        vars(instance)["activate"] = activate
        return instance

    def _tell(self, run: str, asked: dict[str, str]) -> None:
        if run not in self._told and asked:
            self._told[run] = self._loop.create_task(self._keep(run, asked))

    async def _keep(self, run: str, asked: dict[str, str]) -> None:
        try:
            await self._client.start_workflow(
                BARE_CLAIM,
                id=diverged_id(run),
                task_queue=QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
                memo={"asked": asked},
                rpc_timeout=SOON,
            )
        except (RPCError, TemporalError) as error:
            log.debug("divergence.not_told", run=run, reason=str(error))
            del self._told[run]
