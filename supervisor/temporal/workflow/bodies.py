"""The bodies of calls and steps, as a workflow has them: activities, which any worker runs (worker/bodies.py).

Rules
- A body has one attempt, unless its tool is idempotent or it is a step. Before its effect it leaves a mark that the
  server has acknowledged. A worker that is lost without the mark has begun nothing, and the body runs on another one.
  With the mark the call is interrupted: it may have run. A step, and a call of an idempotent tool, runs again, as after
  the death of a process on one machine.
- A body that is to be tried again waits, and does not hold its tree: if the tree goes on in a new workflow meanwhile,
  it is tried there. So is a step that stalls while the tree is about to go on: nothing stalls a run then.
- What one task of the workflow asks for is one message to the server, which takes 4 MiB, or else ends the workflow. So
  the arguments of the bodies that one task starts have a limit. More bodies wait for the next one, which a timer makes.
- The activity keeps the deadline of a call and watches over a step. So no timer of the workflow stands for them.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

import anyio
import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    TimeoutError as ActivityTimeout,
    TimeoutType,
)

from supervisor.core.declarations.tool_context import StepContext, ToolContext
from supervisor.core.errors import InvalidInput, Suspended, ToolFailed
from supervisor.core.models import dump
from supervisor.core.values import LOST, ToolResult
from supervisor.runtime.environment import Body
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.operations.calls import Denied
from supervisor.temporal.wire import (
    BODY,
    INLINE_BYTES,
    LARGEST_BYTES,
    NOT_HERE,
    BodyRequest,
    BodyResult,
    CallFacts,
    from_wire,
    plain_of,
    queue_of,
    to_wire,
)
from supervisor.temporal.workflow.bridge import wait_for
from supervisor.temporal.workflow.known import Known
from supervisor.temporal.workflow.references import refer

UNBOUNDED: Final = timedelta(days=3650)
MARGIN: Final = timedelta(seconds=60)
"""How much later than a body's own deadline the server gives up waiting for it."""
LONGEST_PAUSE_SECONDS: Final = 60.0
HURRY: Final = "supervisor_hurry"
"""The name of the function with which a worker tells a body of its own that it is cancelled."""
MOST_ASKED_BYTES: Final = 2560 * 1024
"""Bytes of arguments that one task of the workflow sends. A codec may add to them, and the memo goes along."""


