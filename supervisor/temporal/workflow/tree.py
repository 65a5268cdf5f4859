"""One tree is one workflow: our runtime, as it is, over a journal in memory.

Temporal keeps what came into the workflow (its start, signals, ends of activities) and runs it again on another worker.
So the journal in memory is the same each time, and needs no disk. Spawn, cancel and ends stay one append.

Rules
- A signal is a command: it is acknowledged when the server has it, and counts while no worker lives.
- What people wait for is written into the search attribute and the memo, together with what the journal says.
- The workflow ends when nothing of its tree is open. It returns what a later one goes on with (turns.py).
- A workflow with many events, or large ones, goes on in a new one (carry.py), as after a graceful stop of a process. So
  does a tree that is rescued from code that has changed: it parks in the new workflow until the workers have the new
  code.
- A command that cannot be done is answered to the workflow that carries it, or logged.
- A worker that lacks an agent of a tree leaves it to another one (missing.py). Only a tree that has not begun and was
  cancelled is refused by such a worker.

The module is longer than 400 lines because a tree, its commands and its move share one state.
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

from supervisor.core.agent_spec import AgentSpec
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, LimitExceeded, SupervisorError, UnknownAgent
from supervisor.core.events import ForkTaken, encode_event
from supervisor.core.values import Approval, Outcome
from supervisor.logs import FactLog
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.journal.hub import INBOX
from supervisor.runtime.lifecycle.orphans import OrphanedProcesses
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.plans.interrupted import NOT_BEGUN
from supervisor.store.memory import MemoryStore
from supervisor.temporal.carry import pack, unpack
from supervisor.temporal.rulebook import rule_for_all
from supervisor.temporal.wanted import Wanted, wanted_by
from supervisor.temporal.wire import (
    CARRIED_LARGEST,
    ENDED_LARGEST,
    LARGEST,
    MEMO,
    MEMO_LARGEST,
    PAGE,
    PENDING,
    SEARCHED_LARGEST,
    Carried,
    Command,
    DecisionRequest,
    Entries,
    ForkNote,
    Moving,
    Rescue,
    Signal,
    Start,
    decision_id,
    error_document,
    from_wire,
    to_wire,
)
from supervisor.temporal.workflow.claims import claim_withdrawn
from supervisor.temporal.workflow.environment import WorkflowEnvironment
from supervisor.temporal.workflow.missing import AgentMissing, find_missing
from supervisor.temporal.workflow.references import find_agent
from supervisor.temporal.workflow.turns import take_over

log = FactLog(__name__)

KEPT: Final = 100
"""The number of commands whose answers are kept."""
UNWIND: Final = 5.0
"""Seconds for which agents may unwind before a tree moves to a new workflow."""
TOO_LARGE: Final = (
    "its journal is too large to go on in a new workflow: name a folder for large payloads for the client that starts "
    "sessions (SUPERVISOR_TEMPORAL_PAYLOADS)"
)
PENDING_KEY: Final = SearchAttributeKey.for_keyword_list(PENDING)


class TreeStore(MemoryStore):
    """The journal of a tree. It outlives every worker, since Temporal makes it again."""

    is_durable = True
    name = "this Temporal namespace"

    def __init__(self, carried: Carried | None = None) -> None:
        super().__init__()
        self._carried = carried
        if carried is not None:
            self.begin()
            self.write(unpack(carried.journal))
            self.commit()
            self._last = carried.last

    def since(self, after: int, *, is_all_there_is: bool = False) -> Entries:
        """Return entries after a position, as many as one answer holds. `is_all_there_is`: those that were carried,
        too, where the workflow before cannot be asked."""
        rows, size = list[tuple[int, str, str]](), 0
        carried = None if is_all_there_is else self._carried
        if carried is not None and carried.earlier is not None and after < carried.last:
            return Entries(rows=rows, last=self.last_position(), earlier=carried.earlier)
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
        self.orphans.forget(session)  # from now on the calls of this workflow tell what has begun

    def grew_quiet(self, attempt: Attempt) -> None:
        super().grew_quiet(attempt)
        self.attempts.note_change()


def _refused(spec: AgentSpec[Any, Any]) -> AgentSpec[Any, Any]:
    refused = copy(spec)

    async def refuse(*_: Any) -> None:
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
        _leave(runner)
    if missing is not None:
        raise missing


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
        self._start: Start | None = None
        self._environment: WorkflowEnvironment | None = None
        self._is_parked = False
        self._rescue: Rescue | None = None
        """How a rescue wants the tree to go on in a new workflow."""
        self._fits = False
        """Whether the journal was found small enough to be carried."""
        self._counted_from = 0, 0
        """The events and the bytes of the history when the journal was found too large."""

    def take(self, command: DecisionRequest | Command) -> None:
        self._commands.append(command)
        if self._runner is not None:
            self._runner.attempts.note_change()

    def note_cancel(self) -> None:
        """Cancel the tree, as the workflow was cancelled in Temporal."""
        reason = workflow.cancellation_reason() or "the workflow was cancelled in Temporal"
        self.take(Command(id="", kind="cancel", session=workflow.info().workflow_id, by="temporal", text=reason))

    def entries(self, after: int, *, is_all_there_is: bool = False) -> bytes:
        if self._start is not None and self._start.follows is not None:  # nothing was taken over yet
            return Entries(rows=[], last=0, earlier=None if is_all_there_is else self._start.follows).compressed()
        return self._store.since(after, is_all_there_is=is_all_there_is).compressed()

    def answer(self, command: str) -> Any:
        """Return what a command came to, as {"answer": ...}; None if it was not done yet, or long ago."""
        return self._answers.get(command)

    async def run(self, start: Start, agents: Mapping[str, AgentSpec[..., Any]], lost_after: float) -> Any:
        """Run the tree until nothing of it is open, and return the outcome of the root's latest run. Or run it until it
        is to go on in a new workflow, and return the Start of that."""
        self._start = start
        if start.follows is not None:
            self._start = start = await take_over(start)
        if start.carried is not None:
            self._store = TreeStore(start.carried)
            self._answers = start.carried.answers
            self._is_parked = start.carried.is_parked
            self._commands = [_read(*each) for each in start.carried.commands] + self._commands
            self._shown = [each.id for each in self._store.find_approvals(limit=None)]
        self._environment = environment = WorkflowEnvironment(start.cwd, lost_after, start.largest)
        not_begun = {} if start.carried is None else dict.fromkeys(start.carried.not_begun, NOT_BEGUN)
        orphans = OrphanedProcesses(found=not_begun)
        self._runner = runner = TreeRunner(
            self._store, None, environment=environment, find_agent=find_agent, orphans=orphans
        )
        environment.attempts = runner.attempts
        supervisor = LocalSupervisor(runner, None, agents)
        supervisor.audience.has_readers = True
        self._check_agents(start, agents)
        refused: SupervisorError | None = None
        moves = False
        async with hosting(runner):
            try:
                if self._is_parked:
                    runner.attempts.is_closed = True
                else:
                    refused = await self._begin(supervisor, start)
                is_over = False
                while not is_over and not moves:
                    is_over = not await self._goes_on(runner, environment, start)
                    await workflow.wait_condition(
                        lambda: True
                    )  # when all other tasks wait: what they ask is shown once
                    await self._claim_withdrawn()
                    self._show()
                    while self._commands:
                        is_over = False
                        await self._do(supervisor, self._commands.pop(0))
                    if not is_over and self._may_move(runner, environment, start):
                        moves = await self._move(supervisor, runner, start)
            except BaseException:  # before a task group waits for the tasks: they must know that this is no cancel
                _leave(runner)
                raise
        if moves:  # when all tasks have ended: what they wrote, and what was asked meanwhile, goes along
            is_whole = self._rescue is not None
            return self._following(start, pack(self._store, is_whole=is_whole), is_whole=is_whole)
        if refused is not None:  # outside of the task group, which would wrap it
            raise ApplicationError(str(refused), type=type(refused).__name__, non_retryable=True)
        row = self._store.get_session(start.session)
        assert row is not None
        assert row.outcome is not None
        ended = msgspec.to_builtins(row.outcome)
        return {**ended, "left": self._left(start, row.outcome, len(to_json(ended, "an outcome")))}

    def _check_agents(self, start: Start, agents: Mapping[str, AgentSpec[..., Any]]) -> None:
        """Raise AgentMissing if this worker cannot run the tree, or go on with it: another one may. A tree that was
        cancelled before it has begun anywhere is refused then."""
        if self._is_parked:
            return
        commands = {each.kind for each in self._commands if isinstance(each, Command)}
        wanted = [Wanted(name=start.agent)]
        if start.carried is not None:
            wanted = wanted_by([(row.session, row.event) for row in self._store.rows(0)], commands)
        if (missing := find_missing(wanted, agents)) is None:
            return
        is_first = start.carried is None or not start.carried.chain
        if is_first and "cancel" in commands and not workflow.unsafe.is_replaying():
            raise ApplicationError(str(missing), type=UnknownAgent.__name__, non_retryable=True)
        raise missing

    async def _begin(self, supervisor: LocalSupervisor, start: Start) -> SupervisorError | None:
        """Start the agent, or go on with what was carried. Return why it cannot be started."""
        given = () if start.given is msgspec.UNSET else (start.given,)
        try:
            if start.carried is not None:
                await supervisor.resume(start.session)
                return None
            await supervisor.start(
                start.agent, *given, session=start.session, cwd=start.cwd, requester=start.requester, by=start.by
            )
        except SupervisorError as error:
            return error
        return None

    async def _goes_on(self, runner: Runner, environment: WorkflowEnvironment, start: Start) -> bool:
        """Wait for a command, for news of what people are asked, for the end, or for a rest in which the tree can move
        to a new workflow. Return whether there is more to do."""
        asked = runner.hub.news(INBOX)

        def is_over() -> bool:
            return not runner.attempts.has_tasks and not self._store.find_sessions(is_open=True, limit=1)

        def is_told() -> bool:
            return bool(self._commands) or asked.is_set() or is_over() or self._may_move(runner, environment, start)

        await runner.attempts.wait_until(is_told)
        return bool(self._commands) or not is_over()

    # -- going on in a new workflow ----------------------------------------------------------------------------------

    def _may_move(self, runner: Runner, environment: WorkflowEnvironment, start: Start) -> bool:
        """Whether the tree is to go on in a new workflow, and can. It moves when all runs wait. If they never do,
        nothing new begins until no body runs any more."""
        info, attempts = workflow.info(), runner.attempts
        events, size = info.get_current_history_length(), info.get_current_history_size()
        before_events, before_size = self._counted_from
        share = max((events - before_events) / start.continue_after, (size - before_size) / start.continue_after_bytes)
        if self._is_parked or (self._rescue is None and share < 1):
            return False
        if not self._fits and not self._can_be_carried(start):
            self._stay(runner, start)
            return False
        if self._rescue is not None or share >= 2:
            attempts.is_draining = True
            executing = runner.calls_under_way - environment.paused_calls
            return not environment.running and executing <= 0 and not attempts.preparing
        return not attempts.preparing and all(each.is_quiet for each in attempts.live.values())

    def _can_be_carried(self, start: Start) -> bool:
        self._fits = _fits(pack(self._store, is_whole=self._rescue is not None), start)
        return self._fits

    async def _move(self, supervisor: LocalSupervisor, runner: Runner, start: Start) -> bool:
        """Stop all runs so that they can be resumed. Return whether the tree moves: its journal may have grown since it
        was measured."""
        if not self._can_be_carried(start):
            self._stay(runner, start)
            return False
        runner.attempts.is_draining = True
        runner.attempts.suspend_all("the tree goes on in a new workflow")
        with anyio.move_on_after(UNWIND):
            await runner.attempts.wait_until(lambda: not runner.attempts.has_tasks)
        while True:
            while self._commands:
                await self._do(supervisor, self._commands.pop(0))
            await self._claim_withdrawn()
            self._show()
            if not self._commands:
                break
        return True

    def _stay(self, runner: Runner, start: Start) -> None:
        """Go on in this workflow, and try again after as many events."""
        info = workflow.info()
        self._counted_from = events, size = info.get_current_history_length(), info.get_current_history_size()
        log.error("tree.not_moved", session=start.session, events=events, bytes=size, reason=TOO_LARGE)
        self._rescue = None
        if runner.attempts.is_draining:
            runner.attempts.is_draining = False
            runner.attempts.note_change()
            for each in runner.attempts.live.values():
                each.wake(None)

    def _left(self, start: Start, outcome: Outcome[Any], size: int) -> Any:
        """Return what a later workflow goes on with, after the end: all of the journal, so that transcripts and retries
        have it. A turn can do with less. `size`: that of the outcome, which goes with it."""
        journal, is_whole = pack(self._store, is_whole=True), True
        if not _fits(journal, start) and outcome.kind in ("succeeded", "cancelled"):
            journal, is_whole = pack(self._store), False
        left = to_wire(self._following(start, journal, is_whole=is_whole))
        is_small = start.largest > LARGEST or size + len(to_json(left, "a journal")) <= ENDED_LARGEST
        if not _fits(journal, start) or not is_small:
            log.warning("tree.left_nothing", session=start.session, reason=TOO_LARGE)
            return None
        return left

    def _following(self, start: Start, journal: str, *, is_whole: bool) -> Start:
        """Return the Start of a workflow that goes on after this one. `is_whole`: whether the journal has all that this
        workflow has had."""
        is_whole = is_whole and (start.carried is None or start.carried.is_whole)
        carried = Carried(
            journal=journal,
            last=self._store.last_position(),
            not_begun=[] if self._environment is None else [*self._environment.paused],
            earlier=workflow.info().run_id if self._rescue is None and not is_whole else None,
            is_whole=is_whole,
            answers=self._answers,
            is_parked=self._rescue == "park",
            commands=[(_signal_of(each), to_wire(each)) for each in self._commands],
            chain=workflow.info().first_execution_run_id,
        )
        return msgspec.structs.replace(start, given=msgspec.UNSET, carried=carried)

    @property
    def next_version(self) -> workflow.ContinueAsNewVersioningBehavior | None:
        """With which version of the workers the next workflow begins; None: with the one of this workflow."""
        return workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE if self._rescue == "upgrade" else None

    # -- commands ----------------------------------------------------------------------------------------------------

    async def _do(self, supervisor: LocalSupervisor, command: DecisionRequest | Command) -> None:
        if isinstance(command, DecisionRequest):
            await self._decide(supervisor, command)
            return
        if command.id and command.id in self._answers:  # it came twice
            return
        answer: Any
        try:
            answer = await self._answer(supervisor, command)
        except SupervisorError as error:
            log.debug("command.refused", command=command.kind, session=command.session, reason=str(error))
            answer = error_document(error)
        self._answers[command.id] = {"answer": answer}
        if len(self._answers) > KEPT:
            del self._answers[next(iter(self._answers))]

    async def _answer(self, supervisor: LocalSupervisor, command: Command) -> Any:
        """Do what a command says, and return what came of it."""
        session, text, by = command.session, command.text or "", command.by
        match command.kind:
            case "cancel":
                await supervisor.cancel(session, reason=command.text, by=by, run=command.run)
            case "send":
                return to_wire(await supervisor.send(session, text, by=by))
            case "retry":
                return (await supervisor.retry(session, by=by)).number
            case "forked":
                await self._note_fork(command)
            case "add_rule":
                assert command.rule is not None
                return to_wire(await supervisor.add_rule(command.rule, by=by))
            case "revoke_rule":
                return to_wire(await supervisor.revoke_rule(text, by=by))
            case "rescue":
                return await self._be_rescued(supervisor, command)
        return None

    async def _note_fork(self, command: Command) -> None:
        assert self._runner is not None
        note, now = msgspec.json.decode(command.text or "", type=ForkNote), self._runner.clock.now()
        taken = ForkTaken(at=now, fork=note.fork, before=note.before, by=command.by)
        known = [row.event for row in self._store.journal(command.session)]
        if not any(isinstance(each, ForkTaken) and each.fork == note.fork for each in known):
            await self._runner.journal.append(lambda _: [(command.session, taken)])

    async def _be_rescued(self, supervisor: LocalSupervisor, command: Command) -> Any:
        assert self._runner is not None
        assert self._start is not None
        if command.text == "go on":
            if self._is_parked:
                self._is_parked = self._runner.attempts.is_closed = False
                self._check_agents(self._start, supervisor.agents)
                await supervisor.resume(command.session)
            return "going on"
        if self._is_parked:
            return "parked"
        self._rescue = "upgrade" if command.text == "upgrade" else "park"
        if not self._can_be_carried(self._start):
            self._rescue = None
            raise LimitExceeded(TOO_LARGE)
        assert self._environment is not None
        names = sorted(dict.fromkeys(self._environment.running.values()))
        return to_wire(Moving(run=workflow.info().run_id, waits_for=names))

    async def _decide(self, supervisor: LocalSupervisor, request: DecisionRequest) -> None:
        """Decide, add the rule that this makes for all sessions, and tell the workflow that has claimed the decision
        what it came to."""
        answer: Any
        try:
            result = await supervisor.decide(request.approval, request.decision, channel=request.channel)
            if result.kind == "accepted":
                result = msgspec.structs.replace(result, rule=await self._add_rule(request, result.rule))
            answer = to_wire(result)
        except SupervisorError as error:
            answer = error_document(error)
        self._show()
        try:
            await workflow.get_external_workflow_handle(decision_id(request.approval)).signal("answer", answer)
        except ApplicationError as gone:
            log.debug("decision.not_answered", approval=request.approval, reason=str(gone))

    async def _add_rule(self, request: DecisionRequest, made: str | None) -> str | None:
        """Add the rule that a decision has made, if it is for all sessions. Return the id of the rule that stands."""
        assert self._environment is not None
        found = self._store.get_approval(request.approval)
        rule = None if found is None else rule_for_all(found, request.decision)
        if rule is None:
            return made
        return await self._environment.add_rule(msgspec.structs.replace(rule, id=made), request.by)

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
        workflow.upsert_search_attributes([PENDING_KEY.value_set(searched(ids))])


def _signal_of(command: DecisionRequest | Command) -> Signal:
    return "decide" if isinstance(command, DecisionRequest) else "command"


def _read(signal: Signal, document: Any) -> DecisionRequest | Command:
    return from_wire(document, DecisionRequest) if signal == "decide" else from_wire(document, Command)


def _fits(journal: str, start: Start) -> bool:
    return start.largest > LARGEST or len(journal) <= CARRIED_LARGEST


def searched(ids: list[str]) -> list[str]:
    """Return the oldest ids of what is pending, as many as fit into a search attribute. The memo has all of them."""
    size, found = len("[]"), list[str]()
    for each in ids:
        size += len(f'"{each}",')
        if size > SEARCHED_LARGEST:
            break
        found.append(each)
    return found


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
