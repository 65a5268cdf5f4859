"""How a tree does a command: by the same methods of the supervisor as on one machine.

A command that cannot be done is answered to the workflow or the client that has sent it, and logged.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from supervisor.core.budgets import Budget
from supervisor.core.errors import SupervisorError
from supervisor.core.events import ForkTaken
from supervisor.core.values import DecisionResult
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.releasing import Releasing
from supervisor.runtime.plans.release import Made
from supervisor.system.logs import FactLog
from supervisor.temporal.rulebook import rules_for_all
from supervisor.temporal.wire import (
    Command,
    DecisionRequest,
    ForkNote,
    Moving,
    decision_id,
    error_document,
    to_wire,
)
from supervisor.temporal.workflow.commands import Commands
from supervisor.temporal.workflow.hosting import TreeRunner
from supervisor.temporal.workflow.journal import TreeStore
from supervisor.temporal.workflow.moving import Move
from supervisor.temporal.workflow.shown import Shown

log = FactLog(__name__)


class Answering:
    """Does the commands of a tree. `check_agents` raises AgentMissing if this worker cannot go on with it."""

    def __init__(
        self,
        supervisor: LocalSupervisor,
        runner: TreeRunner,
        store: TreeStore,
        commands: Commands,
        move: Move,
        shown: Shown,
        releasing: Releasing,
        check_agents: Callable[[], None],
    ) -> None:
        self._supervisor = supervisor
        self._runner = runner
        self._store = store
        self._commands = commands
        self._move = move
        self._shown = shown
        self._releasing = releasing
        self._check_agents = check_agents

    async def do_next(self) -> None:
        """Do the command that has waited longest, and keep the answer."""
        command = self._commands.waiting.pop(0)
        if isinstance(command, DecisionRequest):
            await self._decide(command)
            return
        if command.id and command.id in self._commands.answers:  # it came twice
            return
        answer: Any
        try:
            answer = await self._answer(command)
        except SupervisorError as error:
            log.debug("command.refused", command=command.kind, session=command.session, reason=str(error))
            answer = error_document(error)
        self._commands.keep(command.id, answer)

    async def _answer(self, command: Command) -> Any:
        """Do what a command says, and return what came of it."""
        supervisor, session, text, by = self._supervisor, command.session, command.text or "", command.by
        match command.kind:
            case "cancel":
                await supervisor.cancel(session, reason=command.text, by=by, run=command.run)
            case "send":
                return to_wire(await supervisor.send(session, text, by=by, message=command.message))
            case "retry":
                return (await supervisor.retry(session, by=by)).number
            case "forked":
                await self._note_fork(command)
            case "add_rule":
                assert command.rule is not None
                return to_wire(await supervisor.add_rule(command.rule, by=by))
            case "revoke_rule":
                return to_wire(await supervisor.revoke_rule(text, by=by))
            case "raise_budget":
                await supervisor.raise_budget(session, msgspec.json.decode(text, type=Budget), by=by)
            case "release":
                await self._release(command)
            case "rescue":
                return await self._be_rescued(command)
        return None

    async def _release(self, command: Command) -> None:
        """Let a rule that a decision in another tree has made decide what waits here. A rule that was revoked since
        decides nothing."""
        runner, told = self._runner, command.rule
        if runner.environment.is_former or told is None:
            return
        runner.rules.shared = await runner.environment.read_rules()
        standing = [each for each in runner.rules.shared if each.meaning == told.meaning]
        at = datetime.fromisoformat(command.text or "")
        said = [Made(each, command.by, told.approval or "", at, 0) for each in standing]
        await self._releasing.release(lambda _: said, None)
        self._shown.show()

    async def _note_fork(self, command: Command) -> None:
        note, now = msgspec.json.decode(command.text or "", type=ForkNote), self._runner.clock.now()
        taken = ForkTaken(at=now, fork=note.fork, before=note.before, by=command.by)
        known = [row.event for row in self._store.journal(command.session)]
        if not any(isinstance(each, ForkTaken) and each.fork == note.fork for each in known):
            await self._runner.journal.append(lambda _: [(command.session, taken)])

    async def _be_rescued(self, command: Command) -> Any:
        if command.text == "go on":
            if self._move.is_parked:
                self._move.is_parked = self._runner.attempts.is_closed = False
                self._check_agents()
                await self._supervisor.resume(command.session)
            return "going on"
        if self._move.is_parked:
            return "parked"
        self._move.ask_for("upgrade" if command.text == "upgrade" else "park")
        names = sorted(dict.fromkeys(self._runner.environment.bodies.running.values()))
        return to_wire(Moving(run=workflow.info().run_id, waits_for=names))

    async def _decide(self, request: DecisionRequest) -> None:
        """Decide, add the rule that this makes for all sessions, and keep what the decision came to; or tell the
        workflow of former code that has claimed it."""
        if request.id in self._commands.answers:  # it came twice
            return
        answer: Any
        try:
            result = await self._decided(request)
            if result.kind == "accepted":
                result = await self._add_rules(request, result)
            answer = to_wire(result)
        except SupervisorError as error:
            answer = error_document(error)
        self._shown.show()
        if request.id:
            self._commands.keep(request.id, answer)
            return
        try:
            await workflow.get_external_workflow_handle(decision_id(request.approval)).signal("answer", answer)
        except ApplicationError as gone:
            log.debug("decision.not_answered", approval=request.approval, reason=str(gone))

    async def _decided(self, request: DecisionRequest) -> DecisionResult:
        approval, decision, channel = request.approval, request.decision, request.channel
        if request.id and not self.is_in_time(request):
            return DecisionResult(kind="closed", approval=approval, status="expired", batch=request.batch)
        if request.batch is None:
            return await self._supervisor.decide(approval, decision, channel=channel)
        (result,) = await self._supervisor.decide_all([(approval, decision)], channel=channel, batch=request.batch)
        return result

    def is_in_time(self, request: DecisionRequest) -> bool:
        """Whether a decision was made before its approval expired, by the clock of its client."""
        found = self._store.get_approval(request.approval)
        return found is None or found.expires_at is None or datetime.fromisoformat(request.at) <= found.expires_at

    async def _add_rules(self, request: DecisionRequest, result: DecisionResult) -> DecisionResult:
        """Add the rules that a decision has made, if they are for all sessions. Return its result with the ids of those
        that stand."""
        found = self._store.get_approval(request.approval)
        at = result.decided_at
        rules = () if found is None or at is None else rules_for_all(found, request.decision, at)
        standing: list[str] = []
        for rule, made in zip(rules, result.rules or (result.rule,), strict=False):
            new = msgspec.structs.replace(rule, id=made, approval=request.approval)
            standing.append(await self._runner.environment.add_rule(new, request.by))
        if not standing:
            return result
        several = tuple(standing) if len(standing) > 1 else ()
        return msgspec.structs.replace(result, rule=standing[0], rules=several)
