"""One tree is one workflow: our runtime, as it is, over a journal in memory.

Temporal keeps what came into the workflow (its start, signals, ends of activities) and runs it again on another worker.
So the journal in memory is the same each time, and needs no disk. Spawn, cancel and ends stay one append.

Rules
- A signal is a command: it is acknowledged when the server has it, and counts while no worker lives (commands.py).
- What people wait for is written where a client reads it without a worker (shown.py).
- The workflow ends when nothing of its tree is open. It returns what a later one goes on with (turns.py).
- A workflow with many events, or large ones, goes on in a new one (moving.py).
- A worker that lacks an agent of a tree leaves it to another one (missing.py). Only a tree that has not begun and was
  cancelled is refused by such a worker.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import to_json
from supervisor.core.errors import SupervisorError, UnknownAgent
from supervisor.core.events import QuestionAsked, ToolCallRequested
from supervisor.runtime.attempt.divergence import told_request
from supervisor.runtime.journal.hub import INBOX
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.releasing import Releasing
from supervisor.temporal.wanted import Wanted, wanted_by
from supervisor.temporal.wire import Command, DecisionRequest, Entries, Start
from supervisor.temporal.workflow.answering import Answering
from supervisor.temporal.workflow.commands import Commands
from supervisor.temporal.workflow.hosting import TreeRunner, hosting, leave
from supervisor.temporal.workflow.journal import TreeStore
from supervisor.temporal.workflow.missing import find_missing
from supervisor.temporal.workflow.moving import Move
from supervisor.temporal.workflow.shown import Shown
from supervisor.temporal.workflow.turns import take_over


class Tree:
    """A tree's workflow from its first task on: it takes commands, and answers queries, also before the tree runs."""

    def __init__(self) -> None:
        self._commands = Commands()
        self._store = TreeStore()
        self._start: Start | None = None
        self._running: RunningTree | None = None

    def take(self, command: DecisionRequest | Command) -> None:
        self._commands.waiting.append(command)
        if self._running is not None:
            self._running.note_command()

    def note_cancel(self) -> None:
        """Cancel the tree, as the workflow was cancelled in Temporal."""
        reason = workflow.cancellation_reason() or "the workflow was cancelled in Temporal"
        self.take(Command(id="", kind="cancel", session=workflow.info().workflow_id, by="temporal", text=reason))

    def entries(self, after: int, *, is_all_there_is: bool = False) -> bytes:
        if self._start is not None and self._start.follows is not None:  # nothing was taken over yet
            return Entries(rows=[], last=0, earlier=None if is_all_there_is else self._start.follows).compressed()
        return self._store.since(after, is_all_there_is=is_all_there_is).compressed()

    def asked_until(self) -> int:
        return self._store.last_position()

    def asked_after(self, position: int) -> dict[str, str]:
        """Return the calls and questions that were asked for after a position, as people read them, by operation: first
        those that a person decides."""
        carried = 0 if self._start is None or self._start.carried is None else self._start.carried.last
        events = [row.event for row in self._store.rows(max(position, carried))]
        asked = [each for each in events if isinstance(each, ToolCallRequested | QuestionAsked)]
        waiting = {each.operation for each in self._store.find_approvals(limit=None)}
        asked.sort(key=lambda each: each.operation not in waiting)
        return {each.operation: told_request(each.operation, each) for each in asked}

    def answer(self, command: str) -> Any:
        """Return what a command came to, as {"answer": ...}; None if it was not done yet, or long ago."""
        return self._commands.answers.get(command)

    async def run(self, start: Start, agents: Mapping[str, AgentSpec[..., Any]], lost_after: float) -> Any:
        """Run the tree until nothing of it is open, and return the outcome of the root's latest run. Or run it until it
        is to go on in a new workflow, and return the Start of that."""
        self._start = start
        if start.follows is not None:
            marks = {"has_marks": start.has_marks, "has_signals": start.has_signals}
            self._start = start = replace(await take_over(start), **marks)
        if start.carried is not None:
            self._store = TreeStore(start.carried)
            self._commands.go_on_with(start.carried)
        self._running = RunningTree(start, self._store, self._commands, agents, lost_after)
        return await self._running.run()

    @property
    def next_version(self) -> workflow.ContinueAsNewVersioningBehavior | None:
        """With which version of the workers the next workflow begins; None: with the one of this workflow."""
        return None if self._running is None else self._running.move.next_version


