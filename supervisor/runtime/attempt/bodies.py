"""Bodies: the functions of tools and steps, which run apart from the agents that wait for them (T3).

Theory: Python cannot end a function that waits for a thread, shields itself or swallows its cancellation. So a function
runs in a task of its own, in the runner's group. The call or step waits for it, tells it to end at the deadline or when
it is itself cancelled, and goes on GRACE_SECONDS later in any case. What still runs then is a *left* body.

Rules
- A body belongs to no attempt: its steps are not followed (settling.py). A replay runs no body.
- An async function whose code awaits nothing runs in the agent's own task: it has ended before anything could end it.
- What ends within the grace ends its call as ever. What a left body returns or raises later is dropped and logged,
  and its context refuses every further act.
- A function without async runs in a daemon thread of its own. So the interpreter can end while it runs. Such threads
  have a limiter of their own, and a left one gives its slot back.
- A step or idempotent call of which a left body still runs is not begun again in this process before that has ended.
- Beyond MOST_LEFT left bodies no new one begins: each may hold memory, a thread and locks.
"""

import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from math import inf
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

import anyio
import anyio.from_thread
import sniffio
from anyio import RunFinishedError
from anyio.lowlevel import current_token

from supervisor.core.errors import RunStopping
from supervisor.core.usage import Usage
from supervisor.runtime.attempt.reservations import Request
from supervisor.system.forks import end_copy
from supervisor.system.logs import FactLog

log = FactLog(__name__)

P = ParamSpec("P")
T = TypeVar("T")

GRACE_SECONDS: Final = 2.0
"""Seconds that a body has to end, once it was told to."""
MOST_LEFT: Final = 32
MOST_THREADS: Final = 40

began_or_ended: Final[list[Callable[[int], object]]] = []
"""Called in the loop with 1 when a thread begins, with 0 when it is told to end, and with -1 when it is waited for no
more: for a clock that would not wait for it (supervisor/testing)."""


class DeadlinePassed(Exception):
    """A body did not end by its deadline. `has_begun`: whether it may have had an effect."""

    def __init__(self, *, has_begun: bool) -> None:
        super().__init__()
        self.has_begun = has_begun


