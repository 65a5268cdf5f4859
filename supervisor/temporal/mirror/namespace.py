"""Where a mirror reads: what the server knows of the trees of a namespace, and what their workflows answer.

Rules
- What the server knows by itself needs no worker: how a tree is, what people are asked in it, and what it has left at
  its end.
- A workflow answers only through a worker. Where none answers, ServerUnavailable says how to start one.
- What no worker can read of a tree any more is left out.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import anyio
import msgspec
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from supervisor.core.blocking import Block
from supervisor.core.errors import LimitExceeded, NotFound, ServerError, ServerUnavailable
from supervisor.core.store_urls import TemporalStore
from supervisor.core.values import Approval
from supervisor.system.logs import FactLog
from supervisor.temporal.carry import rows_of
from supervisor.temporal.connection import (
    SOON,
    is_broken,
    is_no_workflow,
    is_not_ready,
    server_errors,
    why_query_failed,
)
from supervisor.temporal.left import read_left
from supervisor.temporal.mirror.ended import ENDED, why_ended
from supervisor.temporal.mirror.stuck import DIVERGED, block_of, find_block, tries
from supervisor.temporal.wire import MEMO, MISSING, PENDING, TREE, UNSTARTED, Entries, from_wire, refusal_id

T = TypeVar("T")

log = FactLog(__name__)

POLL_SECONDS: Final = 0.2
"""Seconds between two looks at the trees that are watched."""
PATIENCE: Final = timedelta(seconds=5)
"""How long a worker may take to answer for a tree: another one is asked after 2 s (worker/worker.py)."""
FIRST: Final = timedelta(seconds=2)
"""How long the first task of a tree may take, until its client looks whether a worker lacks what it needs."""
FIRST_TASK: Final = 10
"""The events that a tree has at most whose first task has failed, and that are read of a history, newest first."""
OPEN: Final = WorkflowExecutionStatus.RUNNING
_SHOWN: Final = (OPEN, WorkflowExecutionStatus.COMPLETED, *ENDED)
LEFT_OUT: Final = "they are too large to be read without a worker: start one"


class NotReplayed(ServerUnavailable):
    """The code of the workers does not follow the history of a workflow, or could not run it. `block`: why, if no
    worker's code is known that can."""

    block: Block | None = None


class NotReadYet(NotReplayed):
    """A worker could not run a workflow, and the next one may: another one has its agent, or a task is started."""


