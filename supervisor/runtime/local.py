"""The Supervisor on one machine: commands go down to the journal by plans, what follows is the runner's.

Rules
- Opening runs and owns nothing. `start` and `resume` own trees; everything else is recorded, whoever runs the tree.
- A decision and a cancel count when they are committed, and nobody is told so before (A1).
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, overload

import msgspec

from supervisor.abc import Owner, Row, Run, SessionRow, Store, Supervisor
from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.encoding import JSON_NULL, printable, to_json
from supervisor.core.errors import InvalidInput, NotFound, SessionConflict, StoreDied, SupervisorError
from supervisor.core.ids import check_session_id, new_session_id
from supervisor.core.values import (
    Approval,
    Approve,
    Decision,
    Message,
    Outcome,
    Receipt,
    SessionView,
    Verdict,
    check_identity,
)
from supervisor.runtime.adoption import take_trees
from supervisor.runtime.agents import locate
from supervisor.runtime.children import first_events
from supervisor.runtime.ending import cancel_events
from supervisor.runtime.identity import current_user, working_directory
from supervisor.runtime.importing import Import, Origin
from supervisor.runtime.journal import Entry, View
from supervisor.runtime.messages import transcript
from supervisor.runtime.runner import Runner
from supervisor.runtime.runs import LocalRun
from supervisor.runtime.streams import Inbox, PendingApprovals, SessionJournal
from supervisor.runtime.turns import check_may_send, turn
from supervisor.runtime.views import session_views

R = TypeVar("R")
T = TypeVar("T")

AUDITED = (
    e.ToolCallRequested,
    e.ApprovalDecided,
    e.ApprovalWithdrawn,
    e.CardPosted,
    e.CardFailed,
    e.CardRetired,
    e.ToolCallStarted,
    e.ToolCallFinished,
    e.JobStarted,
    e.JobEnded,
    e.CancelRequested,
)
"""Who asked, who was shown what, who decided what, and what then ran (A15)."""


class LocalSupervisor(Supervisor):
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.store: Store = runner.journal.store
        self.hub = runner.hub
        self.has_readers = False
        """Whether this program has looked at approvals: then somebody may answer even where no channel is (A6)."""
        self.is_left = False
        """Whether the store is about to be closed: nothing can be read from it any more."""
        self.awaited: Counter[str] = Counter()
        """Roots of the trees whose outcomes this program waits for now."""
        self.began_to_wait: Callable[[str], None] = lambda root: None

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
        root = check_session_id(session) if session is not None else new_session_id()
        reference, _ = locate(agent)
        has_begun: list[str] = []

        def plan(view: View) -> list[Entry]:
            has_begun.clear()
            known = view.find_session(root)
            if known is not None:
                if known.origin is not None:
                    raise SessionConflict(f"session {root} was imported; to go on with it, send a message to it")
                self._check_same(root, known.facts, known.first_input, reference, given)
                if known.is_open or view.store.get_owner(root) is None:  # at rest, too: a message may begin a turn
                    view.claim(root)
                return []
            view.claim(root)
            has_begun.append(root)
            self._runner.expect(root)
            by = printable(requester or current_user())
            now, cwd = self._runner.clock.now(), working_directory()
            facts = {"path": (agent.name,), "root": root, "requester": by, "cwd": cwd, "rules": agent.rules}
            first = first_events(agent, given, now, **facts)
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
        return LocalRun(self, root, agent, 1)  # what was started; turns that followed are runs of their own

    def _check_same(
        self, root: str, facts: e.SessionCreated, known_input: msgspec.Raw, reference: str, given: msgspec.Raw
    ) -> None:
        if facts.parent is not None:
            raise SessionConflict(f"session {root} is a sub-agent's; choose another id")
        if facts.agent != reference:
            raise SessionConflict(f"session {root} belongs to agent {facts.agent}, not {reference}; choose another id")
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

        taken = await take_trees(self._runner, roots, only_one=session is not None)
        return [self.get_run(root) for root in taken]

    async def decide(self, approval: str, decision: Decision) -> Verdict:
        by = printable(check_identity(decision.by))
        self.has_readers = True
        found = self.store.get_approval(approval)
        if found is None:
            return Verdict(kind="unknown", approval=approval)
        edited = _check_edit(found, decision.arguments) if isinstance(decision, Approve) else None
        kind = "approve" if isinstance(decision, Approve) else "deny"
        won: list[e.ApprovalDecided] = []

        def plan(view: View) -> list[Entry]:
            won.clear()
            record = view.session(found.session).operations.get(found.operation)
            if record is None or record.pending_approval != approval:
                return []
            event = e.ApprovalDecided(
                at=self._runner.clock.now(),
                operation=found.operation,
                approval=approval,
                decision="approve" if kind == "approve" else "deny",
                by=by,
                reason=printable(decision.reason) if not isinstance(decision, Approve) and decision.reason else None,
                arguments=JSON_NULL if edited is None else edited,
            )
            won.append(event)
            return [(found.session, event), *self._runner.follow(view.session(found.session), event)]

        await self._runner.journal.append(plan)
        root = found.root_session
        running = self.store.owns(root) or self.store.get_owner(root) is not None
        if won:
            status: Literal["approved", "denied"] = "approved" if kind == "approve" else "denied"
            at = won[0].at
            return Verdict(kind="won", approval=approval, status=status, by=by, decided_at=at, running=running)
        now = self.store.get_approval(approval)
        assert now is not None
        return _verdict(now, kind, edited, running=running)

    async def send(self, session: str, text: str, by: str | None = None) -> Receipt:
        who = printable(check_identity(by if by is not None else current_user()))
        root = self.get_row(session).root
        message, kinds = new_session_id(), list[Literal["delivered", "kept", "begun"]]()

        def plan(view: View) -> list[Entry]:
            state = view.session(session)
            check_may_send(state)
            now = self._runner.clock.now()
            received = e.MessageReceived(at=now, message=message, text=printable(text), by=who)
            if state.is_open:
                is_awaited = e.MESSAGE in (state.waiting_for or self._runner.waits_of(session))
                kinds[:] = ["delivered" if is_awaited else "kept"]
                return [(session, received)]
            oldest = next(iter(state.inbox.values()), received)  # of a run that was cancelled, where there is another
            kinds[:] = ["begun" if oldest is received else "kept"]
            return [(session, received), (session, turn(oldest, now))]

        await self._runner.journal.append(plan)
        pending = () if kinds[0] == "begun" else tuple(self.get_session(session).pending_approvals)
        running = self.store.get_owner(root) is not None
        return Receipt(kind=kinds[0], message=message, session=session, waiting_for=pending, running=running)

    def importing(self, session: str, origin: Origin, agent: AgentSpec[Any, Any] | None) -> Import:
        """Return an import of a session that took place elsewhere, to be entered. Raises InvalidInput."""
        return Import(self._runner, session, origin, agent)

    async def cancel(self, session: str, reason: str | None = None, by: str | None = None) -> None:
        who = check_identity(by if by is not None else current_user())
        root = self.get_row(session).root

        def plan(view: View) -> list[Entry]:
            if not view.session(session).is_open:
                return []
            if view.store.get_owner(root) is None:
                view.claim(root)
            return list(cancel_events(view, session, who, reason, self._runner.clock.now()))

        await self._runner.journal.append(plan)
        if self.store.owns(root) and session not in self._runner.live:
            await self._runner.end_tree(session)

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def outcome(self, session: str) -> Outcome[Any]:
        return await self.get_run(session).outcome()

    @contextmanager
    def awaiting(self, session: str) -> Iterator[None]:
        """Note that this program waits for an outcome of this tree."""
        root = self.root_of(session)
        self.awaited[root] += 1
        self.began_to_wait(root)
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
        refusals = self._runner.refusals
        if session is None or not refusals:
            return
        refused = refusals.get(session) or refusals.get(self.root_of(session))
        if refused is not None:
            raise SupervisorError(f"session {session} is not running: {refused}; nothing is lost, resume it afterwards")

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why sessions that this process was asked to run are not running."""
        return self._runner.refusals

    async def wait_until_it_dies(self) -> None:
        """Wait for as long as the store can be trusted. Raises StoreDied."""
        await self._runner.wait_until(lambda: self._runner.journal.death is not None)
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

    def is_running(self, session: str, number: int) -> bool:
        """Whether this process knows, without reading, that a run of a session has not ended."""
        live = self._runner.journal.states.get(session)
        return live is not None and live.runs == number and live.is_open

    def get_run(self, session: str) -> Run[Any]:
        """Return the latest run of a session. Raises NotFound."""
        live = self._runner.journal.states.get(session)
        number = live.runs if live is not None else self._count_runs(self.get_row(session).id)
        return LocalRun(self, session, None, number)

    def _count_runs(self, session: str) -> int:
        return sum(isinstance(row.event, e.RunStarted | e.ImportStarted) for row in self.store.journal(session))

    def is_below(self, session: str, top: str | None) -> bool:
        """Whether `session` is `top` or somewhere below it."""
        row = self.store.get_session(session)
        while row is not None and row.id != top:
            row = self.store.get_session(row.parent) if row.parent is not None else None
        return row is not None

    def get_session(self, session: str) -> SessionView:
        root = self.get_row(session).root
        return next(view for view in session_views(self.store, root=root) if view.id == session)

    def find_sessions(self, *, is_open: bool | None = None) -> list[SessionView]:
        return session_views(self.store, is_open=is_open)

    def get_approval(self, approval: str) -> Approval:
        found = self.store.get_approval(approval)
        if found is None:
            raise NotFound(f"there is no approval {approval} in {self.store.name}")
        return found

    def find_approvals(self, *, pending: bool = True) -> list[Approval]:
        self.has_readers = True
        return self.store.find_approvals(pending=pending)

    def approvals(self) -> AsyncIterator[Approval]:
        self.has_readers = True
        return PendingApprovals(self)

    def watch_inbox(self, after: int | None = None) -> Inbox:
        self.has_readers = True
        return Inbox(self, after)

    def watch(self, session: str, after: int = 0, *, stay: bool = False) -> AsyncIterator[Row]:
        return SessionJournal(self, self.get_row(session).id, after, stay=stay)

    def journal(self, session: str, after: int = 0) -> list[Row]:
        return self.store.journal(self.get_row(session).id, after)

    def transcript(self, session: str) -> tuple[Message, ...]:
        return transcript(self.journal(session), runs=0)

    def check(self) -> None:
        self.check_running(None)
        self.store.last_position()

    def audit(self) -> list[Row]:
        return [row for row in self.store.rows(0) if isinstance(row.event, AUDITED)]

    def owners(self) -> Sequence[Owner]:
        """Return the living processes that have owned trees of this store."""
        return self.store.owners()


