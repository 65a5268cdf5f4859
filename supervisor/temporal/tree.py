"""One tree is one workflow: our runtime, as it is, over a journal in memory.

Temporal keeps what came into the workflow (its start, signals, ends of activities) and runs it again on another worker.
So the journal in memory is the same each time, and needs no disk. Spawn, cancel and ends stay one append.

Rules
- A signal is a command: it is acknowledged when the server has it, and counts while no worker lives.
- What people wait for is written into the search attribute and the memo, together with what the journal says.
- The workflow ends when nothing of its tree is open. No turn begins afterwards.
- A command that cannot be done is answered to the workflow that carries it, or logged.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from typing import Any, Final

import anyio
import msgspec
from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ApplicationError
from temporalio.worker import Interceptor, WorkflowInterceptorClassInput

from supervisor.core.agent_spec import AgentSpec
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, SupervisorError
from supervisor.core.events import encode_event
from supervisor.core.values import Approval, DecisionResult
from supervisor.logs import FactLog
from supervisor.runtime.journal.hub import INBOX
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.store.memory import MemoryStore
from supervisor.temporal.bridge import is_evicted
from supervisor.temporal.claims import CLAIMS, claim_withdrawn
from supervisor.temporal.environment import WorkflowEnvironment
from supervisor.temporal.order import in_order
from supervisor.temporal.rulebook import RulesWorkflow
from supervisor.temporal.wire import (
    AGENTS,
    CLAIM,
    EXPIRY,
    MEMO,
    MEMO_LARGEST,
    PAGE,
    PENDING,
    TREE,
    Command,
    DecisionRequest,
    Entries,
    Start,
    decision_id,
    error_document,
    from_wire,
    to_wire,
)

log = FactLog(__name__)

KEPT: Final = 100
"""The number of commands whose answers are kept."""
PENDING_KEY: Final = SearchAttributeKey.for_keyword_list(PENDING)


class TreeStore(MemoryStore):
    """The journal of a tree. It outlives every worker, since Temporal makes it again."""

    is_durable = True
    name = "this Temporal namespace"

    def since(self, after: int) -> Entries:
        """Return entries after a position, as many as one answer holds."""
        rows, size = list[tuple[int, str, str]](), 0
        for row in self.rows(after):
            body = encode_event(row.event).decode()
            size += len(body)
            if rows and size > PAGE:
                break
            rows.append((row.position, row.session, body))
        return Entries(rows=rows, last=self.last_position())


class TreeRunner(Runner):
    """The runner of a tree. It refuses agents that hold a process."""

    def begin(self, session: str, spec: AgentSpec[Any, Any]) -> None:
        super().begin(session, _refused(spec) if spec.holds_process else spec)


def _refused(spec: AgentSpec[Any, Any]) -> AgentSpec[Any, Any]:
    refused = copy(spec)

    async def refuse(*_: Any) -> None:
        raise InvalidInput(f"agent {spec.name} holds a process, which stays on one machine: it cannot run on Temporal")

    refused.fn = refuse
    return refused


@asynccontextmanager
async def hosting(runner: Runner) -> AsyncIterator[None]:
    """Own the tasks of a tree. A cancellation from Temporal, when the workflow leaves a worker's memory, ends them all
    at once, and is no cancellation of a run."""
    try:
        async with anyio.create_task_group() as writer:
            writer.start_soon(_write, runner)
            async with anyio.create_task_group() as tasks:
                runner.attempts.serve_in(tasks)
                tasks.start_soon(runner.alarm.run)
                yield
                tasks.cancel_scope.cancel()
            writer.cancel_scope.cancel()
    finally:
        _leave(runner)


async def _write(runner: Runner) -> None:
    await runner.journal.run(ignore_native=False)


def _leave(runner: Runner) -> None:
    runner.attempts.suspend_all("the workflow left the memory of its worker")
    runner.journal.leave("the workflow left the memory of its worker")


class Tree:
    """The state and the commands of a tree's workflow."""

    def __init__(self) -> None:
        self._commands: list[DecisionRequest | Command] = []
        self._store = TreeStore()
        self._shown: list[str] = []
        self._answers: dict[str, Any] = {}
        self._runner: Runner | None = None

    def take(self, command: DecisionRequest | Command) -> None:
        self._commands.append(command)
        if self._runner is not None:
            self._runner.attempts.note_change()

    def entries(self, after: int) -> Any:
        return to_wire(self._store.since(after))

    def answer(self, command: str) -> Any:
        """Return what a command came to, as {"answer": ...}; None if it was not done yet, or long ago."""
        return self._answers.get(command)

    async def run(self, start: Start, agents: Mapping[str, AgentSpec[..., Any]], lost_after: float) -> Any:
        """Run the tree until nothing of it is open. Return the outcome of the root's latest run."""
        environment = WorkflowEnvironment(start.cwd, lost_after, start.largest)
        self._runner = runner = TreeRunner(self._store, None, environment=environment)
        supervisor = LocalSupervisor(runner, None, agents)
        supervisor.audience.has_readers = True
        refused: SupervisorError | None = None
        async with hosting(runner):
            try:
                refused = await self._begin(supervisor, start)
                is_over = False
                while not is_over:
                    is_over = not await self._goes_on(runner, start.session)
                    await self._claim_withdrawn()
                    self._show()
                    while self._commands:
                        is_over = False
                        await self._do(supervisor, self._commands.pop(0))
            except BaseException:  # before a task group waits for the tasks: they must know that this is no cancel
                _leave(runner)
                raise
        if refused is not None:  # outside of the task group, which would wrap it
            raise ApplicationError(str(refused), type=type(refused).__name__, non_retryable=True)
        row = self._store.get_session(start.session)
        assert row is not None
        assert row.outcome is not None
        return msgspec.to_builtins(row.outcome)

    async def _begin(self, supervisor: LocalSupervisor, start: Start) -> SupervisorError | None:
        """Start the agent. Return why it cannot be started."""
        given = () if start.given is msgspec.UNSET else (start.given,)
        try:
            await supervisor.start(
                start.agent, *given, session=start.session, cwd=start.cwd, requester=start.requester, by=start.by
            )
        except SupervisorError as error:
            return error
        return None

    async def _goes_on(self, runner: Runner, root: str) -> bool:
        """Wait for a command, for news of what people are asked, or for the end. Return whether there is more to do."""
        asked = runner.hub.news(INBOX)

        def is_over() -> bool:
            return not runner.attempts.has_tasks and not self._store.find_sessions(is_open=True, limit=1)

        try:
            await runner.attempts.wait_until(lambda: bool(self._commands) or asked.is_set() or is_over())
        except anyio.get_cancelled_exc_class():
            if is_evicted():
                raise
            reason = workflow.cancellation_reason() or "the workflow was cancelled in Temporal"
            self._commands.append(Command(id="", kind="cancel", session=root, by="temporal", text=reason))
        return bool(self._commands) or not is_over()

    async def _do(self, supervisor: LocalSupervisor, command: DecisionRequest | Command) -> None:
        if isinstance(command, DecisionRequest):
            await self._decide(supervisor, command)
            return
        text, by = command.text or "", command.by
        answer: Any = None
        try:
            match command.kind:
                case "cancel":
                    await supervisor.cancel(command.session, reason=command.text, by=by)
                case "send":
                    answer = to_wire(await supervisor.send(command.session, text, by=by))
                case "add_rule":
                    assert command.rule is not None
                    answer = to_wire(await supervisor.add_rule(command.rule, by=by))
                case "revoke_rule":
                    answer = to_wire(await supervisor.revoke_rule(text, by=by))
        except SupervisorError as error:
            log.debug("command.refused", command=command.kind, session=command.session, reason=str(error))
            answer = error_document(error)
        self._answers[command.id] = {"answer": answer}
        if len(self._answers) > KEPT:
            del self._answers[next(iter(self._answers))]

    async def _decide(self, supervisor: LocalSupervisor, request: DecisionRequest) -> None:
        """Decide, and tell the workflow that has claimed the decision what it came to."""
        answer: Any
        try:
            answer = to_wire(await supervisor.decide(request.approval, request.decision, channel=request.channel))
        except SupervisorError as error:
            answer = error_document(error)
        self._show()
        try:
            await workflow.get_external_workflow_handle(decision_id(request.approval)).signal("answer", answer)
        except ApplicationError as gone:
            log.debug("decision.not_answered", approval=request.approval, reason=str(gone))

    async def _claim_withdrawn(self) -> None:
        gone = [found for each in self._shown if (found := self._store.get_approval(each)) is not None]
        await claim_withdrawn(gone)

    def _show(self) -> None:
        """Write what people are asked where a client reads it without a worker, if it has changed."""
        pending = self._store.find_approvals(limit=None)
        ids = [each.id for each in pending]
        if ids == self._shown:
            return
        self._shown = ids
        workflow.upsert_memo({MEMO: memo_of(pending)})
        workflow.upsert_search_attributes([PENDING_KEY.value_set(ids)])


