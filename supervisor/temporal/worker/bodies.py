"""The bodies of calls and steps, as activities of a worker.

Rules
- Before the effect, the server acknowledges a mark: an executing body is never mistaken for one that has not begun.
- Signs of life are sent as long as the process lives, and say nothing about progress. The deadline of a call and the
  watch over a step are kept here.
- A body always ends with a document, also if it raises. Only a step whose worker is stopped raises, and runs again.
- A body whose mark is not acknowledged ends as one that has not begun: it was cancelled, or the server is gone.
- The rules are compared in the same instant as the mark is left. If they are others, or cannot be read, nothing begins.
- A body that does not end in time is left (runtime/attempt/bodies.py). Its task outlives its activity, and keeps no
  worker from leaving.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context, copy_context
from functools import partial
from inspect import isawaitable
from math import inf
from typing import Any, Final, Literal

import anyio
from msgspec.structs import replace
from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.rules import named_paths, policy_of
from supervisor.core.declarations.signatures import accepts_context, hint_of, is_plain, signature_of
from supervisor.core.declarations.tool_context import NewJob, ProcessToolContext, StepContext
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.encoding import printable_text, to_json
from supervisor.core.errors import InvalidInput, ToolFailed, UnknownAgent
from supervisor.core.models import dump, read_model
from supervisor.core.usage import Usage, checked_usage
from supervisor.core.values import JobView, ToolResult
from supervisor.runtime.attempt.bodies import Bodies as RunningBodies, DeadlinePassed, Running, runs_on
from supervisor.runtime.attempt.tracebacks import secrets_in, text_of, traceback_of
from supervisor.runtime.environment import Ruled
from supervisor.runtime.operations.function_calls import CONNECTION_LOST
from supervisor.runtime.plans.rules import why_not_begun
from supervisor.system.prices import Prices, priced
from supervisor.system.settling import files_of_ours, settle
from supervisor.temporal.rules import NamespaceRules
from supervisor.temporal.wire import BODY, NOT_HERE, BodyRequest, BodyResult, KnownRules, from_wire, plain_of, to_wire
from supervisor.temporal.worker.couriers import QUEUE_MARK, Couriers
from supervisor.temporal.worker.offered import Offered, resolve

PULSE_SECONDS: Final = 0.5
"""Seconds between two looks at a body, of which every second one is a sign of life."""
HURRY_SECONDS: Final = (0.03, 0.2)
"""When a body shows life after it was asked to hurry: the answer tells it that it is cancelled."""


class Bodies:
    """Runs the bodies of calls and steps on a worker, as far as it offers them."""

    def __init__(self, offered: Offered, rules: NamespaceRules, couriers: Couriers, prices: Prices) -> None:
        self._offered = offered
        self._couriers = couriers
        self._rules = rules
        self._prices = prices
        self._tasks = set[asyncio.Task[None]]()
        self._running = RunningBodies(self._start)
        self._here: dict[tuple[str, str], _Body] = {}
        """The bodies of this process, by their workflows and the ids of their activities."""
        self._loop = asyncio.get_running_loop()

    def hurry(self, workflow: str, activity_id: str) -> None:
        """Let a body learn of its cancel at once, wherever it runs. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._hurry, workflow, activity_id)

    def _hurry(self, workflow: str, activity_id: str) -> None:
        if not self._hurry_here(workflow, activity_id) and self._couriers.ask(workflow, activity_id):
            self._start(self._couriers.send, workflow)

    def take_courier(self, workflow: str, activity_id: str) -> None:
        """Let a body of this process learn of its cancel, which another worker has heard of. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._hurry_here, workflow, activity_id)

    def _hurry_here(self, workflow: str, activity_id: str) -> bool:
        """Let a body learn of its cancel, if it runs here. Return whether it does."""
        if (body := self._here.get((workflow, activity_id))) is None:
            return False
        for after in HURRY_SECONDS:
            self._loop.call_later(after, body.show_life)
        return True

    def _start(self, fn: Callable[..., Coroutine[Any, Any, None]], work: Any) -> None:
        task = asyncio.get_running_loop().create_task(fn(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        info = activity.info()
        key = info.workflow_id or "", info.activity_id
        self._here[key] = body = _Body(request, found, self._running, self._rules, self._prices, self._couriers.queue)
        try:
            return to_wire(await body.run())
        finally:
            self._here.pop(key, None)


class _Body:
    def __init__(
        self,
        request: BodyRequest,
        found: ToolSpec[..., Any] | Callable[..., Any],
        bodies: RunningBodies,
        rules: NamespaceRules,
        prices: Prices,
        queue: str,
    ) -> None:
        self._request = request
        self._rules = rules
        self._found = found
        self._bodies = bodies
        named = request.session, "", request.operation, f"{request.kind} {request.name}"
        self.running = Running(bodies, *named, begins_again=not isinstance(found, ToolSpec) or found.idempotent)
        self._mark = {"executing": True, "host": socket.gethostname(), "pid": os.getpid(), QUEUE_MARK: queue}
        self._beat = anyio.current_time()
        self._scope = anyio.CancelScope()
        """Cancelled if a step stalls."""
        self._left: ToolResult[Any] | None = None
        self._prices = prices
        self._beats: Context | None = None
        """The context of its activity, once it shows life."""
        self._used: list[Usage] = []

    def use(self, usage: Usage) -> None:
        given = checked_usage(usage)
        given = replace(given, model=printable_text(given.model))
        self.running.in_loop(lambda: self._used.append(priced(given, self._prices)))

    def heartbeat(self) -> None:
        self._beat = anyio.current_time()

    def leave(self, result: ToolResult[Any]) -> None:
        self._left = result

    async def run(self) -> BodyResult:
        """Run the body; return how it has ended, and what it has used of models."""
        ended = await self._run()
        return replace(ended, used=self._used) if self._used else ended

    async def _run(self) -> BodyResult:
        request = self._request
        if request.ruled is not None and (why := _why_denied(request, request.ruled)) is not None:
            return BodyResult(kind="denied", text=why, has_begun=False)
        try:
            fn, args, kwargs = self._decoded()
        except InvalidInput as error:
            return BodyResult(kind="raised", error="InvalidInput", text=str(error), has_begun=False)
        if why := self._bodies.refusal:
            if request.kind == "call":
                return BodyResult(kind="failed", text=why, value={"reason": "too_many_left", "effect": "none"})
            return BodyResult(kind="raised", error="LimitExceeded", text=why)
        has_begun = False
        try:
            if (others := await self._leave_mark()) is not None:
                return BodyResult(kind="rules", value=to_wire(others), has_begun=False)
            has_begun = True
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._show_life)
                with self._scope:
                    ended = await self._end(partial(fn, *args, **kwargs))
                tasks.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            if request.kind == "step" and activity.is_worker_shutdown():
                raise
            left = None if self._left is None else to_wire(self._left)
            return BodyResult(kind="cancelled", value=left, has_begun=has_begun)
        except (AsyncActivityCancelledError, RPCError) as error:  # of the mark, or of the rules
            return BodyResult(kind="cancelled", text=str(error), has_begun=False)
        if self._scope.cancelled_caught:
            text = f"no progress for {request.inactivity_timeout:g} s"
            return BodyResult(kind="stalled", text=text)
        return ended

    async def _leave_mark(self) -> KnownRules | None:
        """Leave the mark. Return the rules if they are not those that let the call begin: both takes the time of one
        request."""
        if self._request.rules is None:
            await _handle().heartbeat(self._mark)
            return None
        await asyncio.gather(_handle().heartbeat(self._mark), self._rules.read())
        known = self._rules.standing.known()
        return None if known.version == self._request.rules else known

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

    async def _call(self, fn: Callable[[], Any]) -> Any:
        if is_plain(fn.func if isinstance(fn, partial) else fn):
            result = await self.running.in_thread(fn)
        else:
            result = fn()
        return await result if isawaitable(result) else result

    async def _end(self, fn: Callable[[], Any]) -> BodyResult:
        """Run the body, and return how it ended."""
        is_call = self._request.kind == "call"
        kind: Literal["value", "result", "failed"]
        deadline = anyio.current_time() + (self._request.timeout or inf)
        try:
            value = await self._bodies.run(self.running, partial(self._call, fn), deadline)
            kind, text = "result" if is_call and isinstance(value, ToolResult) else "value", ""
        except DeadlinePassed:
            return BodyResult(kind="deadline", text=runs_on(self.running))
        except Exception as error:  # noqa: BLE001 # a body is the user's code, and its exception is its result
            if not is_call or not isinstance(error, ToolFailed):
                return self._raised(error)
            kind, text, value = "failed", error.content, error.details
        try:
            what, largest = f"the result of {self._request.name}", self._request.largest
            if kind == "failed":
                plain_of((text, value), what, largest)
            elif kind == "result":
                plain_of(value.value, what, largest, exact=True)
            plain = plain_of(value, what, largest, exact=kind == "value", hook=None if is_call else dump)
            return BodyResult(kind=kind, text=text, value=plain)
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

    def show_life(self) -> None:
        if self._beats is not None:
            self._beats.run(activity.heartbeat, self._mark)

    async def _show_life(self) -> None:
        self._beats, is_second = copy_context(), True
        try:
            while not self._has_stalled():
                await anyio.sleep(PULSE_SECONDS)  # the mark was a sign of life, too: a short body costs no second one
                if is_second := not is_second:
                    activity.heartbeat(self._mark)
        finally:
            self._beats = None
        self._scope.cancel()

    def _has_stalled(self) -> bool:
        budget = self._request.inactivity_timeout
        return self._request.kind == "step" and anyio.current_time() - self._beat > budget


def _why_denied(request: BodyRequest, ruled: Ruled) -> str | None:
    """Return why the rules do not let a call begin here: its paths, and those of the rules, lead where they do on this
    machine."""
    content = shown_content(
        ruled.tool,
        request.positional[0] if request.positional else request.arguments,
        folder=ruled.folder,
        command=ruled.command,
        claims=ruled.claims,
        secret=ruled.secret,
        paths=ruled.paths,
        edits=ruled.edits,
    )
    settled = settle(named_paths(ruled.rules, content.arguments, content.paths, content.folder))
    said = policy_of(ruled.rules, content, root_session=ruled.root, settled=settled, ours=files_of_ours())
    return why_not_begun(said, ruled.own, ruled.tool, is_decided=ruled.is_decided, was_ruled=ruled.was_ruled)


def _handle() -> AsyncActivityHandle:
    return activity.client().get_async_activity_handle(task_token=activity.info().task_token)


class _StepContext(StepContext):
    def __init__(self, body: _Body, operation: str) -> None:
        self._body = body
        self.operation = operation

    def heartbeat(self) -> None:
        self._body.running.in_loop(self._body.heartbeat)

    def used(self, usage: Usage, /) -> None:
        self._body.use(usage)

    def stream(self, piece: str, /) -> None:
        self.heartbeat()  # the agent's text is in the process of its workflow, which may be another one


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
        return activity.is_cancelled() or self._body.running.is_told

    def heartbeat(self) -> None:
        self._body.running.in_loop(self._body.heartbeat)

    def used(self, usage: Usage, /) -> None:
        self._body.use(usage)

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
        self._body.running.check()
        if job is not None:
            raise ToolFailed(NO_JOBS, reason="not_on_temporal", effect="none")


NO_JOBS: Final = (
    "background jobs stay on one machine, and this agent runs on Temporal: run the command in the foreground, with a "
    "longer timeout"
)
