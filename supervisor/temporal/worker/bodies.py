"""The bodies of calls and steps, as activities of a worker.

Rules
- Before the effect, the server acknowledges a mark: an executing body is never mistaken for one that has not begun.
- Signs of life are sent as long as the process lives, and say nothing about progress. The deadline of a call and the
  watch over a step are kept here.
- A body always ends with a document, also if it raises. Only a step whose worker is stopped raises, and runs again.
- A body whose mark is not acknowledged ends as one that has not begun: it was cancelled, or the server is gone.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import anyio
from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from supervisor.core.declarations.signatures import accepts_context, hint_of, signature_of
from supervisor.core.declarations.tool_context import NewJob, ProcessToolContext, StepContext
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, ToolFailed, UnknownAgent
from supervisor.core.models import dump, read_model
from supervisor.core.values import JobView, ToolResult
from supervisor.runtime.attempt.tracebacks import secrets_in, text_of, traceback_of
from supervisor.runtime.operations.function_calls import CONNECTION_LOST
from supervisor.temporal.wire import BODY, NOT_HERE, BodyRequest, BodyResult, from_wire, plain_of, to_wire
from supervisor.temporal.worker.offered import Offered, resolve

PULSE_SECONDS: Final = 0.5
"""Seconds between two signs of life. temporalio passes on fewer of them."""


class Bodies:
    """Runs the bodies of calls and steps on a worker, as far as it offers them."""

    def __init__(self, offered: Offered) -> None:
        self._offered = offered

    @activity.defn(name=BODY)
    async def run(self, document: dict[str, Any]) -> Any:
        """Run the body of a call or a step, and return how it ended."""
        request = from_wire(document, BodyRequest)
        try:
            found = resolve(request.reference)
            if isinstance(found, ToolSpec) != (request.kind == "call"):
                raise UnknownAgent(f"{request.reference} is no {request.kind} in the code of this worker")
        except UnknownAgent as error:
            raise ApplicationError(str(error), type=NOT_HERE) from None
        try:
            self._offered.check(request.reference, found)
        except InvalidInput as error:
            return to_wire(BodyResult(kind="raised", error="InvalidInput", text=str(error), has_begun=False))
        return to_wire(await _Body(request, found).run())


class _Body:
    def __init__(self, request: BodyRequest, found: ToolSpec[..., Any] | Callable[..., Any]) -> None:
        self._request = request
        self._found = found
        self._mark = {"executing": True, "host": socket.gethostname(), "pid": os.getpid()}
        self._beat = anyio.current_time()
        self._scope = anyio.CancelScope()
        self._left: ToolResult[Any] | None = None
        self._has_stalled = False

    def heartbeat(self) -> None:
        self._beat = anyio.current_time()

    def leave(self, result: ToolResult[Any]) -> None:
        self._left = result

    async def run(self) -> BodyResult:
        request = self._request
        try:
            fn, args, kwargs = self._decoded()
        except InvalidInput as error:
            return BodyResult(kind="raised", error="InvalidInput", text=str(error), has_begun=False)
        has_begun = False
        try:
            await _handle().heartbeat(self._mark)
            has_begun = True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._show_life)
                with self._scope:
                    self._scope.deadline = anyio.current_time() + (request.timeout or float("inf"))
                    ended = await self._end(fn(*args, **kwargs))
                tasks.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            if request.kind == "step" and activity.is_worker_shutdown():
                raise
            left = None if self._left is None else to_wire(self._left)
            return BodyResult(kind="cancelled", value=left, has_begun=has_begun)
        except (AsyncActivityCancelledError, RPCError) as error:  # of the mark
            return BodyResult(kind="cancelled", text=str(error), has_begun=False)
        if self._scope.cancelled_caught:
            text = f"no progress for {request.inactivity_timeout:g} s"
            return BodyResult(kind="stalled", text=text) if self._has_stalled else BodyResult(kind="deadline")
        return ended

    def _decoded(self) -> tuple[Callable[..., Awaitable[Any]], tuple[Any, ...], Mapping[str, Any]]:
        """Return the function and its arguments, as their types. Raises InvalidInput."""
        found, request = self._found, self._request
        if isinstance(found, ToolSpec):
            args, kwargs = found.spread(found.decode_arguments(to_json(request.arguments, "arguments")))
            return found.fn, (_ToolContext(self, request), *args) if found.takes_context else args, kwargs
        has_context = accepts_context(found, StepContext)
        bound = signature_of(found).bind(*(None,) * has_context, *request.positional, **request.arguments)
        for name in [*bound.arguments][has_context:]:
            what = f"argument {name} of step {request.name}"
            hint = hint_of(found, name)
            kind = bound.signature.parameters[name].kind
            if kind is kind.VAR_POSITIONAL:
                hint = tuple.__class_getitem__((hint, ...))
            elif kind is kind.VAR_KEYWORD:
                hint = dict.__class_getitem__((str, hint))
            bound.arguments[name] = read_model(to_json(bound.arguments[name], what), hint, what)
        context = (_StepContext(self, request.operation),) if has_context else ()
        return found, (*context, *bound.args[has_context:]), bound.kwargs

    async def _end(self, body: Awaitable[Any]) -> BodyResult:
        """Await the body, and return how it ended."""
        is_call = self._request.kind == "call"
        kind: Literal["value", "result", "failed"]
        try:
            value = await body
            kind, text = "result" if is_call and isinstance(value, ToolResult) else "value", ""
        except Exception as error:  # noqa: BLE001 # a body is the user's code, and its exception is its result
            if not is_call or not isinstance(error, ToolFailed):
                return self._raised(error)
            kind, text, value = "failed", error.content, error.details
        try:
            what, largest = f"the result of {self._request.name}", self._request.largest
            if kind == "failed":
                plain_of((text, value), what, largest)
            return BodyResult(
                kind=kind, text=text, value=plain_of(value, what, largest, hook=None if is_call else dump)
            )
        except InvalidInput as error:
            return BodyResult(kind="misfit", text=str(error))

    def _raised(self, error: Exception) -> BodyResult:
        secrets = set[str]()
        if isinstance(self._found, ToolSpec) and self._found.secret:
            secrets = secrets_in(to_json(self._request.arguments, "arguments"), self._found.secret)
        return BodyResult(
            kind="raised",
            error=type(error).__name__,
            text=text_of(error),
            traceback=traceback_of(error, secrets),
            is_connection=isinstance(error, CONNECTION_LOST),
        )

    async def _show_life(self) -> None:
        while True:
            await anyio.sleep(
                PULSE_SECONDS
            )  # the mark was a sign of life, too: a short body costs the server no second one
            activity.heartbeat(self._mark)
            budget = self._request.inactivity_timeout
            if self._request.kind == "step" and anyio.current_time() - self._beat > budget:
                self._has_stalled = True
                self._scope.cancel()
                return


def _handle() -> AsyncActivityHandle:
    return activity.client().get_async_activity_handle(task_token=activity.info().task_token)


class _StepContext(StepContext):
    def __init__(self, body: _Body, operation: str) -> None:
        self._body = body
        self.operation = operation

    def heartbeat(self) -> None:
        self._body.heartbeat()

    def stream(self, piece: str, /) -> None:
        self._body.heartbeat()  # the agent's text is in the process of its workflow, which may be another one


class _ToolContext(ProcessToolContext):
    """The context that a tool has of its call on a worker."""

    def __init__(self, body: _Body, request: BodyRequest) -> None:
        assert request.facts is not None, "a tool with a context has the facts of its call"
        self._body = body
        self.operation, self.session = request.operation, request.session
        self.requester, self.cwd = request.facts.requester, request.facts.cwd
        self._is_allowed = request.facts.is_allowed

    @property
    def is_allowed(self) -> bool:
        return self._is_allowed

    @property
    def is_cancelled(self) -> bool:
        return activity.is_cancelled()

    def heartbeat(self) -> None:
        self._body.heartbeat()

    def leave(self, result: ToolResult[Any]) -> None:
        self._body.leave(result)

    @property
    def jobs(self) -> Mapping[str, JobView]:
        return {}

    @property
    def job_folder(self) -> str:
        raise ToolFailed(NO_JOBS, reason="not_on_temporal", effect="none")

    async def started(self, pid: int, started_at: float | None, job: NewJob | None = None) -> None:
        """Do nothing: the call counts as executing already. A background job would belong to this machine."""
        if job is not None:
            raise ToolFailed(NO_JOBS, reason="not_on_temporal", effect="none")


NO_JOBS: Final = (
    "background jobs stay on one machine, and this agent runs on Temporal: run the command in the foreground, with a "
    "longer timeout"
)