def memo_of(pending: list[Approval]) -> Any:
    """Return the memo of a tree: what is pending, oldest first, as far as it fits, and the ids of the others."""
    whole, left_out, size = list[Any](), list[str](), 0
    for each in pending:
        size += len(to_json(each, "an approval"))
        if size > MEMO_LARGEST:
            left_out.append(each.id)
        else:
            whole.append(msgspec.to_builtins(each))
    return {"pending": whole, "left_out": left_out}


class Offer(Interceptor):
    """Hands the agents of a worker to its workflows: a workflow gets nothing else but what clients have sent.
    `lost_after`: as in `run_worker`."""

    def __init__(self, agents: Mapping[str, AgentSpec[..., Any]], lost_after: float) -> None:
        self.agents = agents
        self.lost_after = lost_after

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> None:  # noqa: A002 # temporalio's name
        input.unsafe_extern_functions[_OFFER] = lambda: self


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
        return await in_order(self._tree.run(from_wire(document, Start), offer.agents, offer.lost_after))

    @workflow.signal
    def decide(self, document: dict[str, Any]) -> None:
        self._tree.take(from_wire(document, DecisionRequest))

    @workflow.signal
    def command(self, document: dict[str, Any]) -> None:
        self._tree.take(from_wire(document, Command))

    @workflow.query
    def entries(self, after: int) -> Any:
        return self._tree.entries(after)

    @workflow.query
    def answer(self, command: str) -> Any:
        return self._tree.answer(command)


@workflow.defn(name=AGENTS, sandboxed=False)
class AgentsWorkflow:
    """Returns the agents that the worker offers which runs it."""

    @workflow.run
    async def run(self) -> Any:
        agents = _offer().agents
        return [to_wire(agents[name].view()) for name in sorted(agents)]


@workflow.defn(name=CLAIM, sandboxed=False)
class ClaimWorkflow:
    """Claims the decision on one approval: its id can be started once. It carries the decision to the tree, so that a
    client which dies after the claim loses nothing, and returns what the tree made of it.

    It fails if the tree refuses the decision. Then the approval can be claimed again.
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


@workflow.defn(name=EXPIRY, sandboxed=False)
class ExpiryWorkflow:
    """Claims an approval for its expiry, under the id with which a decision would claim it."""

    @workflow.run
    async def run(self) -> None:
        pass


WORKFLOWS: Final = (TreeWorkflow, ClaimWorkflow, ExpiryWorkflow, AgentsWorkflow, RulesWorkflow, *CLAIMS)
