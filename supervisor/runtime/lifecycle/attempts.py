"""The state that the parts of the runner share: the sessions with an attempt in this process, and the tasks for them.

A session is live while it has an attempt in memory. Before that it is being prepared, from the decision to launch it
until the commit that begins the attempt. After that it may have an ending whose outcome is not written yet.

Rules
- The journal keeps the state of a session in memory as long as the session is live or being prepared.
- All tasks are in one flat task group, which is cancelled only when the supervisor ends. The tree of agents is data.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from math import inf
from typing import Any

import anyio
from anyio.abc import TaskGroup

from supervisor.core.errors import StoreDied, StoreError, StoreRefused
from supervisor.core.rows import JournalEntry
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.host import StopReason
from supervisor.runtime.attempt.native_cancellation import take_pending
from supervisor.runtime.attempt.settling import disowned
from supervisor.runtime.clock.alarm import Alarm
from supervisor.runtime.clock.bell import Bell
from supervisor.runtime.clock.clock import Clock
from supervisor.runtime.clock.patience import until_answered
from supervisor.runtime.journal.hub import Hub, end_key
from supervisor.runtime.journal.writer import Journal
from supervisor.runtime.plans.end import Ending
from supervisor.seam.store import Store, StoreAway
from supervisor.system.logs import FactLog

log = FactLog(__name__)


class Attempts:
    """The attempts of this process. `publish` is called with committed entries, in order."""

    def __init__(
        self, store: Store, publish: Callable[[list[JournalEntry]], None], clock: Clock, alarm: Alarm, hub: Hub
    ) -> None:
        self.clock = clock
        self.alarm = alarm
        self.hub = hub
        self.journal = Journal(store, publish, self._stop_unreadable, self._stop_all_of_dead_store, clock.duration)
        self.live: dict[str, Attempt] = {}
        self.preparing: set[str] = set()
        """Sessions whose next attempt is being prepared, or whose first one is being committed."""
        self.again: set[str] = set()
        """Sessions to launch once more: when their paused or abandoned attempt has left memory, or when the launch
        under way has begun no attempt."""
        self.endings: dict[str, Ending] = {}
        """The endings of sessions whose outcome is not written yet."""
        self.refusals: dict[str, str] = {}
        """Why sessions of this process do not run: their agent is unknown, or the store refused them."""
        self.is_draining = False
        """Whether a graceful stop is under way: nothing new begins, and executing calls may finish (R8)."""
        self.is_closed = False
        self._tasks: TaskGroup | None = None
        self._running = 0
        self._changed = Bell()
        self.note_change = self._changed.ring
        """Lets the callers of `wait_until` test their conditions again."""

    # -- tasks -------------------------------------------------------------------------------------------------------

    def serve_in(self, tasks: TaskGroup | None) -> None:
        """Run attempts in this task group from now on. Only its owner cancels it. None: it has ended."""
        self._tasks = tasks

    def start_soon(self, fn: Callable[..., Awaitable[Any]], /, *args: Any) -> None:
        """Start a task that counts as work until it ends. After the end of the supervisor none begins: what other
        processes commit is for the next process of the tree."""
        if self._tasks is not None:
            self.start_entered(self._count, fn, *args)

    def ask(self, read: Callable[..., None], /, *about: Any) -> None:
        """Let a callback read the store: now, or as soon as a store that is away answers."""
        try:
            read(*about)
        except StoreAway:
            self.start_soon(self._ask_again, read, *about)

    async def _ask_again(self, read: Callable[..., None], /, *about: Any) -> None:
        with suppress(StoreDied):  # all callers are told
            await until_answered(read, *about)

    def start_entered(self, task: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """As `start_soon`, for a task that enters this object itself. That saves one frame of memory for each task."""
        assert self._tasks is not None, "the runner has not been opened"
        self._running += 1
        with disowned():  # the current task may belong to an agent
            self._tasks.start_soon(task, *args)

    def start_apart(self, fn: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start a task that counts as no work: the call or step that waits for it does."""
        assert self._tasks is not None, "the runner has not been opened"
        with disowned():
            self._tasks.start_soon(fn, *args)

    async def _count(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> None:
        with self:
            await fn(*args)
            await take_pending(anyio.get_current_task())

    def __enter__(self) -> None:
        """Enter around each task; `__exit__` counts it as ended."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        is_cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        if error is not None and not is_cancelled:
            self.suspend_all("the supervisor failed")  # before the task group cancels the other attempts
        self._running -= 1
        self.note_change()
        # A native cancellation ends its task alone: it would end the whole task group, and the supervisor with it.
        return is_cancelled and anyio.current_effective_deadline() > -inf

    @property
    def has_tasks(self) -> bool:
        return self._running > 0

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the attempts is true. It is tested again after each `note_change`."""
        while not condition():
            await self._changed.wait()

    # -- the attempts ------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether no attempt is in memory or being prepared."""
        return not self.live and not self.preparing

    def expect(self, session: str) -> None:
        """Announce a session that a plan creates. No other launch of it happens until its attempt begins or `forget`
        is called."""
        self.journal.pinned.add(session)
        self.preparing.add(session)

    def forget(self, session: str) -> None:
        """Take an `expect` back: the session was not created."""
        self.preparing.discard(session)
        self.journal.unpin(session)

    def let_go(self, session: str) -> None:
        """Drop a session's state from memory, unless an attempt needs it."""
        if session not in self.live and session not in self.preparing:
            self.journal.unpin(session)

    def waits_of(self, session: str) -> Collection[str]:
        """Return the keys that the attempt of a session waits for now; nothing if the session has no attempt here."""
        attempt = self.live.get(session)
        return attempt.waiting if attempt is not None else ()

    # -- suspending them ---------------------------------------------------------------------------------------------

    def refuse(self, session: str, reason: str) -> None:
        """Record why a session cannot be run here, and wake the callers that wait for it."""
        if not self.journal.has_left:
            log.error("session.refused", session=session, reason=reason)
        self.refusals[session] = reason
        self.hub.publish(session)
        self.hub.publish(end_key(session))

    def refuse_for(self, session: str, error: StoreError) -> None:
        """Record that the store refused an entry of a session. That suspends its whole tree, so callers that wait for
        the root are woken, too."""
        self.refuse(session, str(error))
        if isinstance(error, StoreRefused):
            root = attempt.state.facts.root if (attempt := self.live.get(session)) is not None else None
            self.ask(self._suspend_tree_of, session, root, error)

    def _suspend_tree_of(self, session: str, root: str | None, error: StoreError) -> None:
        if root is None and (row := self.journal.store.get_session(session)) is not None:
            root = row.root
        if root is not None:
            self.suspend_root(root, error)

    def suspend_root(self, root: str, error: StoreError) -> None:
        """Suspend the tree of a root, which cannot go on without an entry that the store refused. No run of it fails;
        all can be resumed."""
        self.refusals[root] = str(error)
        for other in list(self.live.values()):
            if other.state.facts.root == root:
                other.stop(StopReason("suspended", str(error)))
        self.hub.publish_all()

    def suspend_all(self, reason: str) -> None:
        """Stop every attempt so that it can be resumed."""
        self.is_closed = True
        for attempt in list(self.live.values()):
            attempt.stop(StopReason("suspended", reason))

    def _stop_unreadable(self, session: str, reason: str) -> None:
        """Suspend a session in whose journal a newer program has written. Other sessions go on."""
        attempt = self.live.get(session)
        if attempt is not None and attempt.stop_reason is None:
            attempt.stop(StopReason("suspended", reason))
            self.refuse(session, reason)

    def _stop_all_of_dead_store(self) -> None:
        for attempt in list(self.live.values()):
            attempt.stop(StopReason("suspended", "the store has died"))
        self.hub.publish_all()
        self.note_change()