class TreeBodies:
    """The bodies of a tree. `attempts` returns those of its runtime, which learn when a body runs no more. `rules`:
    those that the tree knows, which bodies compare; None: each call has read them."""

    def __init__(
        self, attempts: Callable[[], Attempts], lost_after: float, largest: int, rules: Known | None = None
    ) -> None:
        self._attempts = attempts
        self._rules = rules
        self._lost_after = timedelta(seconds=lost_after)
        self._largest = largest
        self._numbers: dict[str, int] = {}
        self._asked = workflow.now(), 0
        """The latest task of the workflow that has started bodies, by its time, and the bytes of their arguments."""
        self._next_task: anyio.Event | None = None
        """Set when the next task of the workflow has come; None if none is waited for."""
        self.running: dict[str, str] = {}
        """The bodies that run, or wait for a worker, with the names of their functions."""
        self.paused: dict[tuple[str, str], str] = {}
        """The bodies that wait to be tried again, by session and operation, with their kind."""

    async def run(self, body: Body) -> Any:
        """Run a body on a worker; see Environment.run_body."""
        key = _key_of(body)
        self.running[key] = body.name
        try:
            return await self._run(body)
        finally:
            self.running.pop(key, None)

    @property
    def paused_calls(self) -> int:
        return sum(kind == "call" for kind in self.paused.values())

    async def _pause(self, body: Body, seconds: float) -> None:
        """Wait until a body is to be tried again: not while nothing new is to begin in this workflow. Raises
        Suspended if the tree leaves it: the call has no result."""
        attempts = self._attempts()
        key = body.session, body.operation
        del self.running[_key_of(body)]
        self.paused[key] = body.kind
        attempts.note_change()
        try:
            await anyio.sleep(seconds)
            await attempts.wait_until(lambda: not attempts.is_draining)
        except anyio.get_cancelled_exc_class():
            if attempts.is_closed:  # the next workflow is told of it
                raise Suspended from None
            del self.paused[key]
            raise
        del self.paused[key]
        self.running[_key_of(body)] = body.name

    async def _run(self, body: Body) -> Any:
        request = to_wire(_request(body, self._largest))
        rules = None if body.recheck is None else self._rules
        size = self._size_of(request)
        pause = 1.0
        while True:
            await self._wait_for_room(size)
            at = workflow.now()
            if rules is not None:
                request["rules"] = rules.version
            handle = self._start(body, request)
            cancellation = await wait_for(handle, partial(self._hurry, body))
            found = _found(handle)
            _take_used(body, found)
            if found.kind == "rules":
                if cancellation is not None:
                    raise cancellation
                assert rules is not None
                assert body.recheck is not None
                rules.take(found.value, at)
                request["ruled"] = msgspec.to_builtins(await body.recheck(rules.rules))
                continue
            if rules is not None and found.has_begun and found.kind != "lost":
                rules.confirm(request["rules"], at)
            if found.kind == "stalled" and not self._attempts().is_draining:
                body.stall(found.text)
                await anyio.Event().wait()
            if found.kind not in ("cancelled", "lost", "stalled"):
                return _end(body, found)
            _leave(body, found)
            runs_again = body.is_idempotent or not found.has_begun
            if cancellation is not None and (runs_again or found.kind == "cancelled"):
                raise cancellation
            if not runs_again:
                return _lost(found.text or "its worker was stopped")
            await self._pause(body, pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _size_of(self, request: Any) -> int:
        """Return how many bytes of a message to the server a request takes, at most."""
        size: int = workflow.payload_converter().to_payload(request).ByteSize()
        return (
            size if self._largest == LARGEST_BYTES else min(size, INLINE_BYTES)
        )  # there is a folder for what is larger

    async def _wait_for_room(self, size: int) -> None:
        """Wait for a task of the workflow that can send so many bytes more. There is one timer for all who wait."""
        while self._asked[0] == workflow.now() and self._asked[1] + size > MOST_ASKED_BYTES:
            if self._next_task is not None:
                await self._next_task.wait()
                continue
            self._next_task = anyio.Event()
            try:
                await anyio.sleep(0.001)
            finally:
                self._next_task.set()
                self._next_task = None
        at, asked = self._asked
        self._asked = workflow.now(), size + (asked if at == workflow.now() else 0)

    def _name_of(self, body: Body) -> str:
        """Return the id of the latest activity of a body."""
        key = _key_of(body)
        return key if (number := self._numbers[key]) == 1 else f"{key} {number}"

    def _hurry(self, body: Body) -> None:
        """Let a body that is cancelled learn of it at once, if it runs in this process."""
        if not workflow.unsafe.is_replaying():
            workflow.extern_functions()[HURRY](workflow.info().workflow_id, self._name_of(body))

    def _start(self, body: Body, request: Any) -> Any:
        key = _key_of(body)
        self._numbers[key] = self._numbers.get(key, 0) + 1
        return workflow.start_activity(
            BODY,
            request,
            task_queue=None if body.queue is None else queue_of(body.queue),
            activity_id=self._name_of(body),
            summary=request["name"],
            start_to_close_timeout=UNBOUNDED if body.timeout is None else timedelta(seconds=body.timeout) + MARGIN,
            heartbeat_timeout=self._lost_after,
            retry_policy=RetryPolicy(maximum_attempts=1),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


def _key_of(body: Body) -> str:
    return f"{body.session} {body.run} {body.operation}"


def _request(body: Body, largest: int) -> BodyRequest:
    context = body.args[0] if body.args and isinstance(body.args[0], ToolContext | StepContext) else None
    positional = body.args if context is None else body.args[1:]
    facts = None
    if isinstance(context, ToolContext):
        facts = CallFacts(requester=context.requester, cwd=context.cwd, is_allowed=context.is_allowed)
    what = f"an argument of {body.fn.__qualname__}" if hasattr(body.fn, "__qualname__") else "an argument"
    hook = dump if body.kind == "step" else None
    return BodyRequest(
        kind=body.kind,
        reference=refer(body.fn),
        name=getattr(body.fn, "__qualname__", body.kind),
        session=body.session,
        operation=body.operation,
        arguments=plain_of(dict(body.kwargs), what, largest, hook=hook),
        positional=plain_of([*positional], what, largest, hook=hook),
        timeout=body.timeout,
        inactivity_timeout=body.inactivity_timeout,
        facts=facts,
        largest=largest,
        ruled=body.ruled,
    )


def _is_not_here(cause: BaseException | None) -> bool:
    """Return whether a worker lacks the function, or the payload of the arguments, which temporalio decodes: its error
    has ours as its cause."""
    while isinstance(cause, ApplicationError):
        if cause.type == NOT_HERE:
            return True
        cause = cause.cause
    return False


def _is_before_mark(cause: BaseException | None) -> bool:
    """Return whether a body was lost before its mark was acknowledged."""
    return (
        isinstance(cause, ActivityTimeout) and cause.type == TimeoutType.HEARTBEAT and not cause.last_heartbeat_details
    )


def _take_used(body: Body, found: BodyResult) -> None:
    """Count what a body has used of models, however it has ended."""
    if body.args and (take := getattr(body.args[0], "take_used", None)) is not None:
        for usage in found.used:
            take(usage)


def _leave(body: Body, found: BodyResult) -> None:
    """Let the call have what its tool left when it was cancelled, as in this process."""
    if body.args and isinstance(body.args[0], ToolContext) and found.value is not None:
        body.args[0].leave(msgspec.convert(found.value, ToolResult[Any]))


def _found(handle: Any) -> BodyResult:
    """Return how a body has ended, also if its worker has not said it."""
    try:
        return from_wire(handle.result(), BodyResult)
    except ActivityError as error:
        cause = error.cause
        return BodyResult(
            kind="cancelled" if isinstance(cause, CancelledError) else "lost",
            text=str(cause),
            has_begun=not _is_not_here(cause) and not _is_before_mark(cause),
        )


def _lost(cause: str) -> ToolResult[Any]:
    details = {"reason": "lost", "effect": "maybe", "synthesised": True}
    return ToolResult(kind="interrupted", content=f"{LOST} The command may have run ({cause}).", details=details)


def _end(body: Body, found: BodyResult) -> Any:
    """Return what the body returned, or raise what it raised."""
    match found.kind:
        case "value":
            return found.value
        case "result":
            return msgspec.convert(found.value, ToolResult[Any])
        case "failed":
            raise ToolFailed(found.text, **found.value)
        case "deadline":
            details = {"reason": "deadline", "effect": "maybe", "timeout": body.timeout}
            text = f"the call did not end within its deadline of {body.timeout:g} s{found.text}"
            return ToolResult(kind="error", content=text, details=details)
        case "denied":
            raise Denied(found.text)
        case "misfit" if body.kind == "step":
            raise InvalidInput(found.text)
        case "misfit":
            details = {"reason": "invalid_result", "effect": "done"}
            return ToolResult(kind="error", content=found.text, details=details)
        case _:
            raise _error(found)


def _error(found: BodyResult) -> Exception:
    """Return an exception with the type and the text of one that a body raised on a worker."""
    base = (_Raised, ConnectionError) if found.is_connection else (_Raised,)
    error = type(found.error or "Exception", base, {})(found.text)
    error.__cause__ = _Traceback(found.traceback)
    assert isinstance(error, Exception)
    return error


class _Raised(Exception):
    """An exception of a body, as the workflow has it."""


class _Traceback(Exception):
    """The traceback on the worker, as the cause of the exception."""
