"""The runner of a tree inside its workflow, and the tasks that it owns.

Rules
- An agent that holds a process is refused: the process would stay on one machine. So is one that has a limit.
- A workflow that leaves a worker's memory ends the tasks of its tree at once. That is no cancellation of a run.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import anyio

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.limits import ELSEWHERE
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.lifecycle.orphans import OrphanedProcesses
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.plans.interrupted import NOT_BEGUN
from supervisor.temporal.wire import Start
from supervisor.temporal.workflow.environment import WorkflowEnvironment
from supervisor.temporal.workflow.journal import TreeStore
from supervisor.temporal.workflow.missing import AgentMissing
from supervisor.temporal.workflow.references import find_agent


class TreeRunner(Runner):
    """The runner of a tree. `lost_after`: as in `run_worker`."""

    environment: WorkflowEnvironment

    def __init__(self, store: TreeStore, start: Start, lost_after: float) -> None:
        not_begun = {} if start.carried is None else dict.fromkeys(start.carried.not_begun, NOT_BEGUN)
        super().__init__(
            store,
            None,
            environment=WorkflowEnvironment(start, lambda: self.attempts, lost_after),
            find_agent=find_agent,
            orphans=OrphanedProcesses(found=not_begun),
            prices=lambda _: None,  # the workers know them, and say what a body has cost
        )

    def begin(self, session: str, spec: AgentSpec[Any, Any]) -> None:
        super().begin(session, _refused(spec) if spec.holds_process or spec.limit is not None else spec)
        self.orphans.forget(session)  # from now on the calls of this workflow tell what has begun

    def grew_quiet(self, attempt: Attempt) -> None:
        super().grew_quiet(attempt)
        self.attempts.note_change()


def _refused(spec: AgentSpec[Any, Any]) -> AgentSpec[Any, Any]:
    refused = copy(spec)

    async def refuse(*_: Any) -> None:
        if spec.limit is not None:
            raise InvalidInput(f"agent {spec.name}: {ELSEWHERE}")
        raise InvalidInput(f"agent {spec.name} holds a process, which stays on one machine: it cannot run on Temporal")

    refused.fn = refuse
    return refused


@asynccontextmanager
async def hosting(runner: Runner) -> AsyncIterator[None]:
    """Own the tasks of a tree. A cancellation from Temporal, when the workflow leaves a worker's memory, ends them all
    at once, and is no cancellation of a run. AgentMissing is raised as it is, and in no group."""
    missing: AgentMissing | None = None
    try:
        async with anyio.create_task_group() as writer:
            writer.start_soon(_write, runner)
            async with anyio.create_task_group() as tasks:
                runner.attempts.serve_in(tasks)
                tasks.start_soon(runner.alarm.run)
                try:
                    yield
                except AgentMissing as left:
                    missing = left
                tasks.cancel_scope.cancel()
            writer.cancel_scope.cancel()
    finally:
        leave(runner)
    if missing is not None:
        raise missing


async def _write(runner: Runner) -> None:
    await runner.journal.run(ignore_native=False)


def leave(runner: Runner) -> None:
    """End the attempts of a tree whose workflow leaves the memory of its worker, and write nothing any more."""
    runner.attempts.suspend_all("the workflow left the memory of its worker")
    runner.journal.leave("the workflow left the memory of its worker")
