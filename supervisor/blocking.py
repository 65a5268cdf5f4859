"""A supervisor for programs without an event loop: Flask, Django, Celery, scripts, notebooks.

Theory: the event loop runs in a daemon thread of its own, and anyio's BlockingPortal leads into it. Each method asks
it, and waits for the answer in the thread that calls.

Rules
- Any thread may call any method, at any time until `close`.
- A process that was forked from this one has no such thread. Every method refuses to work there, and says what to do.
- `close` waits for the runs that can go on, as leaving `supervisor.open_supervisor` does. The end of the interpreter
  stops them. In both cases runs that have not ended go on at the next start.
"""

import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Generic, Literal, ParamSpec, Self, TypeVar, overload

import anyio
from anyio.from_thread import BlockingPortal

from supervisor.core.declarations.agent_spec import AgentSpec, AgentWithoutInput
from supervisor.core.errors import SupervisorError
from supervisor.core.values import Approval, Decision, DecisionResult, Outcome, SendResult, SessionView
from supervisor.seam import supervisor as seam
from supervisor.seam.runs import Page, Run as AsyncRun
from supervisor.wiring import app

__all__ = ["BlockingRun", "BlockingSupervisor", "open_supervisor"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_HOW: Final = (
    "open one in this process, after the fork: gunicorn without --preload or in post_fork, Celery in "
    "worker_process_init, multiprocessing with the method spawn"
)


def open_supervisor(
    store: Any, /, *, backend: Literal["asyncio", "trio"] = "asyncio", **options: Any
) -> "BlockingSupervisor":
    """Open a store, and supervise the runs that are started or resumed on it, from any thread.

    Use it in a `with` block, or keep it as long as the process lives. `options`: those of
    `supervisor.open_supervisor`, which says what is raised, and what happens at the end.
    """
    return BlockingSupervisor(lambda: app.open_supervisor(store, **options), backend)


class BlockingRun(Generic[R]):
    """A run, as the program that started or resumed it sees it."""

    def __init__(self, supervisor: "BlockingSupervisor", run: AsyncRun[R]) -> None:
        self._supervisor = supervisor
        self._run = run
        self.session = run.session
        self.number = run.number
        self.is_new = run.is_new

    def result(self, timeout: float | None = None) -> R:
        """Wait for its result. Raises the RunError of its kind if it does not succeed; TimeoutError after `timeout`
        seconds, and the run goes on (W10)."""
        return self._supervisor.ask(_within, timeout, self._run.result)

    def outcome(self, timeout: float | None = None) -> Outcome[R]:
        """Wait for its outcome. Raises TimeoutError after `timeout` seconds, and the run goes on (W10)."""
        return self._supervisor.ask(_within, timeout, self._run.outcome)

    def find_outcome(self) -> Outcome[R] | None:
        """Return its outcome; None while it has not ended."""
        return self._supervisor.ask(self._run.find_outcome)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the run and all runs below it (W8)."""
        self._supervisor.ask(self._run.cancel, reason)


class BlockingSupervisor:
    """The methods of a Supervisor that programs without an event loop need. Each does what the method of that name does
    there, raises what it raises, and returns when it is done."""

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[seam.StoreSupervisor]],
        backend: Literal["asyncio", "trio"],
    ) -> None:
        self._process = os.getpid()
        self._is_open = False
        self._closing = threading.Lock()
        started = SimpleQueue[BlockingPortal | BaseException]()
        self._thread = threading.Thread(target=_run, args=(started, backend), name="supervisor", daemon=True)
        self._thread.start()
        if isinstance(portal := started.get(), BaseException):
            raise portal
        self._portal = portal
        self._opened = self._portal.wrap_async_context_manager(opening())
        try:
            self._supervisor = self._opened.__enter__()
        except BaseException:
            self._portal.start_task_soon(self._portal.stop)
            raise
        self._is_open = True
        atexit.register(self._stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close(kind, error, traceback)

    def close(self) -> None:
        """Close the store, when the runs that can go on have ended. Runs that wait go on at the next start."""
        self._close(None, None, None)

    def _stop(self) -> None:
        """Stop all runs so that they can be resumed, and close: the interpreter ends."""
        with suppress(SystemExit):
            self._close(SystemExit, SystemExit(), None)

    def _close(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if os.getpid() != self._process:
            return
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
        atexit.unregister(self._stop)
        try:
            self._opened.__exit__(kind, error, traceback)
        finally:
            self._portal.start_task_soon(self._portal.stop)
            self._thread.join()

    def ask(self, method: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call an asynchronous method in the loop of this supervisor, and return what it returns: for the methods that
        this class does not have, on `asynchronous`."""
        if os.getpid() != self._process:
            raise SupervisorError(
                f"process {self._process}, from which this one was forked, has opened this supervisor, and its event "
                f"loop is there; {_HOW}"
            )
        if not self._is_open:
            raise SupervisorError("this supervisor was closed; open the store again")

        async def call() -> T:
            return await method(*args, **kwargs)

        return self._portal.call(call)

    @property
    def asynchronous(self) -> seam.StoreSupervisor:
        """The supervisor whose methods `ask` calls."""
        return self._supervisor

    @overload
    def start(
        self, agent: AgentWithoutInput[R], /, *, session: str | None = None, requester: str | None = None, **more: Any
    ) -> BlockingRun[R]: ...
    @overload
    def start(
        self,
        agent: AgentSpec[[T], R],
        input: T,
        /,
        *,
        session: str | None = None,
        requester: str | None = None,
        **more: Any,
    ) -> BlockingRun[R]: ...
    @overload
    def start(
        self, agent: str, input: Any = ..., /, *, session: str | None = None, requester: str | None = None, **more: Any
    ) -> BlockingRun[Any]: ...
    def start(self, agent: Any, /, *args: Any, **options: Any) -> BlockingRun[Any]:
        """Start an agent, or continue its session: idempotent by the session's id."""
        return BlockingRun(self, self.ask(self._supervisor.start, agent, *args, **options))

    def resume(self, session: str, *, by: str | None = None) -> BlockingRun[Any]:
        """Claim the tree of a session and run it. Return the root's run."""
        return BlockingRun(self, self.ask(self._supervisor.resume, session, by=by))

    def get_run(self, session: str, *, number: int | None = None) -> BlockingRun[Any]:
        """Return the latest run of a session, or run `number`."""
        return BlockingRun(self, self.ask(self._supervisor.get_run, session, number=number))

    def result(self, session: str, timeout: float | None = None) -> Any:
        """Wait for the result of a session's latest run, as plain JSON. Raises as `BlockingRun.result`."""
        return self.get_run(session).result(timeout)

    def decide(self, approval: str, decision: Decision, *, channel: str | None = None) -> DecisionResult:
        """Decide an approval or answer a question, once. The first decision wins (A3)."""
        return self.ask(self._supervisor.decide, approval, decision, channel=channel)

    def decide_all(self, decisions: Iterable[tuple[str, Decision]], **options: Any) -> list[DecisionResult]:
        """Decide several calls by their ids, as one person; each counts by itself (A16)."""
        return self.ask(self._supervisor.decide_all, decisions, **options)

    def send(self, session: str, text: str, **options: Any) -> SendResult:
        """Send a message to a session."""
        return self.ask(self._supervisor.send, session, text, **options)

    def cancel(self, session: str, **options: Any) -> None:
        """Cancel a session and all sessions below it (W8)."""
        self.ask(self._supervisor.cancel, session, **options)

    def approvals(self, **options: Any) -> Sequence[Approval]:
        """Return the pending approvals, the oldest first. `options`: those of `Supervisor.find_approvals`."""
        found: Page[Approval] = self.ask(self._supervisor.find_approvals, **options)
        return found

    def get_approval(self, approval: str) -> Approval:
        """Return an approval, pending or not."""
        return self.ask(self._supervisor.get_approval, approval)

    def get_session(self, session: str) -> SessionView:
        """Return what is known of a session."""
        return self.ask(self._supervisor.get_session, session)


def _run(started: "SimpleQueue[BlockingPortal | BaseException]", backend: str) -> None:
    """Be the thread of a loop."""
    try:
        anyio.run(_serve, started, backend=backend)
    except BaseException as error:  # noqa: BLE001 # raised in the thread that has opened the supervisor
        started.put(error)


async def _serve(started: "SimpleQueue[BlockingPortal | BaseException]") -> None:
    async with BlockingPortal() as portal:
        started.put(portal)
        await portal.sleep_until_stopped()


async def _within(timeout: float | None, method: Callable[[], Awaitable[T]]) -> T:
    if timeout is None:
        return await method()
    with anyio.fail_after(timeout):
        return await method()