class RunningTree:
    """A tree that runs: its runtime, and the parts that do its commands, show what it asks and move it."""

    def __init__(
        self,
        start: Start,
        store: TreeStore,
        commands: Commands,
        agents: Mapping[str, AgentSpec[..., Any]],
        lost_after: float,
    ) -> None:
        self._start = start
        self._store = store
        self._commands = commands
        self._agents = agents
        self._runner = TreeRunner(store, start, lost_after)
        self._runner.environment.is_decided = self._is_decided
        self._supervisor = LocalSupervisor(self._runner, None, agents)
        self._supervisor.audience.has_readers = True
        releasing = Releasing(self._runner, self._supervisor.admission)
        self.move = Move(start, store, self._runner, commands)
        self._shown = Shown(store, has_attributes=start.has_attributes)
        self._answering = Answering(
            self._supervisor, self._runner, store, commands, self.move, self._shown, releasing, self._check_agents
        )

    def note_command(self) -> None:
        """Look at the commands: one has come."""
        self._runner.attempts.note_change()

    async def run(self) -> Any:
        """See Tree."""
        if not self.move.is_parked:
            self._check_agents()
        refused: SupervisorError | None = None
        moves = False
        async with hosting(self._runner):
            try:
                if self.move.is_parked:
                    self._runner.attempts.is_closed = True
                else:
                    refused = await self._begin()
                is_over = False
                while not is_over and not moves:
                    is_over = not await self._goes_on()
                    await workflow.wait_condition(
                        lambda: True
                    )  # when all other tasks wait: what they ask is shown once
                    await self._show()
                    while self._commands.waiting:
                        is_over = False
                        await self._answering.do_next()
                    if not is_over and self.move.is_due():
                        moves = await self._leave_workflow()
            except BaseException:  # before a task group waits for the tasks: they must know that this is no cancel
                leave(self._runner)
                raise
        if moves:  # when all tasks have ended: what they wrote, and what was asked meanwhile, goes along
            return self.move.following()
        if refused is not None:  # outside of the task group, which would wrap it
            raise ApplicationError(str(refused), type=type(refused).__name__, non_retryable=True)
        row = self._store.get_session(self._start.session)
        assert row is not None
        assert row.outcome is not None
        self._shown.show_end(row.outcome.kind)
        ended = msgspec.to_builtins(row.outcome)
        return {**ended, "left": self.move.left(row.outcome, len(to_json(ended, "an outcome")))}

    async def _show(self) -> None:
        """Show what people are asked. In a tree of former code, what was withdrawn is claimed first."""
        if not self._runner.environment.has_signals:
            await self._shown.claim_withdrawn()
        self._shown.show()

    def _is_decided(self, approval: str) -> bool:
        """Whether a decision on an approval that was made in time waits. A tree of former code does not look at those
        that a workflow has claimed."""
        waiting, has_signals = self._commands.decisions_on(approval), self._runner.environment.has_signals
        return any((each.id or has_signals) and self._answering.is_in_time(each) for each in waiting)

    def _check_agents(self) -> None:
        """Raise AgentMissing if this worker cannot run the tree, or go on with it: another one may. A tree that was
        cancelled before it has begun anywhere is refused then."""
        start = self._start
        wanted = [Wanted(name=start.agent)]
        if start.carried is not None:
            wanted = wanted_by([(row.session, row.event) for row in self._store.rows(0)], self._commands.kinds)
        if (missing := find_missing(wanted, self._agents)) is None:
            return
        is_first = start.carried is None or not start.carried.chain
        if is_first and "cancel" in self._commands.kinds and not workflow.unsafe.is_replaying():
            raise ApplicationError(str(missing), type=UnknownAgent.__name__, non_retryable=True)
        raise missing

    async def _begin(self) -> SupervisorError | None:
        """Start the agent, or go on with what was carried. Return why it cannot be started."""
        start, supervisor = self._start, self._supervisor
        given = () if start.given is msgspec.UNSET else (start.given,)
        try:
            if start.carried is not None:
                await supervisor.resume(start.session)
                return None
            await supervisor.start(
                start.agent,
                *given,
                session=start.session,
                cwd=start.cwd,
                requester=start.requester,
                by=start.by,
                budget=start.budget,
            )
        except SupervisorError as error:
            return error
        return None

    async def _goes_on(self) -> bool:
        """Wait for a command, for news of what people are asked, for the end, or for a rest in which the tree can move
        to a new workflow. Return whether there is more to do."""
        attempts, commands = self._runner.attempts, self._commands
        asked = self._runner.hub.news(INBOX)

        def is_over() -> bool:
            return not attempts.has_tasks and not self._store.find_sessions(is_open=True, limit=1)

        def is_told() -> bool:
            is_missing = self._runner.environment.missing is not None
            return is_missing or bool(commands.waiting) or asked.is_set() or is_over() or self.move.is_due()

        await attempts.wait_until(is_told)
        if (missing := self._runner.environment.missing) is not None:
            raise missing
        return bool(commands.waiting) or not is_over()

    async def _leave_workflow(self) -> bool:
        """Stop all runs, and do the commands that came meanwhile. Return whether the tree moves."""
        if not await self.move.stop_runs():
            return False
        while True:
            while self._commands.waiting:
                await self._answering.do_next()
            await self._show()
            if not self._commands.waiting:
                return True
