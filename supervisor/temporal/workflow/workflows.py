"""The workflows: a tree, and the small ones that claim a decision and that tell which agents there are.

What they are given by their worker comes through an interceptor: everything else is in their histories.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import ApplicationError
from temporalio.worker import Interceptor, WorkflowInterceptorClassInput

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.values import DecisionResult
from supervisor.system.logs import FactLog, skip_while
from supervisor.temporal.wanted import Wanted
from supervisor.temporal.wire import (
    AGENTS,
    CLAIM,
    COURIER,
    RELEASE,
    TREE,
    Command,
    DecisionRequest,
    Start,
    from_wire,
    to_wire,
)
from supervisor.temporal.workflow.bodies import HURRY
from supervisor.temporal.workflow.bridge import uncancelled
from supervisor.temporal.workflow.claims import CLAIMS
from supervisor.temporal.workflow.missing import AgentMissing, find_misfit, find_missing
from supervisor.temporal.workflow.order import in_order
from supervisor.temporal.workflow.rules import RulesWorkflow
from supervisor.temporal.workflow.scheduled import ScheduledWorkflow
from supervisor.temporal.workflow.tree import Tree

log = FactLog(__name__)


def _is_replayed() -> bool:
    """Whether this code runs in a workflow for the second time. A query is not: it is new. Nor is what fails a task."""
    return (
        workflow.in_workflow() and workflow.unsafe.is_replaying_history_events() and not _offer().tells_what_is_missing
    )


skip_while(_is_replayed)


class Offer(Interceptor):
    """Hands the agents of a worker to its workflows: a workflow gets nothing else but what clients have sent.
    `lost_after`: as in `run_worker`. `hurry`: tells a body of this process that it is cancelled, by its workflow and
    the id of its activity."""

    def __init__(
        self,
        agents: Mapping[str, AgentSpec[..., Any]],
        lost_after: float,
        hurry: Callable[[str, str], None] = lambda workflow, activity: None,
    ) -> None:
        self.agents = agents
        self._hurry = hurry
        self.lost_after = lost_after
        self.tells_what_is_missing = False
        self._missing = set[str]()

    def tell_missing(self, missing: AgentMissing) -> None:
        """Log once that this worker lacks an agent of a tree."""
        if missing.agent in self._missing:
            return
        self._missing.add(missing.agent)
        self.tells_what_is_missing = True
        try:
            log.warning("tree.left_to_another_worker", agent=missing.agent, reason=str(missing))
        finally:
            self.tells_what_is_missing = False

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> None:  # noqa: A002 # temporalio's name
        input.unsafe_extern_functions[_OFFER] = lambda: self
        input.unsafe_extern_functions[HURRY] = self._hurry


_OFFER: Final = "supervisor_offer"


def _offer() -> Offer:
    found: Offer = workflow.extern_functions()[_OFFER]()
    return found


@workflow.defn(name=TREE, sandboxed=False)
class TreeWorkflow:
    """A tree. Its id is that of the root session."""

    def __init__(self) -> None:
        self._tree = Tree()

    @workflow.run
    async def run(self, document: dict[str, Any]) -> Any:
        offer = _offer()
        run = self._tree.run(from_wire(document, Start), offer.agents, offer.lost_after)
        try:
            ended = await in_order(uncancelled(run, self._tree.note_cancel))
        except AgentMissing as missing:
            offer.tell_missing(missing)
            raise
        if isinstance(ended, Start):
            workflow.continue_as_new(
                to_wire(ended),
                memo=workflow.memo(),  # what people are asked: else the next one would have what this one began with
                search_attributes=workflow.info().typed_search_attributes,
                initial_versioning_behavior=self._tree.next_version,
            )
        return ended

    def asked_until(self) -> int:
        """Return the position until which it has asked for something."""
        return self._tree.asked_until()

    def asked_after(self, position: int) -> dict[str, str]:
        """Return what it has asked for after a position, by operation."""
        return self._tree.asked_after(position)

    @workflow.signal
    def decide(self, document: dict[str, Any]) -> None:
        self._tree.take(from_wire(document, DecisionRequest))

    @workflow.signal
    def command(self, document: dict[str, Any]) -> None:
        self._tree.take(from_wire(document, Command))

    @workflow.signal(name=RELEASE)
    def release(self, document: dict[str, Any]) -> None:
        self._tree.take(from_wire(document, Command))

    @workflow.query
    def entries(self, after: int) -> bytes:
        return self._tree.entries(after)

    @workflow.query
    def carried(self, after: int) -> bytes:
        return self._tree.entries(after, is_all_there_is=True)

    @workflow.query
    def answer(self, command: str) -> Any:
        return self._tree.answer(command)


@workflow.defn(name=TREE, sandboxed=False, versioning_behavior=VersioningBehavior.PINNED)
class PinnedTreeWorkflow(TreeWorkflow):
    """A tree that stays with workers of the build that began it. Temporal knows this of workers with a build alone."""

    @workflow.run
    async def run(self, document: dict[str, Any]) -> Any:
        return await super().run(document)


@workflow.defn(name=AGENTS, sandboxed=False)
class AgentsWorkflow:
    """Returns the agents that the worker offers which runs it, and what it lacks of what a tree needs."""

    @workflow.run
    async def run(self, wanted: list[Any]) -> Any:
        agents, needed = _offer().agents, [from_wire(each, Wanted) for each in wanted]
        missing = find_missing(needed, agents)
        return {
            "agents": [to_wire(agents[name].view()) for name in sorted(agents)],
            "missing": None if missing is None else str(missing),
            "misfit": find_misfit(needed, agents),
        }


@workflow.defn(name=COURIER, sandboxed=False)
class CourierWorkflow:
    """Tells a worker, by a queue of its own, that bodies which run there are cancelled."""

    @workflow.run
    async def run(self, tree: str, activities: list[str]) -> None:
        if not workflow.unsafe.is_replaying():
            for each in activities:
                workflow.extern_functions()[HURRY](tree, each)


@workflow.defn(name=CLAIM, sandboxed=False)
class ClaimWorkflow:
    """Claims the decision on one approval: its id can be started once. It carries the decision to the tree, so that a
    client which dies after the claim loses nothing, and returns what the tree made of it.

    It fails if the tree refuses the decision. Then the approval can be claimed again. It cannot be cancelled: the
    decision may count already.
    """

    def __init__(self) -> None:
        self._answer: Any = None
        self._news: anyio.Event | None = None

    @workflow.signal
    def answer(self, document: Any) -> None:
        self._answer = document
        if self._news is not None:
            self._news.set()

    @workflow.run
    async def run(self, document: dict[str, Any]) -> Any:
        return await uncancelled(self._carry(document), lambda: None)

    async def _carry(self, document: dict[str, Any]) -> Any:
        request = from_wire(document, DecisionRequest)
        self._news = anyio.Event()
        try:
            await workflow.get_external_workflow_handle(request.root).signal("decide", document)
        except ApplicationError:  # the tree has ended
            return to_wire(DecisionResult(kind="closed", approval=request.approval))
        if self._answer is None:
            await self._news.wait()
        if "error" in self._answer:
            raise ApplicationError(self._answer["text"], type=self._answer["error"], non_retryable=True)
        return self._answer


_OTHERS: Final = (ClaimWorkflow, AgentsWorkflow, RulesWorkflow, ScheduledWorkflow, *CLAIMS)
WORKFLOWS: Final = (TreeWorkflow, *_OTHERS)
PINNED: Final = (PinnedTreeWorkflow, *_OTHERS)
"""The workflows of a worker with a build."""
