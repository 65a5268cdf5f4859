"""The Supervisor of one machine: its commands append to the journal by plans, and the runner acts on the entries.

Rules
- Opening runs and owns nothing. `start` and `resume` claim trees. So do `decide` and `send`, if no process runs the
  tree and this program has declared its agent. All other commands are recorded for the process that runs the tree.
- A decision and a cancel count when they are committed. Before that no caller is told that they count (A1).

The module is longer than 400 lines because it is one interface: a short method for each command and each read.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, overload

import msgspec
from anyio.lowlevel import checkpoint

from supervisor.core import events as e
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.approvals.masking import masked_rule
from supervisor.core.approvals.people import People
from supervisor.core.budgets import Budget
from supervisor.core.calls.folders import folder_of_call
from supervisor.core.calls.rules import Rule, checked_rule, inherit
from supervisor.core.declarations.agent_spec import AgentSpec, AgentWithoutInput
from supervisor.core.encoding import printable_text, to_json
from supervisor.core.errors import (
    InvalidInput,
    NotEntitled,
    NotFound,
    SessionConflict,
    StoreDied,
    StoreError,
    UnknownAgent,
)
from supervisor.core.ids import check_session_id
from supervisor.core.rows import Counts, JournalEntry, Owner, TreeView
from supervisor.core.sessions.state import SessionState
from supervisor.core.sessions.trees import Origin, PruneResult
from supervisor.core.text.masks import hide
from supervisor.core.usage import UsageKind, UsageReport
from supervisor.core.values import (
    AgentView,
    Approval,
    Decision,
    DecisionResult,
    Fork,
    JobView,
    Message,
    SendResult,
    SessionStatus,
    SessionView,
    check_identity,
    check_word,
    decider_of,
)
from supervisor.runtime.chat import Seen, chat
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.claim import refuse_of_command
from supervisor.runtime.lifecycle.runner import Raised, Runner
from supervisor.runtime.people.admission import Admission
from supervisor.runtime.people.decide import decide
from supervisor.runtime.plans.begin import check_same_start, first_events
from supervisor.runtime.plans.budgets import raise_events
from supervisor.runtime.plans.end import cancel_events
from supervisor.runtime.plans.fork import Forking
from supervisor.runtime.plans.retry import retry_events
from supervisor.runtime.plans.rules import book, revoke, rule_added
from supervisor.runtime.plans.turns import message_entries
from supervisor.runtime.reading.activity import LocalActivityWatch
from supervisor.runtime.reading.audience import Audience
from supervisor.runtime.reading.counting import Counting
from supervisor.runtime.reading.lists import Lists, SessionFilter
from supervisor.runtime.reading.pieces import read_pieces
from supervisor.runtime.reading.reader import Reader
from supervisor.runtime.reading.runs import LocalRun
from supervisor.runtime.reading.streams import Inbox, PendingApprovals, SessionJournal, WrittenText
from supervisor.runtime.trees.importing import LocalImport
from supervisor.runtime.trees.prune import Pruning
from supervisor.seam.runs import ActivityWatch, Page, Run, TextWatch, Watch
from supervisor.seam.store import Store
from supervisor.seam.supervisor import StoreSupervisor
from supervisor.system.identity import HOST, attempt_started
from supervisor.system.inside import Inside, find_ancestors
from supervisor.system.loading import (
    COMMANDS,
    find_declared,
    holds_command,
    load_recorded,
    locate,
    locate_everywhere,
    refuse_nameless,
)
from supervisor.system.logs import FactLog
from supervisor.system.refusals import METHODS

log = FactLog(__name__)
MOST_WAITED_FOR: Final = 100
"""The most approvals of a SendResult."""

R = TypeVar("R")
T = TypeVar("T")


class LocalSupervisor(StoreSupervisor):
    def __init__(
        self, runner: Runner, people: People | None = None, agents: Mapping[str, AgentSpec[..., Any]] | None = None
    ) -> None:
        self._runner = runner
        self.admission = Admission(runner, people)
        self.reader = Reader(runner)
        self._lists = Lists(self.reader)
        self._counting = Counting(self.reader)
        self.store: Store = runner.journal.store
        self.where = self.store.name
        self.agents = agents or {}
        """The agents that are found by name."""
        self.leaves_runs = False
        """Whether `start` only writes the first entries, and leaves the run to a daemon of the store (R2)."""
        self.audience = Audience()
        self._inside = Inside(self.store, in_doubt=True)
        self.decided: Counter[str] = Counter()
        self.cards_failed: Counter[str] = Counter()

    @property
    def functions_left(self) -> int:
        return len(self._runner.bodies.left)

    @property
    def people(self) -> People | None:
        return self.admission.people

    @people.setter
    def people(self, people: People | None) -> None:
        self.admission.people = people

    # -- commands ----------------------------------------------------------------------------------------------------

    @overload
    async def start(
        self,
        agent: AgentWithoutInput[R],
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> Run[R]: ...
    @overload
    async def start(
        self,
        agent: AgentSpec[[T], R],
        input: T,
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> Run[R]: ...
    @overload
    async def start(
        self,
        agent: str,
        input: Any = ...,
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> Run[Any]: ...
    async def start(
        self,
        agent: Any,
        /,
        *args: Any,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> Run[Any]:
        starter = await self.admission.of_program(by, "start agents")
        spec, given = self._with_input(agent, args)
        root = check_session_id(session) if session is not None else self._runner.environment.new_session_id()
        created = self.reader.find_created(root) if session is not None else None
        if created is not None and not self.store.owns(root) and created.agent not in COMMANDS:
            self._refuse_other_tree(root, METHODS["resume"].what)  # it would run what others have started
        references = self._references(created, spec)
        folder, misfit = self._choose_folder(spec, cwd)
        # The plan sets it, and does not answer with it: a cancellation with the commit takes the answer away.
        is_new = False
        traceparent = None if created is not None else self._runner.environment.begin_trace(spec.name)
        begun = spec if created is not None else self._runner.environment.agent_to_begin(spec, root, 1)

        def plan(view: View) -> tuple[list[Entry], str | None]:
            nonlocal is_new
            is_new = False
            known = view.find_session(root)
            if known is not None:
                check_same_start(known, references, spec.name, given, None if cwd is None else folder, budget)
                self._claim_known(view, known)
                return [], known.version
            if misfit is not None:
                raise misfit
            if (inexact := spec.why_inexact(args, {}, given)) is not None:
                raise InvalidInput(inexact)
            self._refuse_nameless(spec)
            is_new = True
            self._claim_new(view, root)
            on_behalf_of = printable_text(requester) if requester else starter
            now = self._runner.clock.now()
            # A resumed run keeps this program's deny and ask rules (R4); its allow rules hold in this program only.
            rules = (*inherit((), self._runner.rules.from_code), *begun.rules)
            facts = {"path": (spec.name,), "root": root, "requester": on_behalf_of, "cwd": folder, "rules": rules}
            facts["requester_roles"] = self.admission.roles_of(on_behalf_of)
            facts["budget"] = budget
            first = first_events(spec, given, attempt_started(begun.version, now), traceparent=traceparent, **facts)
            written = first[:-1] if self.leaves_runs else first  # the attempt is of the process that runs it
            return [(root, event) for event in written], begun.version

        try:
            version = await self._runner.journal.append_with_answer(plan)
        finally:  # a native cancellation may come with the commit
            if is_new:
                self._begin_new(root, begun)
        if not is_new and not self.leaves_runs:
            await self._runner.launcher.recover(root)
        ran = spec.at_version(version) if version in (spec.version, *spec.versions) else spec
        # Run 1, since later turns are runs of their own. The result of an agent started by name is plain JSON.
        return self._run_of(root, 1, None if isinstance(agent, str) else ran, is_new=is_new)

    def _claim_known(self, view: View, known: SessionState) -> None:
        """Claim the tree of a session that is started again. Raises SessionConflict for one that a daemon may not run
        by itself either, since it is silent (R5)."""
        is_owned = view.store.get_owner(known.id) is not None
        if not self.leaves_runs:
            if known.is_open or not is_owned:  # an idle one, too: a message may begin a turn
                view.claim(known.id)
        elif known.is_open and known.attempts and not is_owned:
            raise SessionConflict(f"session {known.id} has begun, and no process runs it: supervisor resume {known.id}")

    def _claim_new(self, view: View, root: str) -> None:
        """Claim the tree of a session that a plan creates, and announce it: here, where it is known to be new. Readers
        and launches see it at the commit."""
        if not self.leaves_runs:
            view.claim(root)
            self._runner.expect(root)

    def _begin_new(self, root: str, spec: AgentSpec[Any, Any]) -> None:
        """Begin the first attempt of a session; take `expect` back if the append failed."""
        if self.leaves_runs:
            return
        if root in self._runner.journal.states:
            self._runner.begin(root, spec)
        else:
            self._runner.forget(root)

    def _choose_folder(self, agent: AgentSpec[..., Any], cwd: str | None) -> tuple[str, InvalidInput | None]:
        """Return the folder of a new session, and why it cannot be one: a session that has begun goes on even if its
        folder is gone."""
        environment = self._runner.environment
        here = environment.working_directory()
        if cwd is None:
            return environment.folder_of_agent(agent.cwd, here), None
        try:
            return environment.folder_of_agent(agent.cwd, environment.find_folder(cwd, here)), None
        except InvalidInput as misfit:
            return folder_of_call(here, cwd), misfit

    def _with_input(
        self, agent: AgentSpec[..., R] | str, args: tuple[Any, ...]
    ) -> tuple[AgentSpec[..., R], msgspec.Raw]:
        """Return an agent, looked up by its name if need be, and its input."""
        if isinstance(agent, AgentSpec):
            return agent, agent.encode_input(args, {}) if args else agent.default_input()
        if not isinstance(agent, str):
            raise InvalidInput(f"start takes an agent, or the name of one, not {agent!r}: declare it with @agent")
        if holds_command(agent):
            raise InvalidInput(
                f"{agent!r} holds a command, and start takes the name of an agent: run it from the command line, "
                "configure it as an agent, or load it in code with load_agent"
            )
        if (found := self.agents.get(agent)) is None:
            offered = ", ".join(sorted(self.agents)) or "none"
            raise UnknownAgent(f"no agent {agent!r} is offered here; the agents are: {offered}")
        values = found.check_input(to_json(args[0], "the input") if args else found.default_input())
        return found, found.encode_input(values, {})

    def _refuse_nameless(self, spec: AgentSpec[Any, Any]) -> None:
        """Raise InvalidInput for an agent that no later process would find, if there can be one."""
        if self.store.is_durable:
            refuse_nameless(spec)

    def _references(self, created: e.SessionCreated | None, agent: AgentSpec[Any, Any]) -> set[str]:
        """Return the references that name an agent: its own, and the one that the session recorded, if that still leads
        to the same agent after a move."""
        references = {(locate_everywhere(agent) if self.store.is_durable else None) or locate(agent)[0]}
        if created is not None and created.agent not in references:
            with suppress(UnknownAgent):
                if load_recorded(created.agent, created.file, created.path[-1]) is agent:
                    references.add(created.agent)
        return references

    async def resume(self, session: str, *, by: str | None = None) -> Run[Any]:
        self.refuse_inside(METHODS["resume"].what)
        await self.admission.of_program(by, "resume sessions", session)
        (root,) = await self._runner.claims.take([self.reader.get_row(session).root], only_one=True)
        return self._run(root)

    async def resume_all(self, *, by: str | None = None) -> list[Run[Any]]:
        self.refuse_inside(METHODS["resume_all"].what)
        await self.admission.of_program(by, "resume sessions")
        claims = self._runner.claims
        roots = [root for root, rows in (await claims.find_open()).items() if rows[0].id == root]
        unowned = set(await claims.without_owner(roots))
        await claims.take(claims.find_with_jobs())
        taken = await claims.take(root for root in roots if root in unowned or self.store.owns(root))
        return [self._run(root) for root in taken]

    def refuse_inside(self, what: str) -> None:
        """Raise NotEntitled if a supervised call started this process: its commands are no person's (A4)."""
        if self._runner.environment.takes_commands_here:
            self._inside.refuse(what)

    def _refuse_other_tree(self, root: str, what: str) -> None:
        """As `refuse_inside`, but for a tree that this process runs, or whose call started it."""
        if not self.store.owns(root):
            try:
                self.refuse_inside(what)
            except NotEntitled:
                if not self._runs_a_call_above(root):
                    raise

    def _runs_a_call_above(self, root: str) -> bool:
        """Return whether the process of a call or a job of a tree started this one, as far as it sees its ancestors."""
        view, above = self._runner.journal.look(), find_ancestors()
        states = (view.session(row.id) for row in self.store.find_sessions(root=root))
        return any(host == HOST and process in above for state in states for host, process in _processes(state))

    async def decide(self, approval: str, decision: Decision, *, channel: str | None = None) -> DecisionResult:
        check_word("a channel", "" if channel is None else channel)
        decider_of(decision)
        self.refuse_inside(METHODS["decide"].what)
        self.audience.has_readers = True
        found = self.store.get_approval(approval) if self.people is not None else None
        if found is not None:
            await self.admission.of_decision(found, decision, channel)
        result = await decide(self._runner, approval, decision, channel, self.admission.may_decide)
        if not result.running and result.kind in ("accepted", "already"):
            root = self.reader.get_row(self.reader.get_approval(approval).session).root
            result = msgspec.structs.replace(result, running=await self._run_declared(root))
        self.decided[result.kind] += 1
        return result

    async def _run_declared(self, root: str) -> bool:
        """Run a tree that no process owns, if this program has declared its agent (R2). Return whether a process runs
        it now. The command is on disk already, so if the tree cannot be claimed, the command still has its result."""
        if self.store.owns(root) or self.store.get_owner(root) is not None:
            return True
        created = self.reader.find_created(root)
        if self._runner.is_closed or created is None or find_declared(created.agent, created.path[-1]) is None:
            return False
        try:
            await self._runner.claims.take([root])
        except StoreDied:
            raise
        except StoreError as error:
            log.error("tree.not_claimed", root=root, reason=str(error))
            return False
        return self.store.owns(root) or self.store.get_owner(root) is not None  # another process may have been faster

    async def add_rule(self, rule: Rule, *, by: str | None = None) -> Rule:
        self.refuse_inside(METHODS["add_rule"].what)
        who = await self.admission.of_command(by, "make rules")
        if rule.session is not None:
            rule = msgspec.structs.replace(rule, session=self.reader.get_row(rule.session).root)
        new = msgspec.structs.replace(checked_rule(rule), id=self._runner.environment.new_rule_id())
        await self._runner.journal.append(lambda view: list(rule_added(view, new, who, self._runner.clock.now())))
        found = book(self._runner.journal.look()).find_same(new)
        if found is None:
            raise NotFound(f"rule {new.id} was added, and another process revoked it at once; add it again")
        return found

    async def revoke_rule(self, rule: str, *, by: str | None = None) -> Rule:
        self.refuse_inside(METHODS["revoke_rule"].what)
        who = await self.admission.of_command(by, "make rules")
        clock = self._runner.clock
        return await self._runner.journal.append_with_answer(lambda view: revoke(view, rule, who, clock.now()))

    async def chat(
        self,
        session: str,
        text: str,
        *,
        by: str | None = None,
        shown_before: datetime | None = None,
        channel: str | None = None,
        shown: Collection[str] | None = None,
    ) -> ChatResult:
        check_word("a channel", "" if channel is None else channel)
        who = check_identity(by if by is not None else self._runner.environment.user())
        seen = Seen(shown_before if shown_before is not None else self._runner.clock.now(), channel, shown)
        return await chat(self, self.people, session, text, who, seen)

    async def reveal(self, approval: str, *, by: str | None = None, channel: str | None = None) -> Any:
        self.refuse_inside(METHODS["reveal"].what)
        check_word("a channel", "" if channel is None else channel)
        found = self.reader.get_approval(approval)
        if found.kind != "call":
            raise InvalidInput(f"{approval} is a question: it has no arguments")
        who = await self.admission.of_command(by, "look at credentials", found.session)
        shown = e.CredentialsShown(at=self._runner.clock.now(), approval=approval, by=who, channel=channel)
        await self._runner.journal.append(lambda view: [(found.session, shown)])
        return await read_pieces(self.store, self._lists.revealed(found))

    async def note_refusal(self, approval: str, *, by: str, reason: str, channel: str | None = None) -> None:
        check_word("a channel", "" if channel is None else channel)
        await self.admission.refusals.note(approval, by, reason, channel)

    async def note_shown(self, session: str, mark: str, *, channel: str) -> None:
        channel, mark = check_word("a channel", channel), check_word("the mark of a message", mark)
        shown = e.MessageShown(at=self._runner.clock.now(), channel=channel, mark=mark)

        def plan(view: View) -> list[Entry]:
            view.session(session)
            return [(session, shown)]

        await self._runner.journal.append(plan)

    async def send(self, session: str, text: str, *, by: str | None = None) -> SendResult:
        self.refuse_inside(METHODS["send"].what)
        root = self.reader.get_row(session).root
        who = await self.admission.of_message(by, text, session)
        message = self._runner.environment.new_session_id()

        def plan(view: View) -> tuple[list[Entry], Literal["delivered", "kept", "begun"]]:
            now = self._runner.clock.now()
            received = e.MessageReceived(at=now, message=message, text=printable_text(text), by=who)
            return message_entries(view.session(session), received, self._runner.attempts.waits_of(session))

        kind = await self._runner.journal.append_with_answer(plan)
        running = await self._run_declared(root)
        waits = self._lists.approvals(session=session, limit=MOST_WAITED_FOR)
        pending = () if kind == "begun" else tuple(await read_pieces(self.store, waits))
        return SendResult(kind=kind, message=message, session=session, waiting_for=pending, running=running)

    def import_session(self, session: str, origin: Origin, *, agent: AgentSpec[Any, Any] | None = None) -> LocalImport:
        self.refuse_inside(METHODS["import_session"].what)
        return LocalImport(self._runner, session, origin, agent)

    async def prune(
        self, before: datetime, *, only: Collection[str] | None = None, dry_run: bool = False
    ) -> PruneResult:
        await checkpoint()
        pruning = Pruning(self._runner, before, only)
        if dry_run:
            return await pruning.find()
        self.refuse_inside(METHODS["prune"].what)
        return await pruning.remove()

    async def retry(self, session: str, *, by: str | None = None) -> Run[Any]:
        self.refuse_inside(METHODS["retry"].what)
        who = await self.admission.of_command(by, "retry sessions", session)
        root = self.reader.get_row(session).id

        def plan(view: View) -> list[Entry]:
            refuse_of_command(view, root)
            found = list(retry_events(view, root, who, self._runner.clock.now()))
            view.claim(root)
            return found

        await self._runner.journal.append(plan)
        await self._runner.launcher.recover(root)
        return self._run(root)

    async def fork(
        self, session: str, *, before: int, new: str | None = None, version: str | None = None, by: str | None = None
    ) -> Fork:
        self.refuse_inside(METHODS["fork"].what)
        who = await self.admission.of_command(by, "fork sessions", session)
        root = self.reader.get_row(session).root
        fork = check_session_id(new) if new is not None else self._runner.environment.new_session_id()
        if version is not None and (created := self.reader.find_created(root)) is not None:
            self._runner.find_agent(created).at_version(version)
        forking = Forking(self.store, root, session, before, fork)

        def plan(view: View) -> list[Entry]:
            refuse_of_command(view, root)
            found = list(forking.events(view, who, version, self._runner.clock.now()))
            view.claim(fork)
            return found

        await self._runner.journal.append(plan)
        await self._runner.launcher.recover(fork)
        return forking.fork

    async def cancel(
        self, session: str, *, reason: str | None = None, by: str | None = None, run: int | None = None
    ) -> None:
        root = self.reader.get_row(session).root
        self._refuse_other_tree(root, METHODS["cancel"].what)
        who = await self.admission.of_program(by, "cancel sessions", session)

        def plan(view: View) -> tuple[list[Entry], bool]:
            state = view.session(session)
            if not state.is_open or run not in (None, state.runs):
                return [], False
            if view.store.get_owner(root) is None:
                view.claim(root)
            return list(cancel_events(view, session, who, reason, self._runner.clock.now())), True

        is_told = await self._runner.journal.append_with_answer(plan)
        if is_told and self.store.owns(root) and session not in self._runner.attempts.live:
            await self._runner.finishing.end_tree(session)

    # -- waiting -----------------------------------------------------------------------------------------------------

    @property
    def refusals(self) -> Mapping[str, str]:
        return self._runner.attempts.refusals

    def listen(self, listener: Callable[[Sequence[JournalEntry]], object]) -> None:
        self._runner.published.connect(listener)

    async def wait_until_broken(self) -> None:
        await self._runner.attempts.wait_until(lambda: self._runner.journal.death is not None)
        self.reader.check_running(None)

    def _run(self, session: str) -> LocalRun[Any]:
        return self._run_of(session, self.reader.latest_run(session))

    def _run_of(
        self, session: str, number: int, spec: AgentSpec[..., R] | None = None, *, is_new: bool = False
    ) -> LocalRun[R]:
        raised = self._runner.raised.setdefault((session, number), Raised())
        parts = (self.reader, self.audience, raised, self.cancel)
        return LocalRun(session, number, spec, *parts, is_new=is_new)

    # -- reading: one checkpoint, then one synchronous read -----------------------------------------------------------

    async def raise_budget(self, session: str, budget: Budget, *, by: str | None = None) -> None:
        self.refuse_inside(METHODS["raise_budget"].what)
        person = await self.admission.of_program(by, "raise budgets", session)
        self.reader.get_row(session)
        await self._runner.journal.append(
            lambda view: list(raise_events(view.session(session), budget, person, self._runner.clock.now()))
        )

    @overload
    async def get_run(self, session: str, *, number: int | None = None, agent: None = None) -> Run[Any]: ...
    @overload
    async def get_run(self, session: str, *, number: int | None = None, agent: AgentSpec[..., R]) -> Run[R]: ...
    async def get_run(
        self, session: str, *, number: int | None = None, agent: AgentSpec[..., Any] | None = None
    ) -> Run[Any]:
        await checkpoint()
        latest = self.reader.latest_run(session)
        if number is not None and not 0 < number <= latest:
            raise NotFound(f"session {session} has no run {number}: it has {latest}")
        return self._run_of(session, number or latest, agent)

    async def get_session(self, session: str) -> SessionView:
        return await read_pieces(self.store, self._lists.session(session))

    async def get_tree(self, session: str, *, entries: int | None = 5000) -> TreeView:
        return await read_pieces(self.store, self._lists.tree(session, entries))

    async def get_approval(self, approval: str) -> Approval:
        await checkpoint()
        return self.reader.get_approval(approval)

    async def get_transcript(self, session: str) -> tuple[Message, ...]:
        return await read_pieces(self.store, self._lists.transcript(session))

    async def get_counts(self) -> Counts:
        return await read_pieces(self.store, self._counting.counts())

    async def get_usage(self, session: str | None = None, *, by: UsageKind = "agent") -> UsageReport:
        from supervisor.runtime.reading.usage import read_usage  # most programs never ask

        return await read_pieces(self.store, read_usage(self.reader, session, by))

    async def find_sessions(
        self,
        *,
        is_open: bool | None = None,
        status: SessionStatus | None = None,
        agent: str | None = None,
        root: str | None = None,
        newest_first: bool = False,
        after: str | None = None,
        limit: int | None = 100,
    ) -> Page[SessionView]:
        only = SessionFilter(is_open=is_open, status=status, agent=agent, root=root, newest_first=newest_first)
        return await read_pieces(self.store, self._lists.sessions(only, after=after, limit=limit))

    async def find_approvals(
        self, *, pending: bool = True, session: str | None = None, after: str | None = None, limit: int | None = 100
    ) -> Page[Approval]:
        self.audience.has_readers = True
        return await read_pieces(
            self.store, self._lists.approvals(pending=pending, session=session, after=after, limit=limit)
        )

    async def find_entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = 1000
    ) -> Page[JournalEntry]:
        return await read_pieces(self.store, self._lists.entries(session, tree=tree, after=after, limit=limit))

    async def find_audit(self, *, after: str | None = None, limit: int | None = 1000) -> Page[JournalEntry]:
        return await read_pieces(self.store, self._lists.audit(after=after, limit=limit))

    async def find_rules(self) -> Page[Rule]:
        await checkpoint()
        self._runner.journal.catch_up()
        view = self._runner.journal.look()  # a commit that is not live yet comes after its position
        return self._lists.whole(map(masked_rule, self._runner.rules.find(view)), view.position)

    async def find_agents(self) -> Page[AgentView]:
        await checkpoint()
        return self._lists.whole(self.agents[name].view() for name in sorted(self.agents))

    async def find_jobs(self, *, running: bool = True) -> Page[JobView]:
        page = await read_pieces(self.store, self._lists.jobs())
        looked = [await self._runner.jobs.look_at(job) for job in page]
        looked = [msgspec.structs.replace(job, command=hide(job.command)) for job in looked]
        hidden = {"exited", "ended", "lost", "failed"} if running else {"failed"}  # one that could not begin is no job
        shown = tuple(job for job in looked if job.state not in hidden)
        return Page(shown, page.next, page.cursor)

    async def find_owners(self) -> Page[Owner]:
        await checkpoint()
        return self._lists.whole(self.store.owners())

    async def check(self) -> None:
        await checkpoint()
        self.reader.check_running(None)
        self.store.last_position()

    def watch_inbox(self, *, session: str | None = None, after: str | None = None) -> Watch[Approval]:
        self.audience.has_readers = True
        return Inbox(self.reader, session, after)

    def watch_approvals(self, *, session: str | None = None) -> Watch[Approval]:
        self.audience.has_readers = True
        return PendingApprovals(self.reader, session)

    def watch_session(self, session: str, *, after: str | None = None, stay: bool = False) -> Watch[JournalEntry]:
        return SessionJournal(self.reader, session, after, stay=stay)

    def watch_activity(self, session: str | None = None) -> ActivityWatch:
        return LocalActivityWatch(self._runner, session)

    def watch_text(self, session: str) -> TextWatch:
        return WrittenText(self.reader, session)


def _processes(state: SessionState) -> Iterator[tuple[str, int]]:
    """Yield the processes of the calls that are executing, and of the jobs that run, each with its host."""
    for record in state.operations.values():
        if record.state == "executing" and record.started is not None and record.started.process is not None:
            yield record.started.host, record.started.process
    for job in state.jobs.values():
        if job.ended is None:
            yield job.started.host, job.started.process
