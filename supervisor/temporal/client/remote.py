"""The Supervisor of a namespace: each command is a request to the server, and each read is one of a mirror.

Rules
- A command counts when the server has acknowledged it, whether a worker lives or not.
- What Temporal cannot do, or not yet, is refused by name, before anything is sent.

The module is longer than 400 lines because it is one seam: a short method for each command and each read.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import anyio
from msgspec.structs import asdict, replace
from temporalio.client import Client

from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.approvals.masking import masked_rule
from supervisor.core.approvals.people import People
from supervisor.core.calls.rules import Rule, checked_rule
from supervisor.core.cursors import make_cursor
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import printable_text, to_json
from supervisor.core.errors import InvalidInput, NotFound, ServerUnavailable, SupervisorError
from supervisor.core.rows import ApprovalFilter, Counts, JournalEntry, Owner, SessionFilter, TreeView
from supervisor.core.schedules import ScheduleView
from supervisor.core.sessions.heard import Heard
from supervisor.core.sessions.retrying import why_not_retry
from supervisor.core.sessions.state import SessionState
from supervisor.core.sessions.trees import Origin
from supervisor.core.store_urls import TemporalStore
from supervisor.core.usage import UsageKind, UsageReport
from supervisor.core.values import (
    AgentView,
    Approval,
    DecisionResult,
    Deny,
    Fork,
    JobView,
    Message,
    SendResult,
    SessionView,
)
from supervisor.runtime.chat import chat
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.batches import left_out
from supervisor.runtime.plans.allowances import check_end
from supervisor.runtime.plans.turns import check_may_send
from supervisor.runtime.reading.streams import end_streams
from supervisor.runtime.scheduling import start_of
from supervisor.seam import commands as c
from supervisor.seam.runs import ActivityWatch, Page, Run, SessionImport, TextWatch, Watch
from supervisor.seam.supervisor import Supervisor
from supervisor.system.inside import Inside
from supervisor.temporal.client.commands import any_session, send_command
from supervisor.temporal.client.decisions import Deciding
from supervisor.temporal.client.forks import fork_tree
from supervisor.temporal.client.imports import NamespaceImport
from supervisor.temporal.client.runs import FollowingWatch, TemporalActivityWatch, TemporalRun, TemporalTextWatch
from supervisor.temporal.client.schedules import add_schedule, change_schedule, find_schedule, find_schedules
from supervisor.temporal.client.starting import start_session
from supervisor.temporal.client.trees import Trees
from supervisor.temporal.connection import connect_to_server, keep_credentials
from supervisor.temporal.mirror.mirror import Mirror
from supervisor.temporal.mirror.namespace import NotReplayed
from supervisor.temporal.mirror.store import Feed, MirrorFile, MirrorStore
from supervisor.temporal.wire import from_wire

T = TypeVar("T")
NO_HUSH: Final = (
    "each server of a namespace lets the steps come by itself, so that none can be acknowledged or snoozed: decide the "
    "approvals, or make the steps of [[escalation]] longer"
)


@asynccontextmanager
async def opened(store: TemporalStore) -> AsyncIterator[Supervisor]:
    """Open the supervisor of a namespace; see `open_temporal`."""
    client = await connect_to_server(store)
    supervisor = TemporalSupervisor(client, store)
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:

        async def follow() -> None:
            nonlocal failure
            try:
                await supervisor.mirror.run()
            except SupervisorError as error:  # raised bare below, too
                failure = error
                tasks.cancel_scope.cancel()

        tasks.start_soon(follow)
        tasks.start_soon(keep_credentials, client, store)
        tasks.start_soon(supervisor.runner.journal.run)  # what is noted in the mirror
        try:
            yield supervisor
        except Exception as error:  # noqa: BLE001 # raised bare below, when the task group is done
            failure = error
        finally:
            end_streams(supervisor.near.reader)
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class TemporalSupervisor(Supervisor):
    """`store` and `feed`: the mirror; None: one in memory. `people`: people and roles, whom a server asks for."""

    def __init__(
        self,
        client: Client,
        named: TemporalStore,
        store: MirrorFile | None = None,
        feed: Feed | None = None,
        people: People | None = None,
    ) -> None:
        self.where = str(named)
        self.decided: Counter[str] = Counter()
        in_memory = MirrorStore(self.where)
        self._store: MirrorStore | MirrorFile = in_memory if store is None else store
        self.runner = Runner(self._store)
        self.near = LocalSupervisor(self.runner, people)
        """The reads of the mirror. It is given no command."""
        self.cards_failed = self.near.cards_failed
        self._admission = self.near.admission
        self.mirror = Mirror(client, named, self._store, feed or in_memory, self.runner.journal)
        self.trees = Trees(client, named, self._store, self.mirror)
        self._rules = self.trees.rules
        self._deciding = Deciding(self.trees)
        self._inside = Inside(self._store)

    def __repr__(self) -> str:
        return f"<supervisor at {self.where}>"

    async def _admit(self, command: c.Command[Any], law: c.Law, by: str | None) -> str:
        if law.inside != "allowed":  # which call started a process is not known there
            if self._inside.needs_owners:
                await self.mirror.find_workers()
            self._inside.refuse(law.doing)
        return await self._admission.of_command(command, law, by)

    # -- commands ----------------------------------------------------------------------------------------------------

    async def _start(self, command: c.Start, who: str) -> Run[Any]:
        root, is_new = await start_session(self.trees, command, who)
        return TemporalRun(self, self.trees, self.near, root, 1, command.spec, is_new=is_new)

    async def _resume(self, command: c.Resume, who: str) -> Run[Any]:
        """Return the latest run of the session's root: workers run every open tree by themselves."""
        return await self.get_run(await self.trees.read(command.session))

    async def _resume_all(self, command: c.ResumeAll, who: str) -> list[Run[Any]]:
        """Return the runs of all open roots: workers run them by themselves."""
        found = await self.find_sessions(is_open=True, limit=None)
        return [await self.get_run(each.id) for each in found if each.parent is None]

    async def _decide(self, command: c.Decide, who: str) -> DecisionResult:
        approval, decision, channel = command.approval, command.decision, command.channel
        if self.near.people is not None:
            try:  # as it is now, since the mirror may not have it yet
                await self._admission.of_decision(await self.get_approval(approval), decision, channel)
            except NotFound:
                return DecisionResult(kind="unknown", approval=approval)
        result = await self._deciding.decide(approval, decision, channel)
        self.decided[result.kind] += 1
        return result

    async def _acknowledge(self, command: c.Acknowledge, who: str) -> tuple[str, ...]:
        return await self._hush(command, who)

    async def _snooze(self, command: c.Snooze, who: str) -> tuple[str, ...]:
        return await self._hush(command, who)

    async def _hush(self, command: c.Acknowledge | c.Snooze, who: str) -> tuple[str, ...]:
        for each in command.approvals if self.near.people is not None else ():
            await self._admission.of_decision(await self.get_approval(each), Deny(by=who), command.channel)
        raise InvalidInput(NO_HUSH)

    async def _decide_all(self, command: c.DecideAll, who: str) -> list[DecisionResult]:
        """Each is a decision of its own: a tree takes them one by one, in one batch."""
        results = []
        for approval, decision in command.decisions:
            try:
                found = await self.get_approval(approval)
                left = await left_out(found, decision, command.shown, self._admission, command.channel)
                result = left or await self._deciding.decide(approval, decision, command.channel, command.batch)
            except NotFound:
                result = DecisionResult(kind="unknown", approval=approval)
            except InvalidInput as error:
                result = DecisionResult(kind="refused", approval=approval, status="pending", why=str(error))
            self.decided[result.kind] += 1
            results.append(replace(result, batch=command.batch))
        return results

    async def _reveal(self, command: c.Reveal, who: str) -> Any:
        """See Supervisor. It is noted in the mirror."""
        await self.get_approval(command.approval)
        return await self.near.reveal(command.approval, by=who, channel=command.channel)

    async def _add_schedule(self, command: c.AddSchedule, who: str) -> ScheduleView:
        return await add_schedule(self.trees, command.schedule, who)

    async def _change_schedule(self, command: c.ChangeSchedule, who: str) -> ScheduleView:
        return await change_schedule(self.trees, command.schedule, command.to, who)

    async def _run_schedule(self, command: c.RunSchedule, who: str) -> Run[Any]:
        schedule = (await find_schedule(self.trees, command.schedule)).schedule
        return await self._start(start_of(schedule, command.session), who)

    async def _note_refusal(self, command: c.NoteRefused, who: str) -> None:
        """See Supervisor. It is noted in the mirror."""
        await self.near.note_refusal(command.approval, by=who, reason=command.reason, channel=command.channel)

    async def _note_shown(self, command: c.NoteShown, who: str) -> None:
        """See Supervisor. It is noted in the mirror."""
        await self.near.note_shown(command.session, command.mark, channel=command.channel)

    async def _cancel(self, command: c.Cancel, who: str) -> None:
        root = await self.trees.find_root(command.session)
        await send_command(self.trees, root, "cancel", command.session, who, command.reason, run=command.run)

    async def _raise_budget(self, command: c.RaiseBudget, who: str) -> None:
        session = command.session
        root, text = await self.trees.find_root(session), to_json(command.budget, "a budget")
        await send_command(self.trees, root, "raise_budget", session, who, bytes(text).decode(), check=any_session)

    async def _send(self, command: c.Send, who: str) -> SendResult:
        session, text = command.session, printable_text(command.text)
        message, root = command.message, await self.trees.find_root(session)
        if message is not None and (known := await self._heard(session, message, text, who, None)) is not None:
            known.check_same(message, text, who, is_word=False)
        sent, answer = await send_command(
            self.trees, root, "send", session, who, text, message=message, check=check_may_send
        )
        if answer is None:
            return SendResult(kind="kept", message=message or sent, session=session, running=False)
        return from_wire(answer, SendResult)

    async def _add_rule(self, command: c.AddRule, who: str) -> Rule:
        rule = command.rule
        if command.pending:
            raise InvalidInput(
                "on Temporal a rule that is added decides nothing that waits: approve that by its ids, or by "
                "`supervisor approve --session`"
            )
        check_end(rule.uses, rule.until, datetime.now(UTC), is_counted=False)
        if rule.session is None:
            return await self._rules.add(rule, who, self.runner.environment.new_rule_id())
        root = await self.trees.find_root(rule.session)
        _, answer = await send_command(
            self.trees, root, "add_rule", root, who, rule=checked_rule(rule), check=any_session
        )
        return rule if answer is None else from_wire(answer, Rule)

    async def _revoke_rule(self, command: c.RevokeRule, who: str) -> Rule:
        rule = command.rule
        if any(each.id == rule for each in await self._rules.find()):
            return await self._rules.revoke(rule, who)
        known = next((each for each in await self.find_rules() if each.id == rule), None)
        if known is None or known.session is None:
            raise NotFound(f"there is no rule {rule} in {self.where}: it was revoked already, or is written in code")
        await send_command(self.trees, known.session, "revoke_rule", known.session, who, rule, check=any_session)
        return known

    async def _chat(self, command: c.Chat, who: str) -> ChatResult:
        return await chat(self, self.near.people, command, who, datetime.now(UTC), self._heard)

    async def _heard(
        self, session: str, message: str, text: str, by: str, approvals: Collection[str] | None
    ) -> Heard | None:
        """See LocalSupervisor.hear. It is noted in the mirror."""
        await self.trees.read(session)
        return await self.near.hear(session, message, text, by, approvals)

    async def _retry(self, command: c.Retry, who: str) -> Run[Any]:
        session = command.session
        root, number = await self.trees.find_root(session), 0

        def check(state: SessionState) -> None:
            nonlocal number
            if (why := why_not_retry(state)) is not None:
                raise InvalidInput(why)
            number = state.runs + 1

        _, answer = await send_command(self.trees, root, "retry", session, who, check=check)
        if answer is None and not number:
            raise ServerUnavailable(
                f"no worker answers for session {session} yet: see how it is later", maybe_done=True
            )
        return TemporalRun(self, self.trees, self.near, session, answer or number)

    async def _fork(self, command: c.Fork, who: str) -> Fork:
        return await fork_tree(self.trees, self.runner, command, who)

    def import_session(
        self, session: str, origin: Origin, *, agent: AgentSpec[Any, Any] | None = None
    ) -> AbstractAsyncContextManager[SessionImport]:
        """See StoreSupervisor."""
        return self._entered(c.Import(session, origin, agent))

    async def _import_session(self, command: c.Import, who: str) -> NamespaceImport:
        return NamespaceImport(self.trees, self.runner, command.session, command.origin, command.agent, who)

    # -- reading: what is new is read into the mirror, and then the mirror is read -------------------------------------

    async def get_run(
        self, session: str, *, number: int | None = None, agent: AgentSpec[..., Any] | None = None
    ) -> Run[Any]:
        try:
            await self.trees.read(session)
        except NotReplayed as unread:  # its outcome says why it is blocked
            if unread.block is None or self._store.get_session(session) is None:
                raise
        found: Run[Any] = await self.near.get_run(session, number=number)
        return TemporalRun(self, self.trees, self.near, session, found.number, agent)

    async def get_session(self, session: str) -> SessionView:
        """See Supervisor. While no worker answers, a root is known as far as the server knows it."""
        await self.mirror.see_workers()
        try:
            await self.trees.read(session)
        except ServerUnavailable as unread:
            try:
                return await self.trees.view_of(session)
            except NotFound:  # it may be a sub-agent's
                raise unread from None
        return await self.near.get_session(session)

    async def get_tree(self, session: str, *, entries: int | None = 5000) -> TreeView:
        """See Supervisor. A tree with which no worker can go on is known as far as the server knows its root, unless it
        was read before."""
        try:
            await self.trees.read(session)
        except NotReplayed as unread:
            if unread.block is None:
                raise
            if self._store.get_session(session) is None:
                return TreeView(
                    sessions=(await self.trees.view_of(session),), entries=(), cursor=self.near.reader.now()
                )
        return await self.near.get_tree(session, entries=entries)

    async def get_approval(self, approval: str) -> Approval:
        root = await self.trees.root_of_approval(approval)
        if root is None:
            raise NotFound(f"there is no approval {approval} in {self.where}")
        try:
            await self.mirror.read(root)
        except ServerUnavailable:
            found = await self.trees.find_in_memo(await self.trees.namespace.describe(root), approval)
            if found is None:
                raise
            return found
        return await self.near.get_approval(approval)

    async def get_transcript(self, session: str) -> tuple[Message, ...]:
        await self.trees.read(session)
        return await self.near.get_transcript(session)

    async def get_counts(self) -> Counts:
        await self.mirror.read_all()
        return await self.near.get_counts()

    async def get_usage(self, session: str | None = None, *, by: UsageKind = "agent") -> UsageReport:
        await (self.mirror.read_all() if session is None else self.trees.read(session))
        return await self.near.get_usage(session, by=by)

    async def _find_sessions(self, only: SessionFilter, after: str | None, limit: int | None) -> Page[SessionView]:
        """See Supervisor. The last page also has the roots of trees that could not be read, as far as the server knows
        them."""
        await self.mirror.read_all()
        page = await self.near.find_sessions(**asdict(only), after=after, limit=limit)
        unread = await self.trees.views_of_unread() if page.next is None else []
        fitting = (each for each in unread if only.has_view(each))
        return Page((*page, *fitting)[:limit], page.next, page.cursor)

    async def _find_approvals(
        self, only: ApprovalFilter, session: str | None, after: str | None, limit: int | None
    ) -> Page[Approval]:
        """See Supervisor. While no worker lives, what is pending is read from the server alone, without cursors."""
        is_inbox = only.is_pending and not only.searches
        try:
            if session is None:
                await self.mirror.read_all()
            else:
                await self.trees.read(session)
        except ServerUnavailable:
            found = await self.mirror.namespace.find_pending() if is_inbox and after is None else []
            here = tuple(each for each in found if session in (None, each.session, each.root_session))
            if not here:
                raise
            return Page(here[:limit], None, make_cursor(self._store.id, 0))
        page = await self.near.find_approvals(**asdict(only), pending=False, session=session, after=after, limit=limit)
        unread = self.mirror.find_unread() if is_inbox and session is None and page.next is None else []
        return Page((*page, *unread)[:limit], page.next, page.cursor)

    async def find_entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = 1000
    ) -> Page[JournalEntry]:
        await self.trees.read(session)
        return await self.near.find_entries(session, tree=tree, after=after, limit=limit)

    async def find_audit(self, *, after: str | None = None, limit: int | None = 1000) -> Page[JournalEntry]:
        await self.mirror.read_all()
        return await self.near.find_audit(after=after, limit=limit)

    async def find_schedules(self) -> Page[ScheduleView]:
        return self._whole(await find_schedules(self.trees))

    async def find_rules(self) -> Page[Rule]:
        """Return the rules of the namespace, and those of all trees."""
        shared = await self._rules.find()
        await self.mirror.read_all()
        now = datetime.now(UTC)
        told = (replace(masked_rule(rule), ended=not rule.has_time(now)) for rule in shared)
        return self._whole([*told, *await self.near.find_rules()])

    async def find_agents(self) -> Page[AgentView]:
        """Return the agents of the worker that answers. Raises ServerUnavailable if none does."""
        found = await self.trees.ask_agents()
        return self._whole(from_wire(each, AgentView) for each in found["agents"])

    async def find_jobs(self, *, running: bool = True) -> Page[JobView]:
        """Return none: background jobs stay on one machine."""
        return self._whole(())

    async def find_owners(self) -> Page[Owner]:
        return self._whole(await self.mirror.find_workers())

    def _whole(self, items: Any) -> Page[Any]:
        return Page(tuple(items), None, self.near.reader.now())

    async def check(self) -> None:
        await self.mirror.find_workers()

    # -- watching ----------------------------------------------------------------------------------------------------

    def _follow(self, session: str | None, make: Callable[[], Watch[T]]) -> Watch[T]:
        async def opened() -> Watch[T]:
            return make()

        return FollowingWatch(self.trees, session, opened)

    def watch_inbox(self, *, session: str | None = None, after: str | None = None) -> Watch[Approval]:
        return self._follow(session, lambda: self.near.watch_inbox(session=session, after=after))

    def watch_approvals(self, *, session: str | None = None) -> Watch[Approval]:
        return self._follow(session, lambda: self.near.watch_approvals(session=session))

    def watch_session(self, session: str, *, after: str | None = None, stay: bool = False) -> Watch[JournalEntry]:
        return self._follow(session, lambda: self.near.watch_session(session, after=after, stay=stay))

    def watch_activity(self, session: str | None = None) -> ActivityWatch:
        return TemporalActivityWatch(self.trees, self.near, session)

    def watch_text(self, session: str) -> TextWatch:
        return TemporalTextWatch(self.trees, self.near, session)
