"""The Supervisor on one machine: commands go down to the journal by plans, what follows is the runner's.

Rules
- Opening runs and owns nothing. `start` and `resume` own trees. So do `decide` and `send`, if nobody runs the tree and
  this program has declared its agent. Everything else is recorded, whoever runs the tree.
- A decision and a cancel count when they are committed, and nobody is told so before (A1).

The module is longer than 400 lines because it is one seam: a short method for each command and each read.
"""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, overload
from weakref import WeakSet

import msgspec

from supervisor.abc import Activities, Counts, JournalEntry, Owner, Run, SessionRow, Store, Supervisor
from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.encoding import printable
from supervisor.core.errors import (
    InvalidInput,
    NotEntitled,
    NotFound,
    RunBlocked,
    SessionConflict,
    StoreDied,
    StoreError,
    SupervisorError,
    UnknownAgent,
)
from supervisor.core.ids import check_session_id
from supervisor.core.masking import shown
from supervisor.core.people import People
from supervisor.core.rules import Rule, checked, inherit
from supervisor.core.values import (
    Approval,
    Decision,
    DecisionResult,
    Fork,
    Message,
    Outcome,
    SendResult,
    SessionView,
    check_identity,
)
from supervisor.core.words import ChatResult
from supervisor.logs import FactLog
from supervisor.runtime.activity import LocalActivities
from supervisor.runtime.beginning import first_events
from supervisor.runtime.deciding import decide
from supervisor.runtime.ending import cancel_events
from supervisor.runtime.forking import Forking
from supervisor.runtime.hearing import Seen, hear
from supervisor.runtime.importing import Import, Origin
from supervisor.runtime.journal import Entry, View
from supervisor.runtime.loading import find_declared, load_agent, locate
from supervisor.runtime.messages import transcript
from supervisor.runtime.pruning import Pruning
from supervisor.runtime.refusals import Refusals
from supervisor.runtime.retrying import retry_events
from supervisor.runtime.ruling import add, book, revoke
from supervisor.runtime.runner import Raised, Runner
from supervisor.runtime.runs import LocalRun
from supervisor.runtime.signals import Signal
from supervisor.runtime.streams import Inbox, PendingApprovals, SessionJournal
from supervisor.runtime.turns import check_may_send, turn
from supervisor.runtime.views import block_of, session_views
from supervisor.system.identity import attempt_started
from supervisor.system.inside import Inside

log = FactLog(__name__)

R = TypeVar("R")
T = TypeVar("T")

AUDITED: Final = e.having("audited")
"""Who asked, who was shown what, who decided what, and what then ran (A15)."""