class Running:
    """One body. If it may be begun again (a step, an idempotent call), session and operation name its effect: no second
    body of them begins while it runs."""

    __slots__ = (
        "_bodies",
        "_has_slot",
        "_scope",
        "_thread",
        "agent",
        "begins_again",
        "cancellation",
        "ended",
        "error",
        "has_begun",
        "has_value",
        "is_left",
        "is_told",
        "left_at",
        "name",
        "operation",
        "request",
        "session",
        "spent",
        "value",
    )

    def __init__(
        self, bodies: "Bodies", session: str, agent: str, operation: str, name: str, *, begins_again: bool
    ) -> None:
        self._bodies = bodies
        self.begins_again = begins_again
        self.agent = agent
        self.session = session
        self.operation = operation
        self.name = name
        self.ended: anyio.Event | None = None
        """Made when the body begins."""
        self._scope: anyio.CancelScope | None = None
        self.has_begun = self.has_value = self.is_told = self.is_left = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.cancellation: BaseException | None = None
        """The cancellation of the caller, which it raises again when the result is written."""
        self.request: Request | None = None
        """The block in which an agent asks a model, if it runs in one."""
        self.spent: list[Usage] = []
        """What it has used of models, and is not journaled yet."""
        self._has_slot = False
        self.left_at = 0.0
        """An instant of the loop's clock."""
        self._thread: anyio.CancelScope | None = None
        """Around the wait for the thread of a function without async."""

    def tell(self) -> None:
        """Tell the body to end."""
        self.is_told = True
        if self._scope is not None:
            self._scope.cancel()
        if self._thread is not None:
            for hear in began_or_ended:
                hear(0)

    def in_loop(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what a body asks for, from the thread in which it runs. Raises RunStopping once the body is left."""
        self.check()
        if threading.get_ident() == self._bodies.thread:
            return act(*args, **kwargs)

        def do() -> T:
            self.check()
            return act(*args, **kwargs)

        try:
            return anyio.from_thread.run_sync(do, token=self._bodies.token)
        except RunFinishedError:
            raise RunStopping(LEFT) from None

    def check(self) -> None:
        """Raises RunStopping once the body is left."""
        if self.is_left:
            raise RunStopping(LEFT)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run a function in a daemon thread, and return what it returns or raise what it raises. The wait cannot be
        cancelled: `leave` ends it."""
        limiter, process, token = self._bodies.limiter, os.getpid(), self._bodies.token
        self.has_begun = False
        await limiter.acquire_on_behalf_of(self)
        self._has_slot = True  # given back by `leave`, or when the body ends
        ended, context = anyio.Event(), copy_context()
        context.run(sniffio.current_async_library_cvar.set, None)
        returned, raised = list[T](), list[BaseException]()

        def run() -> None:
            try:
                returned.append(context.run(work))
            except BaseException as error:  # noqa: BLE001 # raised in the task that waits
                raised.append(error)
            finally:
                end_copy(process)
            with suppress(RunFinishedError, RuntimeError):  # the loop is closed
                anyio.from_thread.run_sync(ended.set, token=token)

        try:
            threading.Thread(target=run, name=f"supervisor {self.name}", daemon=True).start()
        except RuntimeError:  # the machine has no more threads
            self._give_back()
            raise
        self.has_begun = True
        try:
            for hear in began_or_ended:
                hear(1)
            with anyio.CancelScope(shield=True) as self._thread:
                await ended.wait()
        finally:
            for hear in began_or_ended:
                hear(-1)
            self._give_back()
        if raised:
            raise raised.pop()
        if not returned:
            raise RunStopping(LEFT)
        return returned.pop()

    async def follow(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Be the task of the body. What the body raises is its caller's."""
        assert self.ended is not None
        try:
            if not self.is_told:
                with anyio.CancelScope() as self._scope:
                    self.has_begun = True
                    try:
                        self.value = await work()
                        self.has_value = True
                    except BaseException as error:
                        self.error = error
                        raise
        except BaseException as error:
            if isinstance(error, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -inf:
                raise  # of the whole group
        finally:
            self.ended.set()
            self._bodies.has_ended(self)

    def leave(self) -> None:
        """Go on without the body, which runs on."""
        self.is_left = True
        self.left_at = anyio.current_time()
        self._give_back()

    def forsake(self) -> None:
        """Wait no more for the thread: the loop ends before it."""
        if self._thread is not None:
            self._thread.cancel()

    def _give_back(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._bodies.limiter.release_on_behalf_of(self)


def runs_on(running: Running) -> str:
    """Return what the result of a call says of its function, if that was left."""
    return "; its function has not ended, and what it does from now on is not known" if running.is_left else ""


LEFT: Final = "the call or step has ended without its function, which did not end in time; nothing more of it counts"


class Bodies:
    """The bodies of a runner, or of a worker. Make it inside the loop. `start` starts a task of no attempt."""

    def __init__(self, start: Callable[[Callable[..., Coroutine[Any, Any, None]], Any], object]) -> None:
        self._start = start
        self.limiter = anyio.CapacityLimiter(MOST_THREADS)
        self.thread, self.token = threading.get_ident(), current_token()
        self.running: dict[Running, None] = {}
        """The bodies that run. Left ones are among them."""
        self._again: dict[tuple[str, str], Running] = {}
        """Those that may be begun again, by session and operation."""
        self.left: dict[Running, None] = {}

    @property
    def refusal(self) -> str:
        """Why no new body may begin; "" if one may."""
        if len(self.left) < MOST_LEFT:
            return ""
        names = ", ".join(dict.fromkeys(each.name for each in self.left))
        return (
            f"nothing ran: {len(self.left)} functions still run in this process although their calls and steps have "
            f"ended ({names}). Give what they wait for a timeout, and start the process again"
        )

    def is_ending(self, session: str) -> bool:
        """Whether a body of a session was told to end, and is still waited for."""
        return any(each.is_told and not each.is_left and each.session == session for each in self.running)

    async def run(self, running: Running, work: Callable[[], Awaitable[Any]], deadline: float = inf) -> Any:
        """Run a body, and return what it returns or raise what it raises. Raises DeadlinePassed.

        If the caller is cancelled, that is `running.cancellation`, and the body is told to end. If it returns or raises
        something all the same, so does this method, and the caller raises the cancellation afterwards.
        """
        is_late = False
        try:
            if deadline == inf:
                await self._run(running, work)
            else:
                with anyio.CancelScope(deadline=deadline) as scope:
                    await self._run(running, work)
                is_late = scope.cancelled_caught
        except anyio.get_cancelled_exc_class() as cancelled:
            running.cancellation = cancelled
        if running.ended is None:  # it has not begun
            raise running.cancellation or DeadlinePassed(has_begun=False)
        if not running.ended.is_set():
            await self._end(running, running.ended)
        if running.has_value:
            return running.value
        return self._raise(running, is_late=is_late)

    async def _run(self, running: Running, work: Callable[[], Awaitable[Any]]) -> None:
        key = running.session, running.operation
        if running.begins_again:
            while (before := self._again.get(key)) is not None and before.ended is not None:
                await before.ended.wait()
            self._again[key] = running
        self.running[running] = None
        running.ended = anyio.Event()
        self._start(running.follow, work)
        await running.ended.wait()

    async def _end(self, running: Running, ended: anyio.Event) -> None:
        """Tell a body to end, and wait until it has, or leave it."""
        running.tell()
        try:
            with anyio.move_on_after(GRACE_SECONDS, shield=True):
                await ended.wait()
        except anyio.get_cancelled_exc_class() as cancelled:  # a native one: the program ends
            running.cancellation = cancelled
        if not ended.is_set():
            running.leave()
            self.left[running] = None
            log.error("body.left", body=running.name, hint="give what it waits for a timeout of its own")

    def _raise(self, running: Running, *, is_late: bool) -> NoReturn:
        """Raise what ends the call of a body that has returned nothing."""
        error = None if running.is_left else running.error
        if is_late and error is not None:
            error = _without_cancellations(error)
        raise error or running.cancellation or DeadlinePassed(has_begun=running.has_begun)

    def has_ended(self, running: Running) -> None:
        del self.running[running]
        if running.begins_again:
            del self._again[running.session, running.operation]
        if running in self.left:
            del self.left[running]
            how = "returned" if running.has_value else f"raised {type(running.error).__name__}"
            log.warning("body.ended_late", body=running.name, how=how, hint="its result was dropped")

    def forsake_threads(self) -> None:
        """Let the tasks end that only wait for threads: the supervisor closes."""
        self.left.clear()
        for running in list(self.running):
            running.forsake()


def _without_cancellations(error: BaseException) -> BaseException | None:
    """Return what else an exception says than that a body was cancelled."""
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return error.split(cancelled)[1]
    return None if isinstance(error, cancelled) else error
