"""The Supervisor of one machine. Its commands append to the journal by plans, and the runner acts on the entries.
starting.py says how it comes to run trees, and reading/reads.py what it reads.

Rules
- A command that starts nothing is recorded for the process that runs the tree.
- A decision and a cancel count when they are committed. Before that no caller is told that they count (A1).
"""

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from supervisor.core import events as e
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.calls.rules import Rule, checked_rule
from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.ids import SCHEDULES, check_session_id
from supervisor.core.rows import PENDING
from supervisor.core.schedules import ScheduleView
from supervisor.core.sessions.heard import Heard
from supervisor.core.sessions.trees import PruneResult
from supervisor.core.values import Approval, DecisionResult, Fork, SendResult
from supervisor.runtime.chat import chat
from supervisor.runtime.clock.patience import endless, until_answered
from supervisor.runtime.journal.writer import Entry, Plan, View
from supervisor.runtime.lifecycle.claim import refuse_of_command
from supervisor.runtime.people.batches import left_out
from supervisor.runtime.people.decide import Deciding, decide, decide_in_tree
from supervisor.runtime.people.releasing import release
from supervisor.runtime.plans.allowances import check_end
from supervisor.runtime.plans.budgets import raise_events
from supervisor.runtime.plans.decisions import ALONE
from supervisor.runtime.plans.end import cancel_events
from supervisor.runtime.plans.release import Made
from supervisor.runtime.plans.rules import book, find_unused, revoke, rule_added
from supervisor.runtime.plans.turns import message_entries
from supervisor.runtime.reading.pieces import read_pieces
from supervisor.runtime.starting import LocalStarting
from supervisor.seam import commands as c
from supervisor.seam.runs import Page, Run, SessionImport

LOOK_SECONDS: Final = 0.05
"""How often a decision that waits for evidence looks whether it is there."""
MOST_WAITED_FOR: Final = 100
"""The most approvals of a SendResult."""