class NamespaceReader:
    """The trees of a namespace, as the server and the workers know them."""

    def __init__(self, client: Client, named: TemporalStore) -> None:
        self._client = client
        self._named = named

    # -- without a worker --------------------------------------------------------------------------------------------

    async def describe(self, root: str) -> Any:
        """Return what the server knows of a tree without a worker. Raises NotFound."""
        with self.border(root):
            return await self._client.get_workflow_handle(root).describe(rpc_timeout=SOON)

    @contextmanager
    def border(self, root: str) -> Iterator[None]:
        """The `border` of a request about a tree: names the session that the namespace does not have."""
        with server_errors(self._named):
            try:
                yield
            except RPCError as error:
                if not is_no_workflow(error):
                    raise
                raise NotFound(f"there is no session {root} in {self._named}") from None

    async def why_ended(self, described: Any) -> str | None:
        """Return how Temporal has ended a tree, and what to do; see ended.py."""
        with self.border(described.id):
            return await why_ended(self._client, described)

    async def find_trees(self, only: str) -> AsyncIterator[tuple[str, str, bool, Any]]:
        """Yield root, run, whether it is open, and the memo of trees, the newest run first: one that went on after its
        end has several."""
        with server_errors(self._named):
            async for each in self._client.list_workflows(f'WorkflowType = "{TREE}"{only}'):
                if each.status in _SHOWN:
                    yield each.id, each.run_id, each.status == OPEN, (await each.memo()).get(MEMO)

    async def find_pending(self) -> list[Approval]:
        """Return what is pending, oldest first, as far as the memos of the trees hold it. No worker is needed. Log what
        they do not hold."""
        found = list[Approval]()
        async for root, _, is_open, memo in self.find_trees(f" AND {PENDING} IS NOT NULL"):
            if is_open and memo is not None:
                found += (msgspec.convert(each, Approval) for each in memo["pending"])
                if memo["left_out"]:
                    log.warning("approvals.left_out", session=root, count=len(memo["left_out"]), reason=LEFT_OUT)
        return sorted(found, key=lambda each: each.created_at)

    async def is_left(self, described: Any) -> bool:
        """Return whether no worker has begun a tree, and one has left it to another one, since it lacks the agent."""
        if described.status != OPEN or described.history_length > FIRST_TASK or not tries(described):
            return False  # no task of it has failed: the history need not be read
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
        with self.border(described.id):
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
        """Return whether the client of a tree that no worker has begun was refused (workflow/claims.py)."""
        try:
            await self.describe(refusal_id(described.run_id))
        except NotFound:
            return False
        return True

    # -- through a worker --------------------------------------------------------------------------------------------

    async def find_entries(self, described: Any, after: int, cause: str | None) -> Entries:
        """Return entries of a tree after a position. `cause`: how Temporal has ended it."""
        if described.status == OPEN:
            return await self._entries_of_open(described, after)
        if described.status in ENDED:
            return await self._entries_of_ended(described.id, after, cause)
        return await self._entries_at_end(described, after)

    async def find_first(self, root: str, run: str) -> Entries | None:
        """Return the first entries of a tree that was started just now; None if no worker tells them soon."""
        handle = self._client.get_workflow_handle(root, run_id=run)
        try:
            return Entries.decompressed(await self._ask(handle, root, "entries", 0, FIRST))
        except (ServerUnavailable, NotFound):
            return None

    async def find_block(self, described: Any) -> Block | None:
        """Return why no worker can go on with an open tree, as far as the server knows; see stuck.py."""
        with self.border(described.id):
            return await find_block(self._client, described)

    async def _entries_of_open(self, described: Any, after: int) -> Entries:
        try:
            if (block := await self.find_block(described)) is not None:  # a worker that was asked would not answer
                raise _blocked(described.id, block)
            return await self._entries(described.id, after)
        except ServerUnavailable as error:
            if not isinstance(error, NotReplayed) or error.block is None:
                described = await self.describe(described.id)
                if (block := await self.find_block(described)) is not None:
                    raise _blocked(described.id, block) from None
            if not tries(described):
                raise
            has_begun, lacked = await self._latest_task(described)
            if not has_begun and lacked is not None and await self._is_refused(described):
                return Entries(rows=[], last=0)  # it never begins: no session is there
            text = str(error) if lacked is None else f"session {described.id} waits for a worker that has its agent"
            waits = NotReplayed(text, maybe_done=False)  # it hides no other tree
            waits.block = error.block if isinstance(error, NotReplayed) else None
            raise waits from None

    async def _entries_of_ended(self, root: str, after: int, cause: str | None) -> Entries:
        """Return entries of a tree that Temporal has ended; none of one that was refused at its start."""
        if cause is None and not after:
            return Entries(rows=[], last=0)
        try:
            return await self._entries(root, after)
        except NotReplayed as error:
            if not after:
                raise
            log.warning("tree.cut_off", root=root, reason=str(error))
            return Entries(rows=[], last=after)
        except ServerUnavailable as error:  # it hides no other tree
            raise NotReplayed(f"session {root} {cause}. It cannot be read: {error}", maybe_done=False) from None

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
            except (NotFound, NotReplayed):
                found = await ask("carried")
            last = max(last, found.last)  # one that has begun just now has nothing yet
        return msgspec.structs.replace(found, last=last)

    async def query(
        self, root: str, name: str, given: Any, type_: type[T], patience: timedelta = PATIENCE, run: str | None = None
    ) -> T:
        """Ask a tree; `run`: one of its earlier workflows. Raises ServerUnavailable if no worker answers in time."""
        handle, until = self._client.get_workflow_handle(root, run_id=run), anyio.current_time() + patience.seconds
        why: NotReadYet | None = None
        while True:
            try:
                return from_wire(await self._ask(handle, root, name, given, patience), type_)
            except NotReadYet as error:
                why = error
                if anyio.current_time() >= until:
                    raise
                await anyio.sleep(POLL_SECONDS / 4)
            except ServerUnavailable as error:  # it says less than what a worker has said before
                raise (why or error) from None

    async def _ask(self, handle: Any, root: str, name: str, given: Any, patience: timedelta) -> Any:
        try:
            return await handle.query(name, given, rpc_timeout=patience)
        except WorkflowQueryFailedError as error:
            if DIVERGED in str(error):
                block = await block_of(self._client, root, handle.run_id, str(error))
                raise _blocked(root, block) from None
            kind = NotReadYet if why_query_failed(error) in (MISSING, UNSTARTED) else NotReplayed
            raise kind(f"session {root} cannot be read: {error}", maybe_done=False) from None
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                with self.border(root):
                    raise
            if is_not_ready(error):
                raise NotReplayed(f"session {root} cannot be read: {error.message}", maybe_done=False) from None
            if is_broken(error):
                raise ServerUnavailable(
                    f"the Temporal server at {self._named.target} does not answer: {error.message}", maybe_done=False
                ) from None
            raise ServerUnavailable(
                f"no worker answers for session {root} ({error.message}); start one: supervisor worker --store "
                f"{self._named} FILE.py",
                maybe_done=False,
            ) from None


def _blocked(root: str, block: Block) -> NotReplayed:
    """Return the error of a read of a tree with which no worker can go on."""
    held = f"its history asks for {block.held}, and " if block.held else ""
    error = NotReplayed(f"session {root} is blocked: {held}{block.cause}", maybe_done=False)
    error.block = block
    return error
