"""The mirror: an ordinary store (mirror_store.py), filled with what the workflows of a namespace have journaled.

All reads and watches of a client are those of the runtime (supervisor/runtime/reading), over this store: to them, the
workflows are another process that writes into it.

Rules
- An entry is read from a workflow once. A tree is read again as long as it is open, and once more after its end.
- A tree that Temporal has ended is ended here, too (ended.py). What no worker can read of it any more is left out.
- A workflow answers only through a worker. Where none answers, ServerUnavailable says how to start one.
- The position of an entry is this client's. Another client's store has another id, so it refuses its cursors.
- A server follows every tree (`follow_all`). One list of the open trees in each round tells which are new, and which
  ask something else than before, and which are open no more. These are read at once; the others by and by, after
  SELDOM at the latest. Its reads take what is there, also while no worker answers.

The module is longer than 400 lines because reading trees and following them share the locks and the plan of the looks.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import anyio
import msgspec
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from supervisor.abc import Owner
from supervisor.core.errors import (
    LimitExceeded,
    NotFound,
    ServerError,
    ServerUnavailable,
    StoreDied,
    StoreError,
    SupervisorError,
)
from supervisor.core.store_urls import TemporalStore
from supervisor.core.values import Approval
from supervisor.logs import FactLog
from supervisor.runtime.journal.writer import Journal
from supervisor.temporal.carry import rows_of
from supervisor.temporal.connection import SOON, border, is_broken, is_no_workflow, is_not_ready
from supervisor.temporal.left import read_left
from supervisor.temporal.mirror.ended import ENDED, end_of, why_ended
from supervisor.temporal.mirror.store import Feed, MirrorFile, MirrorStore, Reached, Row
from supervisor.temporal.wire import (
    MEMO,
    MISSING,
    NO_AGENT,
    PENDING,
    QUEUE,
    TREE,
    UNSTARTED,
    Entries,
    from_wire,
    refusal_id,
)

T = TypeVar("T")

log = FactLog(__name__)

POLL: Final = 0.2
"""Seconds between two looks at the trees that are watched."""
AT_ONCE: Final = 20
"""Trees that are read at the same time."""
PATIENCE: Final = timedelta(seconds=5)
"""How long a worker may take to answer for a tree: another one is asked after 2 s (worker.py)."""
SEEN: Final = timedelta(seconds=70)
"""A worker asks for work at least once a minute: one that did not counts as gone."""
SELDOM: Final = 30.0
"""Seconds between two looks at a tree that waits, if nothing says that it goes on."""
LATE: Final = timedelta(seconds=60)
"""How late the server may list a tree that has ended."""
WORKERS_SEEN: Final = 5.0
"""Seconds between two looks at the workers."""
GIVE_UP: Final = 60.0
"""Seconds for which a lost server is waited for."""
FIRST_TASK: Final = 10
"""The events that a tree has at most whose first task has failed, and that are read of a history, newest first."""
_OPEN: Final = WorkflowExecutionStatus.RUNNING
_SHOWN: Final = (_OPEN, WorkflowExecutionStatus.COMPLETED, *ENDED)


class _NotReplayed(ServerUnavailable):
    """The code of the workers does not follow the history of a workflow, or could not run it."""


class _Look:
    """When a tree is read next: soon while it goes on, and seldom while it waits."""

    def __init__(self) -> None:
        self.wait = 0.0
        self.due_at = 0.0
        self.asked: Any = None
        """What its memo said at the last look."""

    def plan(self, *, had_news: bool) -> None:
        self.wait = POLL if had_news else min(SELDOM, max(POLL, 2 * self.wait))
        self.due_at = anyio.current_time() + self.wait


LEFT_OUT: Final = "they are too large to be read without a worker: start one"


class Mirror:
    """Reads trees into a store, and follows those that are watched."""

    def __init__(
        self, client: Client, named: TemporalStore, store: MirrorStore | MirrorFile, feed: Feed, journal: Journal
    ) -> None:
        self._client = client
        self._named = named
        self._store = store
        self._feed = feed
        self._journal = journal
        self._locks: dict[str, anyio.Lock] = {}
        """By root: held while its tree is read."""
        self._followed: Counter[str | None] = Counter()
        self._wanted = anyio.Event()
        self._looks: dict[str, _Look] = {}
        self._ended: dict[str, str] = {}
        """Roots of trees that have ended, and were not read since, with the runs that have."""
        self._seen_at: datetime | None = None
        """Of the trees that ended before, all are known here."""
        self._is_followed = False
        self._workers_at = 0.0
        self.unread: dict[str, Any] = {}
        """Roots of trees that the workers could not read when all were read, with their memos."""

    # -- reading -----------------------------------------------------------------------------------------------------

    async def read(self, root: str) -> None:
        """Read what is new in a tree. Raises NotFound if the namespace has no such tree (any more), and
        ServerUnavailable if no worker answers, unless every tree is followed and this one is known."""
        try:
            await self._read_on(root)
        except (ServerUnavailable, NotFound):
            if not self._is_followed or self._store.get_session(root) is None:
                raise
        self._journal.catch_up()

    async def read_all(self) -> None:
        """Read what is new in every tree, unless every tree is followed. A tree whose history the workers cannot
        follow is logged, and left out (`unread`). Raises ServerUnavailable if no worker answers."""
        if self._is_followed:
            return
        await self.find_workers()
        newest, unread = dict[str, tuple[str, Any]](), dict[str, Any]()
        async for root, run, is_open, memo in self._trees(""):
            newest.setdefault(root, (run, memo if is_open else None))
        wanted = [root for root, (run, _) in newest.items() if not self._is_read(root, run)]
        for root, error in (await self._read_in_order(wanted[::-1])).items():  # listed newest first
            unread[root] = newest[root][1]
            if root not in self.unread:
                log.warning("tree.not_read", root=root, reason=str(error))
        self.unread = unread
        self._journal.catch_up()

    async def _read_in_order(self, roots: Sequence[str]) -> dict[str, _NotReplayed]:
        """Read trees at the same time, and take their entries in the order given, so that lists begin with the oldest.
        Return those whose history the workers cannot follow. A tree that was removed meanwhile is left out."""
        limit = anyio.CapacityLimiter(AT_ONCE)
        left_out, failed = dict[str, _NotReplayed](), list[SupervisorError]()

        async def read(root: str, turn: anyio.Event | None, done: anyio.Event) -> None:
            try:
                await self._read_on(root, turn)
            except _NotReplayed as error:
                left_out[root] = error
            except NotFound:
                pass
            except SupervisorError as error:
                failed.append(error)
                tasks.cancel_scope.cancel()
            finally:
                done.set()
                limit.release_on_behalf_of(done)

        async with anyio.create_task_group() as tasks:
            turn: anyio.Event | None = None
            for root in roots:
                done = anyio.Event()
                await limit.acquire_on_behalf_of(done)
                tasks.start_soon(read, root, turn, done)
                turn = done
        if failed:
            raise failed[0]
        return left_out

    def _is_read(self, root: str, run: str) -> bool:
        """Return whether a run of a tree has ended and was read since."""
        reached = self._feed.reached(root)
        return reached.is_closed and reached.run == run

    async def _trees(self, only: str) -> AsyncIterator[tuple[str, str, bool, Any]]:
        """Yield root, run, whether it is open, and the memo of trees, the newest run first: one that went on after its
        end has several."""
        with border(self._named):
            async for each in self._client.list_workflows(f'WorkflowType = "{TREE}"{only}'):
                if each.status in _SHOWN:
                    yield each.id, each.run_id, each.status == _OPEN, (await each.memo()).get(MEMO)

    async def _read_on(self, root: str, turn: anyio.Event | None = None) -> bool:
        """Read what is new in a tree. Return whether there was something. `turn`: taken only after this."""
        lock = self._locks.setdefault(root, anyio.Lock())
        try:
            async with lock:
                return await self._read_alone(root, turn)
        finally:
            if not lock.locked() and self._locks.get(root) is lock:  # else a task that has waited for it has it now
                del self._locks[root]

    async def _read_alone(self, root: str, turn: anyio.Event | None) -> bool:
        described = await self.describe(root)
        is_open, had_news = described.status == _OPEN, False
        if self._is_read(root, described.run_id):
            self._forget(root)
            return False
        with self._border(root):
            cause = await why_ended(self._client, described)
        after = self._feed.reached(root).position
        while True:
            try:
                found = await self._find(described, after, cause)
            except ServerUnavailable:
                if not is_open or (await self.describe(root)).status == _OPEN:
                    raise
                return await self._read_alone(root, turn)  # it has ended meanwhile
            if turn is not None:
                await turn.wait()
            if found.rows:
                after, had_news = found.rows[-1][0], True
                rows = [(session, body) for _, session, body in found.rows]
                await self._feed.add(root, rows, Reached(described.run_id, after, is_closed=False))
            if after >= found.last:
                break
        if is_open:
            return had_news
        last = list[Row]()
        if cause is not None and after:
            self._journal.catch_up()
            last = end_of(self._store, root, cause, described.close_time)
        await self._feed.add(root, last, Reached(described.run_id, after, is_closed=True))
        self._forget(root)
        return had_news or bool(last)

    async def _find(self, described: Any, after: int, cause: str | None) -> Entries:
        """Return entries of a tree after a position. `cause`: how Temporal has ended it."""
        if described.status == _OPEN:
            return await self._entries_of_open(described, after)
        if described.status in ENDED:
            return await self._entries_of_ended(described.id, after, cause)
        return await self._entries_at_end(described, after)

    async def _entries_of_open(self, described: Any, after: int) -> Entries:
        try:
            return await self._entries(described.id, after)
        except ServerUnavailable:
            if not await self.is_left(described):
                raise
            if await self._is_refused(described):  # it never begins: no session is there
                return Entries(rows=[], last=0)
            text = f"session {described.id} waits for a worker that has its agent"  # it hides no other tree
            raise _NotReplayed(text, maybe_done=False) from None

    async def is_left(self, described: Any) -> bool:
        """Return whether no worker has begun a tree, and one has left it to another one: it lacks the agent."""
        if described.status != _OPEN or described.history_length > FIRST_TASK:
            return False
        has_begun, lacked = await self._latest_task(described)
        return not has_begun and lacked is not None

    async def why_left(self, root: str) -> str | None:
        """Return what the worker lacked that has left a tree to another one; None if none has, or one went on then."""
        return (await self._latest_task(await self.describe(root)))[1]

    async def _latest_task(self, described: Any) -> tuple[bool, str | None]:
        """Return whether a worker has done one of the latest tasks of a tree, and what a later one lacked for it."""
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=self._named.namespace,
            execution=WorkflowExecution(workflow_id=described.id, run_id=described.run_id),
            maximum_page_size=FIRST_TASK,
        )
        with self._border(described.id):
            service = self._client.workflow_service
            found = await service.get_workflow_execution_history_reverse(request, timeout=SOON)
        lacked: str | None = None
        for each in found.history.events:  # newest first
            if each.HasField("workflow_task_completed_event_attributes"):
                return True, lacked
            failure = each.workflow_task_failed_event_attributes.failure
            if failure.application_failure_info.type == MISSING:
                lacked = failure.message
        return False, lacked

    async def _is_refused(self, described: Any) -> bool:
        """Return whether the client of a tree that no worker has begun was refused (claims.py)."""
        try:
            await self.describe(refusal_id(described.run_id))
        except NotFound:
            return False
        return True

    async def _entries_of_ended(self, root: str, after: int, cause: str | None) -> Entries:
        """Return entries of a tree that Temporal has ended; none of one that was refused at its start."""
        if cause is None and not after:
            return Entries(rows=[], last=0)
        try:
            return await self._entries(root, after)
        except _NotReplayed as error:
            if not after:
                raise
            log.warning("tree.cut_off", root=root, reason=str(error))
            return Entries(rows=[], last=after)
        except ServerUnavailable as error:  # it hides no other tree
            raise _NotReplayed(f"session {root} {cause}. It cannot be read: {error}", maybe_done=False) from None

    async def _entries_at_end(self, described: Any, after: int) -> Entries:
        """Return entries of a tree that has ended. A first look at it takes what its workflow has left: that needs no
        worker, and no code that follows its history. So does one that no worker answers."""
        found = await self._left(described, after) if not after else None
        if found is None:
            try:
                found = await self._entries(described.id, after)
            except ServerUnavailable:
                found = await self._left(described, after)
                if found is None:
                    raise
        return found

    async def _left(self, described: Any, after: int) -> Entries | None:
        """Return all entries that a tree has left at its end after a position; None if it has not left all of them, or
        they cannot be read here."""
        if described.status != WorkflowExecutionStatus.COMPLETED:
            return None
        try:
            carried = (await read_left(self._client, self._named, described.id, described.run_id)).carried
        except (LimitExceeded, ServerError):
            return None
        if carried is None or not carried.is_whole:
            return None
        rows = [row for row in rows_of(carried.journal) if row[0] > after]
        return Entries(rows=rows, last=rows[-1][0] if rows else after)

    async def _entries(self, root: str, after: int) -> Entries:
        """Return entries of a tree after a position, from the workflow that has them (carry.py). If that is kept no
        more, return what its successors have carried of them."""

        async def ask(name: str, run: str | None = None) -> Entries:
            return Entries.decompressed(await self.query(root, name, after, bytes, run=run))

        found = await ask("entries")
        last = found.last
        while found.earlier is not None:
            try:
                found = await ask("entries", found.earlier)
            except (NotFound, _NotReplayed):
                found = await ask("carried")
            last = max(last, found.last)  # one that has begun just now has nothing yet
        return msgspec.structs.replace(found, last=last)

    async def describe(self, root: str) -> Any:
        """Return what the server knows of a tree without a worker. Raises NotFound."""
        with self._border(root):
            return await self._client.get_workflow_handle(root).describe(rpc_timeout=SOON)

    @contextmanager
    def _border(self, root: str) -> Iterator[None]:
        """The `border` of a request about a tree: names the session that the namespace does not have."""
        with border(self._named):
            try:
                yield
            except RPCError as error:
                if not is_no_workflow(error):
                    raise
                raise NotFound(f"there is no session {root} in {self._named}") from None

    async def query(
        self, root: str, name: str, given: Any, type_: type[T], patience: timedelta = PATIENCE, run: str | None = None
    ) -> T:
        """Ask a tree; `run`: one of its earlier workflows. Raises ServerUnavailable if no worker answers in time."""
        handle, until = self._client.get_workflow_handle(root, run_id=run), anyio.current_time() + patience.seconds
        while True:
            try:
                return from_wire(await self._ask(handle, root, name, given, patience), type_)
            except _NotReplayed as error:
                is_soon = any(why in str(error) for why in (NO_AGENT, UNSTARTED))
                if not is_soon or anyio.current_time() >= until:
                    raise
                await anyio.sleep(POLL / 4)  # another worker may have its agent, or a task is started

    async def _ask(self, handle: Any, root: str, name: str, given: Any, patience: timedelta) -> Any:
        try:
            return await handle.query(name, given, rpc_timeout=patience)
        except WorkflowQueryFailedError as error:
            raise _NotReplayed(f"session {root} cannot be read: {error}", maybe_done=False) from None
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                with self._border(root):
                    raise
            if is_not_ready(error):
                raise _NotReplayed(f"session {root} cannot be read: {error.message}", maybe_done=False) from None
            if is_broken(error):
                raise ServerUnavailable(
                    f"the Temporal server at {self._named.target} does not answer: {error.message}", maybe_done=False
                ) from None
            raise ServerUnavailable(
                f"no worker answers for session {root} ({error.message}); start one: supervisor worker --store "
                f"{self._named} FILE.py",
                maybe_done=False,
            ) from None

    async def see_workers(self) -> None:
        """Find the workers, unless that was done a moment ago."""
        if anyio.current_time() >= self._workers_at:
            await self.find_workers()
            self._workers_at = anyio.current_time() + WORKERS_SEEN

    async def find_workers(self) -> list[Owner]:
        """Return the workers of the namespace."""
        request = DescribeTaskQueueRequest(
            namespace=self._named.namespace,
            task_queue=TaskQueue(name=QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        with border(self._named):
            found = await self._client.workflow_service.describe_task_queue(request, timeout=SOON)
        owners = list[Owner]()
        for poller in found.pollers:
            pid, _, host = poller.identity.partition("@")
            seen_at = poller.last_access_time.ToDatetime(UTC)
            if seen_at > datetime.now(UTC) - SEEN:
                owners.append(Owner(poller.identity, host, int(pid) if pid.isdecimal() else 0, seen_at))
        self._store.workers = owners
        return owners

    async def find_pending(self) -> list[Approval]:
        """Return what is pending, oldest first, as far as the memos of the trees hold it. No worker is needed. Log what
        they do not hold."""
        found = list[Approval]()
        async for root, _, is_open, memo in self._trees(f" AND {PENDING} IS NOT NULL"):
            if is_open and memo is not None:
                found += (msgspec.convert(each, Approval) for each in memo["pending"])
                if memo["left_out"]:
                    log.warning("approvals.left_out", session=root, count=len(memo["left_out"]), reason=LEFT_OUT)
        return sorted(found, key=lambda each: each.created_at)

    def find_unread(self) -> list[Approval]:
        """Return what is pending in trees that this mirror has not read, as the server knows it: trees that could not
        be read and, where every tree is followed, those that were not read yet."""
        known = {root: look.asked for root, look in self._looks.items()} | self.unread
        memos = [memo for root, memo in known.items() if self._store.get_session(root) is None]
        return [msgspec.convert(each, Approval) for memo in memos if memo for each in memo["pending"]]

    # -- following ---------------------------------------------------------------------------------------------------

    @contextmanager
    def following(self, root: str | None) -> Iterator[None]:
        """Read a tree again and again inside the context; None: every tree."""
        self._followed[root] += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._followed[root] -= 1
            if not self._followed[root]:
                del self._followed[root]

    async def run(self, give_up: float = GIVE_UP) -> None:
        """Follow what is watched, until cancelled. Raises ServerUnavailable if the server is gone for `give_up`
        seconds; unless every tree is followed, NotFound if what is watched is gone, and ServerError."""
        lost_at: float | None = None
        while True:
            if not self._followed and not self._is_followed:
                self._wanted = anyio.Event()
                await self._wanted.wait()
            try:
                await self._follow()
            except (ServerError, NotFound) as error:
                if not isinstance(error, ServerUnavailable) and not self._is_followed:
                    raise
                if lost_at is None:
                    log.warning("server.lost", server=self._named.target, reason=str(error))
                lost_at = lost_at or anyio.current_time()
                if anyio.current_time() - lost_at > give_up and not await self._is_there():
                    raise error from None
            else:
                lost_at = None
            await anyio.sleep(POLL)

    async def _follow(self) -> None:
        if self._is_followed:
            await self.follow_all()
        elif None in self._followed:
            await self.read_all()
            return
        roots = [root for root in self._followed if root is not None]
        if self._is_followed:
            await self._read_some(roots)
        for root in roots if not self._is_followed else ():
            await self.read(root)

    async def follow_all(self) -> None:
        """Read what is due in all trees, and from now on let every read take what is there. Raises
        ServerUnavailable."""
        now, wanted, opened, ended = datetime.now(UTC), list[str](), set[str](), dict[str, str]()
        await self.see_workers()
        async for root, _, _, memo in self._trees(' AND ExecutionStatus = "Running"'):
            opened.add(root)
            look = self._looks.setdefault(root, _Look())
            if look.asked != memo or anyio.current_time() >= look.due_at:
                look.asked = memo
                wanted.append(root)
        since = "" if self._seen_at is None else f' AND CloseTime > "{(self._seen_at - LATE).isoformat()}"'
        async for root, run, _, _ in self._trees(f' AND ExecutionStatus != "Running"{since}'):
            ended.setdefault(root, run)
        self._ended.update(ended)
        wanted += self._find_closed(opened)
        self._is_followed = True
        await self._read_some(wanted[::-1])  # listed newest first
        self._seen_at = now

    def _find_closed(self, opened: set[str]) -> Iterator[str]:
        """Yield the trees to read that are not open any more: those that are listed as ended, and those of which no
        list says so, since the server lists them late, or its clock is another."""
        for root, run in list(self._ended.items()):
            if root in opened:
                del self._ended[root]
            elif self._is_read(root, run):
                self._forget(root)
            else:
                self._looks.setdefault(root, _Look())
        for root, look in self._looks.items():
            if root in opened:
                continue
            if look.asked is not None:  # until now it was open
                look.asked, look.due_at = None, 0.0
            if anyio.current_time() >= look.due_at:
                yield root

    def _forget(self, root: str) -> None:
        """Plan no further look at a tree that was read after its end."""
        self._looks.pop(root, None)
        self._ended.pop(root, None)

    async def _read_some(self, roots: Sequence[str]) -> None:
        limit = anyio.CapacityLimiter(AT_ONCE)

        async def read(root: str) -> None:
            look = self._looks.get(root) or _Look()
            async with limit:
                try:
                    look.plan(had_news=await self._read_on(root))
                except ServerUnavailable as error:
                    look.plan(had_news=False)
                    log.debug("tree.not_read", root=root, reason=str(error))
                except StoreDied:
                    raise
                except (NotFound, ServerError, StoreError) as error:
                    look.plan(had_news=False)
                    log.error("tree.not_read", root=root, reason=str(error))

        async with anyio.create_task_group() as tasks:
            for root in roots:
                tasks.start_soon(read, root)
        self._journal.catch_up()

    async def _is_there(self) -> bool:
        """Whether the server answers. A worker that does not is waited for: nothing is lost meanwhile."""
        try:
            await self.find_workers()
        except ServerUnavailable:
            return False
        return True