def _check_edit(approval: Approval, arguments: Mapping[str, Any] | None) -> msgspec.Raw | None:
    """Encode edited arguments; raises InvalidInput unless they are the whole object that the tool takes (A8).

    Names are checked here, types again by the process that runs the call: the tool may not be importable in this one.
    """
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        raise InvalidInput("edited arguments are a JSON object: all of the call's arguments, not a patch")
    asked, given = set(approval.arguments), set(arguments)
    if asked != given:
        problems = [f"{name} is missing" for name in sorted(asked - given)]
        problems += [f"{name} is not an argument of {approval.tool}" for name in sorted(given - asked)]
        raise InvalidInput(f"edited arguments replace all of the call's arguments: {', '.join(problems)}")
    return to_json(dict(arguments), "an edited argument")


def _verdict(now: Approval, kind: str, edited: msgspec.Raw | None, *, running: bool) -> Verdict:
    """Say what a decision came to that did not win, by what is on disk after it."""
    return Verdict(
        kind=_kind(now, kind, edited),
        approval=now.id,
        status=now.status,
        by=now.by,
        decided_at=now.decided_at,
        running=running,
    )


def _kind(now: Approval, kind: str, edited: msgspec.Raw | None) -> Literal["same", "conflict", "gone"]:
    if now.status in ("withdrawn", "expired"):
        return "gone"
    asked = now.arguments if edited is None else msgspec.json.decode(edited)
    return "same" if now.decision == kind and (kind == "deny" or now.arguments == asked) else "conflict"