class LocalSupervisor(LocalStarting):
    async def _decide(self, command: c.Decide, who: str) -> DecisionResult:
        approval, decision, channel = command.approval, command.decision, command.channel
        self.audience.has_readers = True
        found = self.store.get_approval(approval) if self.admission.people is not None else None
        quorum = ALONE if found is None else await self.admission.of_decision(found, decision, channel)
        how = Deciding(channel, self.admission.may_decide, quorum=quorum)
        result = await decide(self._runner, approval, decision, how)
        if result.kind == "unseen" and result.evidence is None:
            result = await self._until_seen(result, lambda: decide(self._runner, approval, decision, how))
        (result,) = await self._run_decided([result])
        return result

    async def _until_seen(
        self, result: DecisionResult, again: Callable[[], Awaitable[DecisionResult]]
    ) -> DecisionResult:
        """Wait for evidence of what a person typed, as long as a preview may take. Run the tree if no process does."""
        from supervisor.core.declarations.previews import PREVIEW_SECONDS

        root = self.reader.get_approval(result.approval).root_session
        if result.running or await self._run_declared(root):
            with anyio.move_on_after(PREVIEW_SECONDS):
                while result.kind == "unseen" and result.evidence is None:
                    await anyio.sleep(LOOK_SECONDS)
                    result = await again()
        return result

    async def _decide_all(self, command: c.DecideAll, who: str) -> list[DecisionResult]:
        self.audience.has_readers = True
        how = Deciding(command.channel, self.admission.may_decide, printable_text(command.batch))
        results: dict[int, DecisionResult] = {}
        trees: dict[str, list[int]] = {}
        for place, (approval, decision) in enumerate(command.decisions):
            found = self.store.get_approval(approval)
            if found is None:
                results[place] = DecisionResult(kind="unknown", approval=approval)
                continue
            left = await left_out(found, decision, command.shown, self.admission, command.channel)
            if left is not None:
                results[place] = left
            else:
                trees.setdefault(found.root_session, []).append(place)
        for places in trees.values():
            decided = await endless(decide_in_tree)(self._runner, [command.decisions[each] for each in places], how)
            results |= zip(places, decided, strict=True)
        in_order = [msgspec.structs.replace(results[place], batch=how.batch) for place in range(len(results))]
        return await self._run_decided(in_order)

    async def _run_decided(self, results: list[DecisionResult]) -> list[DecisionResult]:
        """Run the trees of decisions that count, if this program has declared their agents. Return the results, which
        say whether a process runs each tree."""
        running: dict[str, bool] = {}
        told = list[DecisionResult]()
        for each in results:
            if not each.running and each.kind in ("accepted", "already"):
                root = await until_answered(self._root_of, each.approval)
                if root not in running:
                    running[root] = await self._run_declared(root)
                each = msgspec.structs.replace(each, running=running[root])
            self.decided[each.kind] += 1
            told.append(each)
        return told

    def _root_of(self, approval: str) -> str:
        return self.reader.get_row(self.reader.get_approval(approval).session).root

    async def _raise_budget(self, command: c.RaiseBudget, who: str) -> None:
        self.reader.get_row(command.session)
        await self._runner.journal.append(
            lambda view: list(
                raise_events(view.session(command.session), command.budget, who, self._runner.clock.now())
            )
        )

    async def _add_rule(self, command: c.AddRule, who: str) -> Rule:
        rule = command.rule
        if rule.session is not None:
            rule = msgspec.structs.replace(rule, session=self.reader.get_row(rule.session).root)
        environment, clock = self._runner.environment, self._runner.clock
        new = msgspec.structs.replace(checked_rule(rule), id=environment.new_rule_id())
        check_end(new.uses, new.until, clock.now(), is_counted=not environment.shares_rules)

        def plan(view: View) -> tuple[list[Entry], Rule | None]:
            unused = None if new.uses is None else find_unused(view, new, who)
            return [] if unused is not None else list(rule_added(view, new, who, clock.now())), unused

        unused = await self._runner.journal.append_with_answer(plan)
        found = unused or book(self._runner.journal.look()).find_same(new)
        if found is None:
            raise NotFound(f"rule {new.id} was added, and another process revoked it at once; add it again")
        if command.pending:
            now, after = self._runner.clock.now(), self._runner.journal.position
            for root in await endless(release)(
                self._runner,
                self.admission,
                lambda view: [Made(found, who, "", now, after)] if book(view).find_same(found) else [],
                found.session,
            ):
                await self._run_declared(root)
        return found

    async def _revoke_rule(self, command: c.RevokeRule, who: str) -> Rule:
        clock = self._runner.clock
        return await self._runner.journal.append_with_answer(lambda view: revoke(view, command.rule, who, clock.now()))

    async def _add_schedule(self, command: c.AddSchedule, who: str) -> ScheduleView:
        from supervisor.runtime.plans.schedules import find_plan, schedule_added  # few programs need them
        from supervisor.runtime.reading.schedules import view_of
        from supervisor.runtime.scheduling import checked_schedules, start_of

        (schedule,) = checked_schedules([command.schedule]).values()
        self._with_input(start_of(schedule, None))
        now = self._runner.clock.now()
        await self._runner.journal.append(lambda view: list(schedule_added(view, schedule, who, now)))
        return view_of(find_plan(self._runner.journal.look(), schedule.name))

    async def _change_schedule(self, command: c.ChangeSchedule, who: str) -> ScheduleView:
        from supervisor.runtime.plans.schedules import find_plan, schedule_changed  # few programs need them
        from supervisor.runtime.reading.schedules import view_of

        name, now = command.schedule, self._runner.clock.now()

        def plan(view: View) -> tuple[list[Entry], ScheduleView]:
            return list(schedule_changed(view, name, command.to, who, now)), view_of(find_plan(view, name))

        before = await self._runner.journal.append_with_answer(plan)
        return before if command.to == "removed" else view_of(find_plan(self._runner.journal.look(), name))

    async def _run_schedule(self, command: c.RunSchedule, who: str) -> Run[Any]:
        from supervisor.runtime.plans.schedules import find_plan  # few programs need them
        from supervisor.runtime.scheduling import start_of

        name, now = command.schedule, self._runner.clock.now()
        self._runner.journal.catch_up()
        schedule = find_plan(self._runner.journal.look(), name).schedule
        session = command.session or self._runner.environment.new_session_id()

        def also(view: View) -> tuple[list[Entry], bool]:
            is_known = view.find_session(session) is not None
            find_plan(view, name)
            started = e.ScheduleHandled(at=now, schedule=name, instant=now, became="started", session=session, by=who)
            return [] if is_known else [(SCHEDULES, started)], True

        run = await self.begin(start_of(schedule, session), who, also)
        assert run is not None, "nothing holds it back"
        return run

    async def _chat(self, command: c.Chat, who: str) -> ChatResult:
        return await chat(self, self.people, command, who, self._runner.clock.now(), self.hear)

    async def hear(
        self, session: str, message: str, text: str, by: str, approvals: Collection[str] | None
    ) -> Heard | None:
        """Return what the session has heard under this id before. If nothing, journal what a chat word decides from now
        on; `approvals` None: only look. Raises NotFound."""

        def plan(view: View) -> tuple[list[Entry], Heard | None]:
            state, now = view.session(session), self._runner.clock.now()
            known = state.heard.get(message)
            if known is not None or approvals is None or state.phase == "imported":
                return [], known
            said = printable_text(text)
            word = e.WordHeard(at=now, message_id=message, text=said, by=by, approvals=tuple(approvals))
            return [(session, word)], None

        return await self._runner.journal.append_with_answer(plan)

    async def _acknowledge(self, command: c.Acknowledge, who: str) -> tuple[str, ...]:
        from supervisor.runtime.people.hush import ON_IT, hush

        until = self._runner.clock.now() + ON_IT
        return await hush(self._runner, self.admission, command.approvals, who, until, command.channel, is_on_it=True)

    async def _snooze(self, command: c.Snooze, who: str) -> tuple[str, ...]:
        from supervisor.runtime.people.hush import hush

        return await hush(self._runner, self.admission, command.approvals, who, command.until, command.channel)

    async def _reveal(self, command: c.Reveal, who: str) -> Any:
        found = self.reader.get_approval(command.approval)
        if found.kind != "call":
            raise InvalidInput(f"{found.id} is a question: it has no arguments")
        shown = e.CredentialsShown(at=self._runner.clock.now(), approval=found.id, by=who, channel=command.channel)
        await self._runner.journal.append(lambda view: [(found.session, shown)])
        return await read_pieces(self.store, self._lists.revealed(found))

    async def _note_refusal(self, command: c.NoteRefused, who: str) -> None:
        await self.admission.refusals.note(command.approval, who, command.reason, command.channel)

    async def _note_shown(self, command: c.NoteShown, who: str) -> None:
        shown = e.MessageShown(at=self._runner.clock.now(), channel=command.channel, mark=command.mark)
        await self._runner.journal.append(lambda view: [(view.session(command.session).id, shown)])

    async def _send(self, command: c.Send, who: str) -> SendResult:
        session = command.session
        root = self.reader.get_row(session).root
        message = self._runner.environment.new_session_id() if command.message is None else command.message

        def plan(view: View) -> tuple[list[Entry], Literal["delivered", "kept", "begun"]]:
            now = self._runner.clock.now()
            received = e.MessageReceived(at=now, message=message, text=printable_text(command.text), by=who)
            return message_entries(view.session(session), received, self._runner.attempts.waits_of(session))

        kind = await self._runner.journal.append_with_answer(plan)
        running = await self._run_declared(root)
        pending = () if kind == "begun" else tuple(await self._waiting_in(session))
        return SendResult(kind=kind, message=message, session=session, waiting_for=pending, running=running)

    @endless
    async def _waiting_in(self, session: str) -> Page[Approval]:
        return await read_pieces(self.store, self._lists.approvals(PENDING, session, limit=MOST_WAITED_FOR))

    async def _import_session(self, command: c.Import, who: str) -> AbstractAsyncContextManager[SessionImport]:
        from supervisor.runtime.trees.importing import LocalImport  # few programs need it

        return LocalImport(self._runner, command.session, command.origin, command.agent)

    async def _prune(self, command: c.Prune, who: str) -> PruneResult:
        from supervisor.runtime.trees.prune import Pruning  # few programs need it

        await checkpoint()
        pruning = Pruning(self._runner, command.before, command.only)
        return await (pruning.find() if command.dry_run else pruning.remove())

    async def _retry(self, command: c.Retry, who: str) -> Run[Any]:
        from supervisor.runtime.plans.retry import retry_events  # few programs need it

        root = self.reader.get_row(command.session).id

        def plan(view: View) -> list[Entry]:
            refuse_of_command(view, root)
            found = list(retry_events(view, root, who, self._runner.clock.now()))
            view.claim(root)
            return found

        await self._append_and_run(plan, root)
        return await until_answered(self._run, root)

    async def _fork(self, command: c.Fork, who: str) -> Fork:
        from supervisor.runtime.plans.fork import Forking  # few programs need it

        new, version = command.new, command.version
        root = self.reader.get_row(command.session).root
        fork = check_session_id(new) if new is not None else self._runner.environment.new_session_id()
        if version is not None and (created := self.reader.find_created(root)) is not None:
            self._runner.find_agent(created).at_version(version)
        forking = Forking(self.store, root, command.session, command.before, fork)

        def plan(view: View) -> list[Entry]:
            refuse_of_command(view, root)
            found = list(forking.events(view, who, version, self._runner.clock.now()))
            view.claim(fork)
            return found

        await self._append_and_run(plan, fork)
        return forking.fork

    async def _append_and_run(self, plan: Plan, root: str) -> None:
        """Append a plan that claims a tree in which runs begin, and run it."""
        try:
            await self._runner.journal.append(plan)
        finally:  # a native cancellation may come with the commit
            if self.store.owns(root):
                self._runner.claims.run([root])

    async def _cancel(self, command: c.Cancel, who: str) -> None:
        session = command.session
        root = self.reader.get_row(session).root

        def plan(view: View) -> tuple[list[Entry], bool]:
            state = view.session(session)
            if not state.is_open or command.run not in (None, state.runs):
                return [], False
            if view.store.get_owner(root) is None:
                view.claim(root)
            return list(cancel_events(view, session, who, command.reason, self._runner.clock.now())), True

        is_told = await self._runner.journal.append_with_answer(plan)
        if is_told and self.store.owns(root) and session not in self._runner.attempts.live:
            await self._runner.finishing.end_tree(session)
