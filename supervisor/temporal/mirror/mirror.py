"""The mirror: an ordinary store (store.py), filled with what the workflows of a namespace have journaled.

All reads and watches of a client are those of the runtime (supervisor/runtime/reading), over this store: to them, the
workflows are another process that writes into it.

Rules
- An entry is read from a workflow once. A tree is read again as long as it is open, and once more after its end.
- A tree that Temporal has ended is ended here, too (ended.py). One with which no worker can go on is blocked here
  (stuck.py), until it is read again.
- The position of an entry is this client's. Another client's store has another id, so it refuses its cursors.
- A server follows every tree (`follow_all`). One list of the trees tells which are new, which ask something else than
  before, and which have ended. These are read at once; the others by and by (looks.py). While nothing happens, it
  lists them every IDLE seconds. Its reads take what is there, also while no worker answers.
- A tree is asked for its entries only if its history has grown since it was read. So one that waits costs no query.

The module is longer than 400 lines because reading a tree and following all of them share what is known of each.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
import msgspec
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from supervisor.core.blocking import Block
from supervisor.core.errors import (
    NotFound,
    ServerError,
    ServerUnavailable,
    StoreDied,
    StoreError,
    SupervisorError,
)
from supervisor.core.events import RunBlocked, RunUnblocked, encode_event
from supervisor.core.rows import Owner
from supervisor.core.store_urls import TemporalStore
from supervisor.core.values import Approval
from supervisor.runtime.journal.view import View
from supervisor.runtime.journal.writer import Journal
from supervisor.system.logs import FactLog
from supervisor.temporal.connection import SOON, server_errors
from supervisor.temporal.mirror.ended import end_of
from supervisor.temporal.mirror.looks import Look, Looks
from supervisor.temporal.mirror.namespace import OPEN, POLL_SECONDS, NamespaceReader, NotReplayed
from supervisor.temporal.mirror.store import Feed, MirrorFile, MirrorStore, Reached, Row
from supervisor.temporal.mirror.stuck import tries
from supervisor.temporal.wire import QUEUE, SIGNALS

log = FactLog(__name__)

AT_ONCE: Final = 20
"""Trees that are read at the same time."""
SEEN: Final = timedelta(seconds=70)
"""A worker asks for work at least once a minute: one that did not counts as gone."""
LATE: Final = timedelta(seconds=60)
"""How late the server may list a tree that has ended."""
IDLE_SECONDS: Final = 5.0
"""Seconds between two lists of the trees while nothing happens."""
WATCHED_SECONDS: Final = 1.0
"""Seconds between two looks at a tree that a person watches, and that waits."""
WORKERS_SEEN_SECONDS: Final = 30.0
"""Seconds between two looks at the workers."""
GIVE_UP_SECONDS: Final = 60.0
"""Seconds for which a lost server is waited for."""


class Mirror:
    """Reads trees into a store, and follows those that are watched."""

    def __init__(
        self, client: Client, named: TemporalStore, store: MirrorStore | MirrorFile, feed: Feed, journal: Journal
    ) -> None:
        self.namespace = NamespaceReader(client, named)
        self._client = client
        self._named = named
        self._store = store
        self._feed = feed
        self._journal = journal
        self._locks: dict[str, anyio.Lock] = {}
        """By root: held while its tree is read."""
        self._followed: Counter[str | None] = Counter()
        self._wanted = anyio.Event()
        self._looks = Looks()
        self._seen_at: datetime | None = None
        """Of the trees that ended before, all are known here."""
        self._is_followed = False
        self._workers_at = 0.0
        self._lengths: dict[str, tuple[str, int]] = {}
        """By root: the run and the length of its history when it was read last."""
        self.signalled = set[str]()
        """Roots of open trees whose decisions no workflow has claimed."""
        self._pause = POLL_SECONDS
        self._listed_at = 0.0
        self._is_told = False
        """Whether a read by a person had news, so that more may follow."""
        self.unread: dict[str, Any] = {}
        """Roots of trees that the workers could not read when all were read, with their memos."""
        self.blocks: dict[str, Block] = {}
        """Why no worker can go on with open trees, by their roots."""

    # -- reading -----------------------------------------------------------------------------------------------------

    async def read(self, root: str) -> None:
        """Read what is new in a tree. Raises NotFound if the namespace has no such tree (any more), and
        ServerUnavailable if no worker answers, unless every tree is followed and this one is known."""
        try:
            self._is_told = await self._read_on(root) or self._is_told
        except (ServerUnavailable, NotFound):
            if not self._is_followed or self._store.get_session(root) is None:
                raise
        self._journal.catch_up()

    async def read_first(self, root: str, run: str) -> bool:
        """Read what a tree has done in the first task of its workflow, which was started just now, by one request: the
        answer comes with the task. Return whether a worker has begun it; one that does not soon may yet."""
        async with self._locks.setdefault(root, anyio.Lock()):
            found = await self.namespace.find_first(root, run)
            if found is None or not found.rows or self._feed.reached(root).position:
                return found is not None and bool(found.rows)
            rows = [(session, body) for _, session, body in found.rows]
            await self._feed.add(root, rows, Reached(run, found.rows[-1][0], is_closed=False))
        self._journal.catch_up()
        return True

    async def read_all(self) -> None:
        """Read what is new in every tree, unless every tree is followed. A tree whose history the workers cannot
        follow is logged, and left out (`unread`). Raises ServerUnavailable if no worker answers."""
        if self._is_followed:
            return
        await self.find_workers()
        newest, unread = dict[str, tuple[str, Any]](), dict[str, Any]()
        async for root, run, is_open, memo in self.namespace.find_trees(""):
            newest.setdefault(root, (run, memo if is_open else None))
        wanted = [root for root, (run, _) in newest.items() if not self._is_read(root, run)]
        for root, error in (await self._read_in_order(wanted[::-1])).items():  # listed newest first
            unread[root] = newest[root][1]
            if root not in self.unread:
                log.warning("tree.not_read", root=root, reason=str(error))
        self.unread = unread
        self._journal.catch_up()

    async def _read_in_order(self, roots: Sequence[str]) -> dict[str, NotReplayed]:
        """Read trees at the same time, and take their entries in the order given, so that lists begin with the oldest.
        Return those whose history the workers cannot follow. A tree that was removed meanwhile is left out."""
        limit = anyio.CapacityLimiter(AT_ONCE)
        left_out, failed = dict[str, NotReplayed](), list[SupervisorError]()

        async def read(root: str, turn: anyio.Event | None, done: anyio.Event) -> None:
            try:
                await self._read_on(root, turn)
            except NotReplayed as error:
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
        described = await self.namespace.describe(root)
        is_open, had_news = described.status == OPEN, False
        if self._is_read(root, described.run_id):
            self._looks.forget(root)
            return False
        length = described.run_id, described.history_length
        if is_open and not self._may_have_news(described, length):
            return False
        cause = await self.namespace.why_ended(described)
        after = self._feed.reached(root).position
        while True:
            try:
                found = await self.namespace.find_entries(described, after, cause)
            except ServerUnavailable as error:
                if not is_open or not await self._has_ended(root, error):
                    raise
                return await self._read_alone(root, turn)
            if turn is not None:
                await turn.wait()
            rows = self._end_of_block(root)
            if found.rows:
                after = found.rows[-1][0]
                rows += [(session, body) for _, session, body in found.rows]
            if rows:
                had_news = True
                await self._feed.add(root, rows, Reached(described.run_id, after, is_closed=False))
            if after >= found.last:
                break
        self._lengths[root] = length
        return had_news if is_open else await self._end(described, after, cause) or had_news

    def _may_have_news(self, described: Any, length: tuple[str, int]) -> bool:
        """Note how decisions come to an open tree, and return whether it is to be asked for its entries."""
        if SIGNALS in described.raw_description.workflow_execution_info.memo.fields:
            self.signalled.add(described.id)
        has_grown = self._lengths.get(described.id) != length
        return has_grown or described.id in self.blocks or tries(described) > 0

    async def _end(self, described: Any, after: int, cause: str | None) -> bool:
        """Note that a tree was read after its end. Return whether that has ended something. `cause`: how Temporal has
        ended it."""
        root, last = described.id, list[Row]()
        if cause is not None and after:
            self._journal.catch_up()
            last = end_of(self._store, root, cause, described.close_time)
        await self._feed.add(root, last, Reached(described.run_id, after, is_closed=True))
        self._looks.forget(root)
        self._lengths.pop(root, None)
        self.signalled.discard(root)
        return bool(last)

    async def _has_ended(self, root: str, unread: ServerUnavailable) -> bool:
        """Return whether a tree has ended meanwhile that was open, and could not be read."""
        if (await self.namespace.describe(root)).status != OPEN:
            return True
        if isinstance(unread, NotReplayed) and unread.block is not None:
            await self._note_block(root, unread.block)
        return False

    async def _note_block(self, root: str, block: Block) -> None:
        """Note that no worker can go on with a tree, at its root, if the mirror knows that."""
        reached, is_known = self._feed.reached(root), self.blocks.get(root) == block
        self.blocks[root] = block
        if (reached.is_blocked and is_known) or self._store.get_session(root) is None:
            return
        self._journal.catch_up()
        state = View(self._store, {}, {}, self._store.last_position()).session(root)
        if state.phase == "open" and (reached.is_blocked or state.blocked is None):
            log.warning("tree.blocked", root=root, why=block.why, held=block.held, cause=block.cause)
            row = root, encode_event(RunBlocked(at=datetime.now(UTC), block=block)).decode()
            await self._feed.add(root, [row], reached._replace(is_blocked=True))

    def _end_of_block(self, root: str) -> list[Row]:
        """Return the entry that says that a tree goes on with which no worker could; none if no entry says so."""
        self.blocks.pop(root, None)
        if not self._feed.reached(root).is_blocked:
            return []
        return [(root, encode_event(RunUnblocked(at=datetime.now(UTC))).decode())]

    async def see_workers(self) -> None:
        """Find the workers, unless that was done a moment ago."""
        if anyio.current_time() >= self._workers_at:
            await self.find_workers()
            self._workers_at = anyio.current_time() + WORKERS_SEEN_SECONDS

    async def find_workers(self) -> list[Owner]:
        """Return the workers of the namespace."""
        request = DescribeTaskQueueRequest(
            namespace=self._named.namespace,
            task_queue=TaskQueue(name=QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        with server_errors(self._named):
            found = await self._client.workflow_service.describe_task_queue(request, timeout=SOON)
        owners = list[Owner]()
        for poller in found.pollers:
            pid, _, host = poller.identity.partition("@")
            seen_at = poller.last_access_time.ToDatetime(UTC)
            if seen_at > datetime.now(UTC) - SEEN:
                owners.append(Owner(poller.identity, host, int(pid) if pid.isdecimal() else 0, seen_at))
        self._store.workers = owners
        return owners

    def find_unread(self) -> list[Approval]:
        """Return what is pending in trees that this mirror has not read, as the server knows it: trees that could not
        be read and, where every tree is followed, those that were not read yet."""
        known = {root: look.asked for root, look in self._looks.by_root.items()} | self.unread
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

    async def run(self, give_up: float = GIVE_UP_SECONDS) -> None:
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
            await anyio.sleep(self._next_in())

    def _next_in(self) -> float:
        """Return the seconds until the next round."""
        if not self._is_followed or any(root is not None for root in self._followed) or self._is_told:
            return POLL_SECONDS
        return max(POLL_SECONDS, min(self._pause, self._looks.next_in))

    async def _follow(self) -> None:
        if self._is_followed:
            if self._is_told or anyio.current_time() >= self._listed_at + self._pause:
                await self.follow_all()
            else:
                await self._read_some([root for root, look in self._looks.by_root.items() if look.is_due])
        elif None in self._followed:
            await self.read_all()
            return
        roots = [root for root in self._followed if root is not None]
        if self._is_followed:
            await self._read_some(roots, WATCHED_SECONDS)
        for root in roots if not self._is_followed else ():
            await self.read(root)

    async def follow_all(self) -> None:
        """Read what is due in all trees, and from now on let every read take what is there. Raises
        ServerUnavailable."""
        now, wanted, opened, ended = datetime.now(UTC), list[str](), set[str](), dict[str, str]()
        self._is_told, self._listed_at = False, anyio.current_time()
        await self.see_workers()
        since = "" if self._seen_at is None else f'CloseTime > "{(self._seen_at - LATE).isoformat()}"'
        async for root, run, is_open, memo in self.namespace.find_trees(
            f' AND (ExecutionStatus = "Running" OR {since})' if since else ""
        ):
            if not is_open:
                ended.setdefault(root, run)
                continue
            opened.add(root)
            if self._looks.see_open(root, memo):
                wanted.append(root)
        self._looks.see_ended(ended)
        wanted += self._looks.find_closed(opened, self._is_read)
        self._is_followed = True
        had_news = await self._read_some(wanted[::-1])  # listed newest first
        rested = self._looks.find_rested()
        if rested is not None and rested not in wanted:
            had_news = await self._read_some([rested]) or had_news
        self._pause = POLL_SECONDS if had_news else min(IDLE_SECONDS, 2 * self._pause)
        self._seen_at = now

    async def _read_some(self, roots: Sequence[str], most: float | None = None) -> bool:
        """Read trees that are due, and return whether there was something new. `most`: seconds between two looks."""
        limit, had_news = anyio.CapacityLimiter(AT_ONCE), False

        async def read(root: str) -> None:
            nonlocal had_news
            look = self._looks.by_root.get(root) or Look()
            if most is not None and anyio.current_time() < look.due_at - max(0.0, look.wait - most):
                return
            async with limit:
                try:
                    found = await self._read_on(root)
                    look.plan(had_news=found)
                    had_news = had_news or found
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
        return had_news

    async def _is_there(self) -> bool:
        """Whether the server answers. A worker that does not is waited for: nothing is lost meanwhile."""
        try:
            await self.find_workers()
        except ServerUnavailable:
            return False
        return True
