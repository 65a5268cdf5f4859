"""The mirror: an ordinary store in memory, filled with what the workflows of a namespace have journaled.

All reads and watches of a client are those of the runtime (supervisor/runtime/reading), over this store: to them, the
workflows are another process that writes into it.

Rules
- An entry is read from a workflow once. A tree is read again as long as it is open, and once more after its end.
- A workflow answers only through a worker. Where none answers, ServerUnavailable says how to start one.
- The position of an entry is this client's. Another client's store has another id, so it refuses its cursors.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import anyio
import msgspec
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from supervisor.abc import JournalEntry, Owner
from supervisor.core.errors import NotFound, ServerUnavailable
from supervisor.core.events import decode_event
from supervisor.core.store_urls import TemporalStore
from supervisor.core.values import Approval
from supervisor.runtime.journal.writer import Journal
from supervisor.store.memory import MemoryStore
from supervisor.temporal.connection import SOON, border, is_broken
from supervisor.temporal.wire import MEMO, PENDING, QUEUE, TREE, Entries, from_wire

T = TypeVar("T")

POLL: Final = 0.2
"""Seconds between two looks at the trees that are watched."""
AT_ONCE: Final = 20
"""Trees that are read at the same time."""
PATIENCE: Final = timedelta(seconds=5)
"""How long a worker may take to answer for a tree: another one is asked after 2 s (worker.py)."""
SEEN: Final = timedelta(seconds=70)
"""A worker asks for work at least once a minute: one that did not counts as gone."""
GIVE_UP: Final = 60.0
"""Seconds for which a lost server is waited for."""
_OPEN: Final = WorkflowExecutionStatus.RUNNING


class MirrorStore(MemoryStore):
    """What a client has read. Its trees are owned by workers."""

    is_durable = True

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.workers: list[Owner] = []
        self._has_news = False

    def add(self, rows: Iterable[tuple[str, str]]) -> None:
        """Add entries, each a session and its event as JSON text, in order."""
        last = self.last_position()
        self.begin()
        try:
            self.write(
                [
                    JournalEntry(last + n, session, decode_event(body.encode()))
                    for n, (session, body) in enumerate(rows, 1)
                ]
            )
        except BaseException:
            self.rollback()
            raise
        self.commit()
        self._has_news = True

    def has_changed(self) -> bool:
        had, self._has_news = self._has_news, False
        return had

    def get_owner(self, root: str) -> Owner | None:
        return next(iter(self.workers), None)

    def get_owners(self, roots: Sequence[str]) -> dict[str, Owner]:
        owner = self.get_owner("")
        return {} if owner is None else dict.fromkeys(roots, owner)

    def owners(self) -> list[Owner]:
        return self.workers

    def owns(self, root: str) -> bool:
        return False


class Mirror:
    """Reads trees into a store, and follows those that are watched."""

    def __init__(self, client: Client, named: TemporalStore, store: MirrorStore, journal: Journal) -> None:
        self._client = client
        self._named = named
        self._store = store
        self._journal = journal
        self._read: dict[str, tuple[str, int]] = {}
        """By root: the run of its workflow, and the position up to which it was read."""
        self._closed: set[str] = set()
        """The roots of trees that were read after their end."""
        self._reading = anyio.Lock()
        self._followed: Counter[str | None] = Counter()
        self._wanted = anyio.Event()

    # -- reading -----------------------------------------------------------------------------------------------------

    async def read(self, root: str) -> None:
        """Read what is new in a tree. Raises NotFound; ServerUnavailable if no worker answers."""
        async with self._reading:
            await self._read_on(root)
        self._journal.catch_up()

    async def read_all(self) -> None:
        """Read what is new in every tree. Raises ServerUnavailable if no worker answers."""
        await self.find_workers()
        roots = [root async for root, is_open, _ in self._trees("") if is_open or root not in self._closed]
        async with self._reading:
            for root in reversed(roots):  # listed newest first
                await self._read_on(root)
        self._journal.catch_up()

    async def _trees(self, only: str) -> AsyncIterator[tuple[str, bool, Any]]:
        """Yield root, whether it is open, and the memo of trees."""
        with border(self._named):
            async for each in self._client.list_workflows(f'WorkflowType = "{TREE}"{only}'):
                if each.status in (_OPEN, WorkflowExecutionStatus.COMPLETED):
                    yield each.id, each.status == _OPEN, (await each.memo()).get(MEMO)

    async def _read_on(self, root: str) -> None:
        described = await self.describe(root)
        is_open = described.status == _OPEN
        if root in self._closed and not is_open:
            return
        run, after = self._read.get(root, (described.run_id, 0))
        while True:
            found = await self.query(root, "entries", after, Entries)
            if found.rows:
                self._store.add((session, body) for _, session, body in found.rows)
                after = found.rows[-1][0]
                self._read[root] = run, after
            if after >= found.last:
                break
        if not is_open:
            self._closed.add(root)

    async def describe(self, root: str) -> Any:
        """Return what the server knows of a tree without a worker. Raises NotFound."""
        try:
            with border(self._named):
                return await self._client.get_workflow_handle(root).describe(rpc_timeout=SOON)
        except NotFound:
            raise NotFound(f"there is no session {root} in {self._named}") from None

    async def query(self, root: str, name: str, given: Any, type_: type[T], patience: timedelta = PATIENCE) -> T:
        """Ask a tree. Raises ServerUnavailable if no worker answers in time."""
        try:
            found = await self._client.get_workflow_handle(root).query(name, given, rpc_timeout=patience)
        except WorkflowQueryFailedError as error:
            raise ServerUnavailable(f"session {root} cannot be read: {error}", maybe_done=False) from None
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NotFound(f"there is no session {root} in {self._named}") from None
            if is_broken(error):
                raise ServerUnavailable(
                    f"the Temporal server at {self._named.target} does not answer: {error.message}", maybe_done=False
                ) from None
            raise ServerUnavailable(
                f"no worker answers for session {root} ({error.message}); start one: supervisor worker --store "
                f"{self._named} FILE.py",
                maybe_done=False,
            ) from None
        return from_wire(found, type_)

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
        """Return what is pending, oldest first, as far as the memos of the trees hold it. No worker is needed."""
        found = list[Approval]()
        async for _, is_open, memo in self._trees(f" AND {PENDING} IS NOT NULL"):
            if is_open and memo is not None:
                found += (msgspec.convert(each, Approval) for each in memo["pending"])
        return sorted(found, key=lambda each: each.created_at)

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

    async def run(self) -> None:
        """Follow what is watched, until cancelled. Raises ServerUnavailable if the server is gone for a minute."""
        lost_at: float | None = None
        while True:
            if not self._followed:
                self._wanted = anyio.Event()
                await self._wanted.wait()
            try:
                await self._follow()
            except ServerUnavailable as error:
                lost_at = lost_at or anyio.current_time()
                if anyio.current_time() - lost_at > GIVE_UP and not await self._is_there():
                    raise error from None
            else:
                lost_at = None
            await anyio.sleep(POLL)

    async def _follow(self) -> None:
        if None in self._followed:
            await self.read_all()
            return
        for root in list(self._followed):
            if root is not None:
                await self.read(root)

    async def _is_there(self) -> bool:
        """Whether the server answers. A worker that does not is waited for: nothing is lost meanwhile."""
        try:
            await self.find_workers()
        except ServerUnavailable:
            return False
        return True
