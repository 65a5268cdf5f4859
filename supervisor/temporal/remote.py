"""The Supervisor of a namespace: each command is a request to the server, and each read is one of a mirror.

Rules
- A command counts when the server has acknowledged it, whether a worker lives or not.
- A decision is claimed: the workflow `decision~APPROVAL` can be started once, and carries the decision to the tree. So
  of several people one wins, at once. What the tree makes of it is known when a worker has run it. If that takes longer
  than PATIENCE, the result is `recorded`: the approval may have expired, or have been withdrawn, meanwhile.
- What Temporal cannot do, or not yet, is refused by name, before anything is sent.

The module is longer than 400 lines because it is one seam: a short method for each command and each read.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn, TypeVar, overload

import anyio
import msgspec
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError

from supervisor.abc import ActivityWatch, Counts, JournalEntry, Owner, Page, Run, Supervisor, TextWatch, TreeView, Watch
from supervisor.core.agent_spec import AgentSpec, AgentWithoutInput
from supervisor.core.chat_words import ChatResult
from supervisor.core.cursors import make_cursor
from supervisor.core.encoding import printable
from supervisor.core.errors import InvalidInput, NotFound, ServerUnavailable, SessionConflict
from supervisor.core.ids import approval_route, check_session_id, digest, new_session_id
from supervisor.core.rules import Rule, checked
from supervisor.core.store_urls import TemporalStore
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
)
from supervisor.loading import holds_command
from supervisor.runtime.chat import Seen, chat
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.decide import check_decision, lost
from supervisor.runtime.reading.streams import end_streams
from supervisor.system.identity import current_user, find_folder, working_directory
from supervisor.system.inside import Inside
from supervisor.temporal.connection import SOON, border, connect
from supervisor.temporal.mirror import PATIENCE, POLL, Mirror, MirrorStore
from supervisor.temporal.runs import FollowingWatch, TemporalActivityWatch, TemporalRun, TemporalTextWatch
from supervisor.temporal.wire import (
    AGENTS,
    CLAIM,
    MEMO,
    QUEUE,
    ROUTE,
    TREE,
    Command,
    DecisionRequest,
    Start,
    decision_fields,
    decision_id,
    from_wire,
    plain_of,
    raise_error,
    to_wire,
)

R = TypeVar("R")
T = TypeVar("T")

_ROUTE: Final = SearchAttributeKey.for_keyword(ROUTE)
_ONCE: Final = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
"""An id is used once, unless its workflow has failed: the worker has refused what it was to do."""
_SOON: Final = PATIENCE.total_seconds()
_STATUS: Final = {"approve": "approved", "deny": "denied", "answer": "answered"}


@asynccontextmanager
async def opened(store: TemporalStore) -> AsyncIterator[Supervisor]:
    """Open the supervisor of a namespace; see `open_temporal`."""
    client = await connect(store)
    supervisor = TemporalSupervisor(client, store)
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:

        async def follow() -> None:
            nonlocal failure
            try:
                await supervisor.mirror.run()
            except ServerUnavailable as error:
                failure = error
                tasks.cancel_scope.cancel()

        tasks.start_soon(follow)
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
    def __init__(self, client: Client, named: TemporalStore) -> None:
        self.where = str(named)
        self.decided: Counter[str] = Counter()
        self._client = client
        self._named = named
        self._store = MirrorStore(self.where)
        runner = Runner(self._store)
        self.near = LocalSupervisor(runner)
        """The reads of the mirror. It is given no command."""
        self.mirror = Mirror(client, named, self._store, runner.journal)

    def __repr__(self) -> str:
        return f"<supervisor at {self.where}>"

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise InvalidInput(f"{what} is not possible on Temporal: {instead}")

    async def _refuse_inside(self, what: str) -> None:
        await self.mirror.find_workers()
        Inside(self._store).refuse(what)

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
    ) -> Run[Any]:
        who = self._who(by)
        spec = agent if isinstance(agent, AgentSpec) else None
        if spec is None and not isinstance(agent, str):
            raise InvalidInput(f"start takes an agent, or the name of one, not {agent!r}: declare it with @agent")
        if isinstance(agent, str) and holds_command(agent):
            raise InvalidInput(f"{agent!r} holds a command, and start takes the name of an agent of the workers")
        given: Any = msgspec.UNSET
        if args:
            given = plain_of(args[0], "the input") if spec is None else _plain(spec.encode_input(args, {}))
        root = check_session_id(session) if session is not None else new_session_id()
        here = working_directory()
        start = Start(
            agent=agent if isinstance(agent, str) else agent.name,
            given=given,
            session=root,
            cwd=here if cwd is None else find_folder(cwd, here),
            requester=printable(requester) if requester else who,
            by=who,
        )
        mark = digest([start.agent, to_wire(start).get("given", [])])
        is_new = True
        try:
            with border(self._named, maybe_done=True):
                await self._client.start_workflow(
                    TREE,
                    to_wire(start),
                    id=root,
                    task_queue=QUEUE,
                    id_reuse_policy=_ONCE,
                    memo={MEMO: {"pending": [], "left_out": []}, "start": mark, "agent": start.agent},
                    search_attributes=TypedSearchAttributes([SearchAttributePair(_ROUTE, approval_route(root))]),
                    rpc_timeout=SOON,
                )
        except WorkflowAlreadyStartedError:
            is_new = False
            described = await self.mirror.describe(root)
            if (await described.memo()).get("start") != mark:
                raise SessionConflict(
                    f"session {root} belongs to another agent, or was started with another input; choose another id"
                ) from None
        await self._until_accepted(root)
        return TemporalRun(self, root, 1, spec, is_new=is_new)

    async def _until_accepted(self, root: str) -> None:
        """Wait until a worker has begun a tree, or has refused to, for a bounded time: it begins when one lives."""
        with anyio.move_on_after(_SOON):
            while True:
                described = await self.mirror.describe(root)
                if described.status == WorkflowExecutionStatus.FAILED:
                    await self._raise_failure(root)
                try:
                    await self.mirror.read(root)
                except ServerUnavailable:
                    pass
                else:
                    if self._store.get_session(root) is not None:
                        return
                await anyio.sleep(POLL / 4)

    async def _raise_failure(self, root: str) -> None:
        try:
            await self._client.get_workflow_handle(root).result(rpc_timeout=SOON)
        except WorkflowFailureError as error:
            raise_error(_failure(error))

    async def begun(self, session: str) -> str:
        """Wait until a worker has begun a session's tree, however long it takes. Return the root."""
        while True:
            try:
                root = await self.read(session)
            except ServerUnavailable:
                await anyio.sleep(POLL)
                continue
            if self._store.get_session(session) is not None:
                return root
            if (await self.mirror.describe(root)).status == WorkflowExecutionStatus.FAILED:
                await self._raise_failure(root)
            await anyio.sleep(POLL)

    async def resume(self, session: str, *, by: str | None = None) -> Run[Any]:
        """Return the latest run of the session's root: workers run every open tree by themselves."""
        return await self.get_run(await self.read(session))

    async def resume_all(self, *, by: str | None = None) -> list[Run[Any]]:
        """Return the runs of all open roots: workers run them by themselves."""
        found = await self.find_sessions(is_open=True, limit=None)
        return [await self.get_run(each.id) for each in found if each.parent is None]

    async def decide(self, approval: str, decision: Decision, *, channel: str | None = None) -> DecisionResult:
        await self._refuse_inside("deciding")
        check_identity(decision.by)
        result = await self._decide(approval, decision, channel)
        self.decided[result.kind] += 1
        return result

    async def _decide(self, approval: str, decision: Decision, channel: str | None) -> DecisionResult:
        root = await self._root_of_approval(approval)
        if root is None:
            return DecisionResult(kind="unknown", approval=approval)
        pending = await self._find_in_memo(root, approval)
        if pending is None:
            return await self._lost(root, approval, decision)
        if getattr(decision, "scope", "once") == "always":
            self._refuse("a rule for every session", "approve it with the scope `session`, or declare rules in code")
        check_decision(pending, decision)
        now = datetime.now(UTC)
        if pending.expires_at is not None and pending.expires_at <= now:
            return DecisionResult(kind="closed", approval=approval, status="expired")
        request = DecisionRequest(
            approval=approval,
            root=root,
            at=now.isoformat(),
            channel=channel,
            **{**decision_fields(decision), "by": printable(decision.by)},
        )
        try:
            with border(self._named, maybe_done=True):
                claim = await self._client.start_workflow(
                    CLAIM,
                    to_wire(request),
                    id=decision_id(approval),
                    task_queue=QUEUE,
                    id_reuse_policy=_ONCE,
                    memo={"decision": to_wire(request)},
                    rpc_timeout=SOON,
                )
        except WorkflowAlreadyStartedError:
            return await self._lost_claim(root, approval, decision)
        with anyio.move_on_after(_SOON):
            try:
                return from_wire(await claim.result(), DecisionResult)
            except WorkflowFailureError as error:
                raise_error(_failure(error))
            except RPCError:
                pass  # the claim counts
        return self._recorded(request)

    def _recorded(self, request: DecisionRequest) -> DecisionResult:
        return DecisionResult(
            kind="recorded",
            approval=request.approval,
            status=_STATUS[request.kind],  # type: ignore[arg-type] # the values of a constant
            by=request.by,
            decided_at=datetime.fromisoformat(request.at),
        )

    async def _lost_claim(self, root: str, approval: str, decision: Decision) -> DecisionResult:
        """Return the result of a decision on an approval that another decision has claimed."""
        with border(self._named):
            described = await self._client.get_workflow_handle(decision_id(approval)).describe(rpc_timeout=SOON)
        claimed = (await described.memo())["decision"]
        if claimed["kind"] == "expired":
            return DecisionResult(kind="closed", approval=approval, status="expired")
        winner = from_wire(claimed, DecisionRequest)
        mine = DecisionRequest(approval=approval, root=root, at=winner.at, **decision_fields(decision))
        about = ("kind", "arguments", "scope", "pattern", "value")
        is_same = all(getattr(winner, name) == getattr(mine, name) for name in about)
        try:
            await self.mirror.read(root)
        except ServerUnavailable:
            pass
        else:
            found = self._store.get_approval(approval)
            if found is not None and found.status != "pending":
                return lost(self._store, approval, decision)
        stands = self._recorded(winner)
        return msgspec.structs.replace(stands, kind="already" if is_same else "conflict")

    async def _lost(self, root: str, approval: str, decision: Decision) -> DecisionResult:
        """Return the result of a decision on an approval that is not pending any more, or that its tree never asked."""
        try:
            await self.mirror.read(root)
        except ServerUnavailable:
            return await self._lost_claim(root, approval, decision)
        return lost(self._store, approval, decision)

    async def _root_of_approval(self, approval: str) -> str | None:
        """Return the tree in which an approval may have been asked, by the beginning of its id."""
        for root, row in ((each.root, each) for each in self._store.find_sessions()):
            if row.parent is None and approval.startswith(approval_route(root)):
                return root
        route = approval[: len(approval_route(""))]
        if not route.isalnum():
            return None
        with border(self._named):
            async for each in self._client.list_workflows(f'{ROUTE} = "{route}"'):
                return each.id
        return None

    async def _find_in_memo(self, root: str, approval: str) -> Approval | None:
        """Return an approval that is pending, as the server knows it without a worker."""
        described = await self.mirror.describe(root)
        memo = (await described.memo())[MEMO]
        if described.status != WorkflowExecutionStatus.RUNNING:
            return None
        for each in memo["pending"]:
            if each["id"] == approval:
                return from_wire(each, Approval)
        if approval in memo["left_out"]:
            await self.mirror.read(root)
            found = self._store.get_approval(approval)
            return found if found is not None and found.status == "pending" else None
        return None

    async def note_refusal(self, approval: str, *, by: str, reason: str, channel: str | None = None) -> None:
        self._refuse("noting a refusal", "channels and their people do not serve a namespace yet")

    async def note_shown(self, session: str, mark: str, *, channel: str) -> None:
        self._refuse("noting what a channel has shown", "channels and their people do not serve a namespace yet")

    async def cancel(self, session: str, *, reason: str | None = None, by: str | None = None) -> None:
        root = await self._find_root(session)
        if await self._is_open(root):
            await self._command(root, "cancel", session, self._who(by), reason)

    async def send(self, session: str, text: str, *, by: str | None = None) -> SendResult:
        await self._refuse_inside("sending")
        root, who = await self._find_root(session), printable(check_identity(self._who(by)))
        if not await self._is_open(root):
            self._refuse("a turn after the end of a session", "start a new session")
        command, answer = await self._command(root, "send", session, who, printable(text))
        if answer is None:
            return SendResult(kind="kept", message=command, session=session, running=False)
        return from_wire(answer, SendResult)

    async def _is_open(self, root: str) -> bool:
        return bool((await self.mirror.describe(root)).status == WorkflowExecutionStatus.RUNNING)

    async def _command(
        self, root: str, kind: Any, session: str, by: str, text: str | None = None, rule: Rule | None = None
    ) -> tuple[str, Any]:
        """Send a command to a tree. Return its id, and what the tree answers; None if no worker answers in time."""
        command = Command(id=new_session_id(), kind=kind, session=session, by=by, text=text, rule=rule)
        with border(self._named, maybe_done=True):
            await self._client.get_workflow_handle(root).signal("command", to_wire(command), rpc_timeout=SOON)
        with anyio.move_on_after(_SOON):
            while True:
                try:
                    found: Any = await self.mirror.query(root, "answer", command.id, Any)
                except ServerUnavailable:
                    found = None
                if found is not None:
                    if isinstance(found["answer"], dict) and "error" in found["answer"]:
                        raise_error(found["answer"])
                    return command.id, found["answer"]
                await anyio.sleep(POLL / 4)
        return command.id, None

    async def add_rule(self, rule: Rule, *, by: str | None = None) -> Rule:
        await self._refuse_inside("changing rules")
        if rule.session is None:
            self._refuse("a rule for every session", "name a session, or declare rules in code")
        root = await self._find_root(rule.session)
        _, answer = await self._command(root, "add_rule", root, self._who(by), rule=checked(rule))
        return rule if answer is None else from_wire(answer, Rule)

    async def revoke_rule(self, rule: str, *, by: str | None = None) -> Rule:
        await self._refuse_inside("changing rules")
        known = next((each for each in await self.find_rules() if each.id == rule), None)
        if known is None or known.session is None:
            raise NotFound(f"there is no rule {rule} in {self.where}")
        await self._command(known.session, "revoke_rule", known.session, self._who(by), rule)
        return known

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
        seen = Seen(shown_before if shown_before is not None else datetime.now(UTC), channel, shown)
        return await chat(self, None, session, text, check_identity(self._who(by)), seen)

    async def retry(self, session: str, *, by: str | None = None) -> Run[Any]:
        self._refuse("a retry", "start a new session")

    async def fork(
        self, session: str, *, before: int, new: str | None = None, version: str | None = None, by: str | None = None
    ) -> Fork:
        self._refuse("a fork", "start a new session")

    def _who(self, by: str | None) -> str:
        return current_user() if by is None else by

    # -- reading: what is new is read into the mirror, and then the mirror is read -------------------------------------

    async def read(self, session: str) -> str:
        """Read what is new in a session's tree. Return its root. Raises NotFound."""
        root = await self._find_root(session)
        await self.mirror.read(root)
        return root

    async def _find_root(self, session: str) -> str:
        row = self._store.get_session(session)
        if row is not None:
            return row.root
        try:
            await self.mirror.describe(session)
        except NotFound:
            await self.mirror.read_all()
            row = self._store.get_session(session)
            if row is None:
                raise NotFound(f"there is no session {session} in {self.where}") from None
            return row.root
        return session

    @overload
    async def get_run(self, session: str, *, number: int | None = None, agent: None = None) -> Run[Any]: ...
    @overload
    async def get_run(self, session: str, *, number: int | None = None, agent: AgentSpec[..., R]) -> Run[R]: ...
    async def get_run(
        self, session: str, *, number: int | None = None, agent: AgentSpec[..., Any] | None = None
    ) -> Run[Any]:
        await self.read(session)
        found: Run[Any] = await self.near.get_run(session, number=number)
        return TemporalRun(self, session, found.number, agent)

    async def get_session(self, session: str) -> SessionView:
        """See Supervisor. While no worker answers, a root is known as far as the server knows it."""
        await self.mirror.find_workers()
        try:
            await self.read(session)
        except ServerUnavailable:
            return await self._view_of(session)
        return await self.near.get_session(session)

    async def _view_of(self, root: str) -> SessionView:
        """Return a root as the server knows it without a worker."""
        described = await self.mirror.describe(root)
        memo = await described.memo()
        outcome: dict[str, Any] | None = None
        if described.status == WorkflowExecutionStatus.COMPLETED:
            found = await self._client.get_workflow_handle(root).result(rpc_timeout=SOON)
            outcome = {key: found[key] for key in ("kind", "value", "cause")}
        pending = tuple(from_wire(each, Approval) for each in memo[MEMO]["pending"])
        is_done = outcome is not None and outcome["kind"] in ("succeeded", "cancelled")
        status: SessionStatus = "waiting_approval" if pending else "active"
        if described.status != WorkflowExecutionStatus.RUNNING:
            status = "completed" if is_done else "error"
        return SessionView(
            id=root,
            parent=None,
            root=root,
            agent=memo["agent"],
            path=(memo["agent"],),
            status=status,
            outcome=outcome,
            pending_approvals=pending if described.status == WorkflowExecutionStatus.RUNNING else (),
            created_at=described.start_time,
            ended_at=described.close_time,
        )

    async def get_tree(self, session: str, *, entries: int | None = 5000) -> TreeView:
        await self.read(session)
        return await self.near.get_tree(session, entries=entries)

    async def get_approval(self, approval: str) -> Approval:
        root = await self._root_of_approval(approval)
        if root is None:
            raise NotFound(f"there is no approval {approval} in {self.where}")
        try:
            await self.mirror.read(root)
        except ServerUnavailable:
            found = await self._find_in_memo(root, approval)
            if found is None:
                raise
            return _offered(found)
        return _offered(await self.near.get_approval(approval))

    async def get_transcript(self, session: str) -> tuple[Message, ...]:
        await self.read(session)
        return await self.near.get_transcript(session)

    async def get_counts(self) -> Counts:
        await self.mirror.read_all()
        return await self.near.get_counts()

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
        await self.mirror.read_all()
        return await self.near.find_sessions(
            is_open=is_open,
            status=status,
            agent=agent,
            root=root,
            newest_first=newest_first,
            after=after,
            limit=limit,
        )

    async def find_approvals(
        self, *, pending: bool = True, session: str | None = None, after: str | None = None, limit: int | None = 100
    ) -> Page[Approval]:
        """See Supervisor. While no worker lives, what is pending is read from the server alone, without cursors."""
        try:
            if session is None:
                await self.mirror.read_all()
            else:
                await self.read(session)
        except ServerUnavailable:
            found = await self.mirror.find_pending() if pending and after is None else []
            here = tuple(each for each in found if session in (None, each.session, each.root_session))
            if not here:
                raise
            return Page(tuple(map(_offered, here[:limit])), None, make_cursor(self._store.id, 0))
        page = await self.near.find_approvals(pending=pending, session=session, after=after, limit=limit)
        return Page(tuple(map(_offered, page)), page.next, page.cursor)

    async def find_entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = 1000
    ) -> Page[JournalEntry]:
        await self.read(session)
        return await self.near.find_entries(session, tree=tree, after=after, limit=limit)

    async def find_audit(self, *, after: str | None = None, limit: int | None = 1000) -> Page[JournalEntry]:
        await self.mirror.read_all()
        return await self.near.find_audit(after=after, limit=limit)

    async def find_rules(self) -> Page[Rule]:
        """Return the rules of all open trees: a rule ends with its tree."""
        await self.mirror.read_all()
        opened = {row.id for row in self._store.find_sessions(is_open=True)}
        return self._whole(each for each in await self.near.find_rules() if each.session in opened)

    async def find_agents(self) -> Page[AgentView]:
        """Return the agents of the worker that answers. Raises ServerUnavailable if none does."""
        with border(self._named):
            asked = await self._client.start_workflow(
                AGENTS,
                id=f"agents~{new_session_id()}",
                task_queue=QUEUE,
                execution_timeout=timedelta(seconds=2 * _SOON),
                rpc_timeout=SOON,
            )
        found: Any = None
        with anyio.move_on_after(_SOON):
            found = await asked.result()
        if found is None:
            raise ServerUnavailable(
                f"no worker answers; start one: supervisor worker --store {self.where} FILE.py", maybe_done=False
            )
        return self._whole(from_wire(each, AgentView) for each in found)

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

        return FollowingWatch(self, session, opened)

    def watch_inbox(self, *, session: str | None = None, after: str | None = None) -> Watch[Approval]:
        return self._follow(session, lambda: self.near.watch_inbox(session=session, after=after))

    def watch_approvals(self, *, session: str | None = None) -> Watch[Approval]:
        return self._follow(session, lambda: self.near.watch_approvals(session=session))

    def watch_session(self, session: str, *, after: str | None = None, stay: bool = False) -> Watch[JournalEntry]:
        return self._follow(session, lambda: self.near.watch_session(session, after=after, stay=stay))

    def watch_activity(self, session: str | None = None) -> ActivityWatch:
        return TemporalActivityWatch(self, session)

    def watch_text(self, session: str) -> TextWatch:
        return TemporalTextWatch(self, session)


def _offered(approval: Approval) -> Approval:
    """Return an approval with the options that there are on Temporal: no rule holds for every session."""
    return msgspec.structs.replace(approval, options=tuple(each for each in approval.options if each.scope != "always"))


def _plain(raw: msgspec.Raw) -> Any:
    return plain_of(msgspec.json.decode(raw), "the input")


def _failure(error: WorkflowFailureError) -> dict[str, str]:
    """Return the error with which a workflow of ours has failed, in the form in which workers answer."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return {"error": cause.type or "ServerError", "text": cause.message}
    return {"error": "ServerError", "text": f"the workflow ended: {cause}"}