class LocalSupervisor(Supervisor):
    def __init__(self, runner: Runner, people: People | None = None) -> None:
        self._runner = runner
        self._refusals = Refusals(runner)
        self.store: Store = runner.journal.store
        self.hub = runner.hub
        self.has_readers = False
        """Whether this program has looked at approvals: then somebody may answer even where no channel is (A6)."""
        self.watching: WeakSet[SessionJournal] = WeakSet()
        self.is_left = False
        """Whether the store is about to be closed: nothing can be read from it any more."""
        self.awaited: Counter[str] = Counter()
        """Roots of the trees whose outcomes this program waits for now."""
        self.people = people
        """Who may decide; None: whoever can open the store, which is its operator (A4)."""
        self._inside = Inside(self.store)
        self.decided: Counter[str] = Counter()
        self.began_to_wait = Signal[str]()
        """A program waits for an outcome of the tree of this root."""

    # -- commands ----------------------------------------------------------------------------------------------------

    @overload
    async def start(
        self, agent: AgentSpec[[], R], /, *, session: str | None = None, requester: str | None = None
    ) -> Run[R]: ...
    @overload
    async def start(
        self, agent: AgentSpec[[T], R], input: T, /, *, session: str | None = None, requester: str | None = None
    ) -> Run[R]: ...
    async def start(
        self, agent: AgentSpec[..., R], /, *args: Any, session: str | None = None, requester: str | None = None
    ) -> Run[R]:
        if not isinstance(agent, AgentSpec):
            raise InvalidInput(f"start takes an agent, not {agent!r}: declare it with @agent")
        given = agent.encode_input(args, {}) if args else agent.default_input()
        root = check_session_id(session) if session is not None else self._runner.environment.new_session_id()
        references = self._references(root, agent)
        version: list[str | None] = [agent.version]
        has_begun: list[str] = []

        def plan(view: View) -> list[Entry]:
            has_begun.clear()
            known = view.find_session(root)
            if known is not None:
                if known.origin is not None:
                    raise SessionConflict(f"session {root} was imported; to go on with it, send a message to it")
                self._check_same(root, known.facts, known.first_input, references, given)
                version[:] = [known.version]
                if known.is_open or view.store.get_owner(root) is None:  # at rest, too: a message may begin a turn
                    view.claim(root)
                return []
            view.claim(root)
            has_begun.append(root)
            self._runner.expect(root)
            by = printable(requester or self._runner.environment.user())
            now, cwd = self._runner.clock.now(), self._runner.environment.working_directory()
            # What this program denies and asks for, a resumed run keeps (R4); what it allows is allowed by it alone.
            rules = (*inherit((), self._runner.rules.from_code), *agent.rules)
            facts = {"path": (agent.name,), "root": root, "requester": by, "cwd": cwd, "rules": rules}
            first = first_events(agent, given, attempt_started(agent.version, now), **facts)
            return [(root, event) for event in first]

        try:
            await self._runner.journal.append(plan)
        finally:  # a cancellation that knows no shields may come with the commit
            if has_begun and root in self._runner.journal.states:
                self._runner.begin(root, agent)
            elif has_begun:
                self._runner.forget(root)
        if not has_begun:
            await self._runner.launcher.take_up(root)
        ran = agent.at_version(version[0]) if version[0] in (agent.version, *agent.versions) else agent
        # Turns that followed are runs of their own.
        return LocalRun(self, root, ran, 1, is_new=bool(has_begun))

    def _references(self, root: str, agent: AgentSpec[Any, Any]) -> set[str]:
        """Return the names under which a session may know an agent: its own, and the one that the session recorded, if
        the agent has moved and left that name behind."""
        references = {locate(agent)[0]}
        if (created := self._created(root)) is not None and created.agent not in references:
            with suppress(UnknownAgent):
                if load_agent(created.agent, created.file) is agent:
                    references.add(created.agent)
        return references

    def _created(self, session: str) -> e.SessionCreated | None:
        """Return how a session was created, without reading its journal."""
        row = self.store.get_session(session)
        entries = self.store.rows(row.position - 1, row.position) if row is not None else ()
        return next((entry.event for entry in entries if isinstance(entry.event, e.SessionCreated)), None)

    def _check_same(
        self, root: str, facts: e.SessionCreated, known_input: msgspec.Raw, references: set[str], given: msgspec.Raw
    ) -> None:
        if facts.parent is not None:
            raise SessionConflict(f"session {root} is a sub-agent's; choose another id")
        if facts.agent not in references:
            raise SessionConflict(
                f"session {root} belongs to agent {facts.agent}, not {min(references)}; choose another id; if the "
                "agent has moved, leave its old name behind where it was (from NEW import AGENT)"
            )
        if bytes(known_input) != bytes(given):
            raise SessionConflict(
                f"session {root} was started with input {bytes(known_input).decode()}, not {bytes(given).decode()}; "
                "choose another id, or the same input to go on"
            )

    async def resume(self, session: str | None = None) -> list[Run[Any]]:
        if session is not None:
            roots = [self.get_row(session).root]
        else:
            roots = [row.id for row in self.store.find_sessions(is_open=True) if row.parent is None]
            roots = [root for root in roots if self.store.owns(root) or self.store.get_owner(root) is None]
            await self._runner.claims.take(self._runner.claims.find_with_jobs())
        taken = await self._runner.claims.take(roots, only_one=session is not None)
        return [self.get_run(root) for root in taken]

    def refuse_inside(self, what: str) -> None:
        """Raise NotEntitled if this process belongs to a supervised call: what that runs is no person's word (A4)."""
        self._inside.refuse(what)

    async def decide(self, approval: str, decision: Decision, *, channel: str | None = None) -> DecisionResult:
        self.refuse_inside("deciding")
        self.has_readers = True
        found = self.store.get_approval(approval) if self.people is not None else None
        if self.people is not None and found is not None:
            check_identity(decision.by)
            why = self.people.why_not_decide(decision.by, found, decision)
            if why is not None:
                await self.refuse_decision(approval, decision.by, why, channel)
                raise NotEntitled(why)
        result = await decide(self._runner, approval, decision, channel)
        if not result.running and result.kind in ("accepted", "already"):
            root = self.get_row(self.get_approval(approval).session).root
            result = msgspec.structs.replace(result, running=await self._take_up_declared(root))
        self.decided[result.kind] += 1
        return result

    async def _take_up_declared(self, root: str) -> bool:
        """Run a tree that nobody runs, if this program has declared its agent (R2); return whether somebody runs it
        now. What came for it is on disk already, so that a tree which cannot be taken up costs nobody an answer."""
        if self.store.owns(root) or self.store.get_owner(root) is not None:
            return True
        created = self._created(root)
        if self._runner.is_closed or created is None or find_declared(created.agent) is None:
            return False
        try:
            await self._runner.claims.take([root])
        except StoreDied:
            raise
        except StoreError as error:
            log.error("tree.not_taken_up", root=root, reason=str(error))
            return False
        return self.store.owns(root) or self.store.get_owner(root) is not None  # another process may have been faster

    def _name_of_ruler(self, by: str | None, what: str = "changing rules") -> str:
        """Return who does what only operators may, if they may."""
        self.refuse_inside(what)
        who = check_identity(by if by is not None else self._runner.environment.user())
        if (why := self.people.why_not_rule(who) if self.people is not None else None) is not None:
            raise NotEntitled(why)
        return printable(who)

    async def add_rule(self, rule: Rule, by: str | None = None) -> Rule:
        who = self._name_of_ruler(by)
        if rule.session is not None:
            rule = msgspec.structs.replace(rule, session=self.get_row(rule.session).root)
        new = msgspec.structs.replace(checked(rule), id=self._runner.environment.new_rule_id())
        await self._runner.journal.append(lambda view: list(add(view, new, who, self._runner.clock.now())))
        found = book(self._runner.journal.look()).find_same(new)
        if found is None:
            raise NotFound(f"rule {new.id} was added, and revoked at once by somebody else")
        return found

    async def revoke(self, rule: str, by: str | None = None) -> None:
        who = self._name_of_ruler(by)
        await self._runner.journal.append(lambda view: list(revoke(view, rule, who, self._runner.clock.now())))

    async def hear(
        self,
        session: str,
        text: str,
        by: str,
        shown_before: datetime,
        *,
        channel: str | None = None,
        shown: Collection[str] | None = None,
    ) -> ChatResult:
        return await hear(self, session, text, check_identity(by), Seen(shown_before, channel, shown))

    async def refuse_decision(self, approval: str, by: str, reason: str, channel: str | None = None) -> None:
        await self._refusals.note(approval, by, reason, channel)

    async def send(self, session: str, text: str, by: str | None = None) -> SendResult:
        self.refuse_inside("sending")
        who = printable(check_identity(by if by is not None else self._runner.environment.user()))
        root = self.get_row(session).root
        message, kinds = self._runner.environment.new_session_id(), list[Literal["delivered", "kept", "begun"]]()

        def plan(view: View) -> list[Entry]:
            state = view.session(session)
            check_may_send(state)
            now = self._runner.clock.now()
            received = e.MessageReceived(at=now, message=message, text=printable(text), by=who)
            if state.is_open:
                is_awaited = e.MESSAGE in (state.waiting_for or self._runner.attempts.waits_of(session))
                kinds[:] = ["delivered" if is_awaited else "kept"]
                return [(session, received)]
            oldest = next(iter(state.inbox.values()), received)  # of a run that was cancelled, where there is another
            kinds[:] = ["begun" if oldest is received else "kept"]
            return [(session, received), (session, turn(oldest, now))]

        await self._runner.journal.append(plan)
        pending = () if kinds[0] == "begun" else self.pending_below(session, root)
        running = await self._take_up_declared(root)
        return SendResult(kind=kinds[0], message=message, session=session, waiting_for=pending, running=running)

    def importing(self, session: str, origin: Origin, agent: AgentSpec[Any, Any] | None) -> Import:
        """Return an import of a session that took place elsewhere, to be entered. Raises InvalidInput."""
        return Import(self._runner, session, origin, agent)

    async def retry(self, session: str, by: str | None = None) -> Run[Any]:
        who = self._name_of_ruler(by, "retrying")
        root = self.get_row(session).id

        def plan(view: View) -> list[Entry]:
            found = list(retry_events(view, root, who, self._runner.clock.now()))
            view.claim(root)
            return found

        await self._runner.journal.append(plan)
        await self._runner.launcher.take_up(root)
        return self.get_run(root)

    async def fork(
        self, session: str, *, before: int, new: str | None = None, version: str | None = None, by: str | None = None
    ) -> Fork:
        who = self._name_of_ruler(by, "forking")
        root = self.get_row(session).root
        fork = check_session_id(new) if new is not None else self._runner.environment.new_session_id()
        if version is not None and (created := self._created(root)) is not None:
            self._runner.find_agent(created).at_version(version)
        forking = Forking(self.store, root, session, before, fork)

        def plan(view: View) -> list[Entry]:
            found = list(forking.events(view, who, version, self._runner.clock.now()))
            view.claim(fork)
            return found

        await self._runner.journal.append(plan)
        await self._runner.launcher.take_up(fork)
        return forking.fork

    async def cancel(self, session: str, reason: str | None = None, by: str | None = None) -> None:
        who = check_identity(by if by is not None else self._runner.environment.user())
        root = self.get_row(session).root

        def plan(view: View) -> list[Entry]:
            if not view.session(session).is_open:
                return []
            if view.store.get_owner(root) is None:
                view.claim(root)
            return list(cancel_events(view, session, who, reason, self._runner.clock.now()))

        await self._runner.journal.append(plan)
        if self.store.owns(root) and session not in self._runner.attempts.live:
            await self._runner.concluding.end_tree(session)

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def outcome(self, session: str) -> Outcome[Any]:
        return await self.get_run(session).outcome()

    @contextmanager
    def awaiting(self, session: str) -> Iterator[None]:
        """Note that this program waits for an outcome of this tree."""
        root = self.root_of(session)
        self.awaited[root] += 1
        self.began_to_wait.send(root)
        try:
            yield
        finally:
            self.awaited[root] -= 1
            if not self.awaited[root]:
                del self.awaited[root]

    def check_running(self, session: str | None) -> None:
        """Raise if waiting is of no use: the store has died, or the session cannot be run here."""
        if (death := self._runner.journal.death) is not None:
            raise StoreDied(str(death))
        refusals = self._runner.attempts.refusals
        if session is None or not refusals:
            return
        refused = refusals.get(session) or refusals.get(self.root_of(session))
        if refused is not None:
            raise SupervisorError(f"session {session} is not running: {refused}; nothing is lost, resume it afterwards")

    def check_not_blocked(self, session: str) -> None:
        """Raise RunBlocked if a session or one below it is blocked, and no attempt is trying it here now (R1)."""
        root, blocked = self.root_of(session), self._runner.blocked
        if self.store.owns(root):
            found = [self.get_row(each) for each in sorted(blocked.known & blocked.tried)]
        else:
            found = [row for row in self.store.find_sessions(root=root, is_open=True) if row.blocked is not None]
        for row in found:
            block = block_of(self.store, row) if row.root == root and self.is_below(row.id, session) else None
            if block is not None and not block.is_presumed:
                raise RunBlocked(row.id, block)

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why sessions that this process was asked to run are not running."""
        return self._runner.attempts.refusals

    async def wait_until_it_dies(self) -> None:
        """Wait for as long as the store can be trusted. Raises StoreDied."""
        await self._runner.attempts.wait_until(lambda: self._runner.journal.death is not None)
        self.check_running(None)

    # -- reading -----------------------------------------------------------------------------------------------------

    def get_row(self, session: str) -> SessionRow:
        row = self.store.get_session(session)
        if row is None:
            raise NotFound(f"there is no session {session} in {self.store.name}")
        return row

    def root_of(self, session: str) -> str:
        """Return the root of a session's tree, from memory where the session is in it. Raises NotFound."""
        live = self._runner.journal.states.get(session)
        return live.facts.root if live is not None else self.get_row(session).root

    def runs_at(self, session: str, number: int) -> int | None:
        """Return the position behind which a run's end will be, where memory says that it has not ended."""
        journal = self._runner.journal
        live = journal.states.get(session)
        return journal.position if live is not None and live.runs == number and live.is_open else None

    def get_run(self, session: str) -> Run[Any]:
        """Return the latest run of a session. Raises NotFound."""
        live = self._runner.journal.states.get(session)
        number = live.runs if live is not None else self._count_runs(self.get_row(session).id)
        return LocalRun(self, session, None, number)

    def raised_by(self, session: str, number: int) -> Raised:
        """Return where the exception of a run is kept, for as long as the caller keeps it."""
        return self._runner.raised.setdefault((session, number), Raised())

    def _count_runs(self, session: str) -> int:
        return sum(type(row.event) in e.BEGINS_RUN for row in self.store.journal(session))

    def is_below(self, session: str, top: str | None) -> bool:
        """Whether `session` is `top` or somewhere below it."""
        row = self.store.get_session(session)
        while row is not None and row.id != top:
            row = self.store.get_session(row.parent) if row.parent is not None else None
        return row is not None

    def pending_below(self, session: str, root: str) -> tuple[Approval, ...]:
        """Return what a session and those below it ask people, without reading the other sessions of their tree."""
        found = self.store.find_approvals(root=root)
        return tuple(approval for approval in found if self.is_below(approval.session, session))

    def get_session(self, session: str) -> SessionView:
        root = self.get_row(session).root
        return next(view for view in session_views(self.store, root=root) if view.id == session)

    def find_sessions(
        self, *, is_open: bool | None = None, root: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[SessionView]:
        return session_views(self.store, is_open=is_open, root=root, after=after, limit=limit)

    def get_approval(self, approval: str) -> Approval:
        found = self.store.get_approval(approval)
        if found is None:
            raise NotFound(f"there is no approval {approval} in {self.store.name}")
        return self._runner.blocked.mark(found)

    def find_approvals(
        self, *, pending: bool = True, root: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Approval]:
        self.has_readers = True
        found = self.store.find_approvals(pending=pending, root=root, after=after, limit=limit)
        return [self._runner.blocked.mark(each) for each in found] if self._runner.blocked.known else found

    def rules(self) -> list[Rule]:
        self._runner.journal.catch_up()
        return self._runner.rules.find(self._runner.journal.look())

    def approvals(self) -> AsyncIterator[Approval]:
        self.has_readers = True
        return PendingApprovals(self)

    def watch_inbox(self, after: int | None = None) -> Inbox:
        self.has_readers = True
        return Inbox(self, after)

    def watch(self, session: str, after: int = 0, *, stay: bool = False) -> AsyncIterator[JournalEntry]:
        return SessionJournal(self, self.get_row(session).id, after, stay=stay)

    def last_position(self) -> int:
        return self.store.last_position()

    def journal(self, session: str, after: int = 0) -> list[JournalEntry]:
        return shown(self.store.journal(self.get_row(session).id, after))

    def transcript(self, session: str) -> tuple[Message, ...]:
        return transcript(self.journal(session), runs=0)

    def counts(self) -> Counts:
        return self.store.counts()

    def check(self) -> None:
        self.check_running(None)
        self.store.last_position()

    def watch_activity(self, roots: Collection[str] | None = None) -> Activities:
        return LocalActivities(self._runner, roots)

    def pruning(self, before: datetime) -> Pruning:
        """Return what finds and removes trees that have ended and were silent since an instant."""
        return Pruning(self._runner, before)

    def audit(self) -> list[JournalEntry]:
        rows = self.store.rows(0)
        copied_to = {row.session: row.position for row in rows if isinstance(row.event, e.SessionForked)}
        facts = (row for row in rows if row.position > copied_to.get(row.session, 0))
        return shown(row for row in facts if type(row.event) in AUDITED or _is_retry(row.event))

    def owners(self) -> Sequence[Owner]:
        """Return the living processes that have owned trees of this store."""
        return self.store.owners()


def _is_retry(event: e.AnyEvent) -> bool:
    return isinstance(event, e.RunStarted) and event.again is not None
