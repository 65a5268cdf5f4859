"""The environment of a runtime inside a workflow: time, ids and chance are the workflow's, and bodies are activities.

Rules
- A body has one attempt, unless its tool is idempotent or it is a step. Before its effect it leaves a mark that the
  server has acknowledged (supervisor/temporal/bodies.py). A worker that is lost without the mark has begun nothing, and
  the body runs on another one. With the mark the call is interrupted: it may have run. A step, and a call of an
  idempotent tool, runs again, as after the death of a process on one machine.
- The activity keeps the deadline of a call and watches over a step. So no timer of the workflow stands for them.
- A folder is not looked for here: it is one of the machine on which a call runs.
"""

from datetime import datetime, timedelta
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
    WorkflowAlreadyStartedError,
)

from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, ToolFailed
from supervisor.core.folders import folder_of_call
from supervisor.core.ids import approval_route
from supervisor.core.rules import Rule
from supervisor.core.toolcontext import StepContext, ToolContext
from supervisor.core.values import LOST, ToolResult
from supervisor.runtime.clock.clock import Clock
from supervisor.runtime.environment import Body, Environment
from supervisor.temporal.bridge import wait_for
from supervisor.temporal.references import refer
from supervisor.temporal.rulebook import RuleChange
from supervisor.temporal.wire import (
    ADD_RULE,
    BODY,
    CLAIMED,
    EXPIRY,
    LARGEST,
    ONCE,
    READ_RULES,
    BodyRequest,
    BodyResult,
    CallFacts,
    check_size,
    decision_id,
    from_wire,
    plain_of,
    to_wire,
)

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz234567"
NOT_HERE: Final = "NotHere"
"""The type of the error of a worker that does not have the function: nothing has begun."""
UNBOUNDED: Final = timedelta(days=3650)
MARGIN: Final = timedelta(seconds=60)
"""How much later than a body's own deadline the server gives up waiting for it."""
LONGEST_PAUSE: Final = 60.0


class WorkflowClock(Clock):
    """The clock of a workflow, which stands still between two of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self._measured = 0

    def now(self) -> datetime:
        return workflow.now()

    def duration(self) -> float:
        """Return an instant of a clock that counts how often it is read: it is the same in each replay."""
        self._measured += 1
        return self._measured * 1e-6


class WorkflowEnvironment(Environment):
    """Make it inside the workflow. `lost_after`: seconds without a sign of life after which a worker counts as lost.
    `largest`: bytes of JSON that the arguments or the result of a body may have."""

    runs_elsewhere = True
    claims_decisions = True
    shares_rules = True
    most_live = 1000

    def __init__(self, cwd: str, lost_after: float, largest: int = LARGEST) -> None:
        self.clock = WorkflowClock()
        self._cwd = cwd
        self._lost_after = timedelta(seconds=lost_after)
        self._largest = largest
        self._numbers: dict[str, int] = {}
        self._rules_added: anyio.Event | None = None
        """Set when the rules that decisions have made are in the namespace; None if there are none under way."""
        self.running = 0
        """The bodies that run, or wait for a worker."""

    def new_session_id(self) -> str:
        return self._random(22)

    def new_approval_id(self, root: str) -> str:
        return approval_route(root) + self._random(26)

    def new_rule_id(self) -> str:
        return self._random(8)

    def _random(self, length: int) -> str:
        return "".join(workflow.random().choices(LETTERS, k=length))

    def random(self) -> float:
        return workflow.random().random()

    def user(self) -> str:
        return "supervisor"

    def working_directory(self) -> str:
        return self._cwd

    def find_folder(self, named: str, base: str) -> str:
        path = folder_of_call(base, named)
        if not path.startswith("/"):
            raise InvalidInput(f"the folder {named!r} is relative to one that is not known; write an absolute path")
        return path

    def check_size(self, value: Any, what: str) -> None:
        check_size(to_json(value, what), what, self._largest)

    async def read_rules(self) -> tuple[Rule, ...]:
        """See Environment. It is no local activity: a replay gets the results of several of those at once, which came
        one after the other the first time, and would then write the memo less often."""
        while self._rules_added is not None:
            await self._rules_added.wait()
        found = await _ask_worker(READ_RULES)
        return tuple(from_wire(each, Rule) for each in found)

    async def add_rule(self, rule: Rule, by: str) -> str:
        """Add a rule that a decision has made to those of the namespace. Return the id of the rule that stands for it.
        One at a time."""
        assert self._rules_added is None, "decisions are made one after the other"
        self._rules_added = anyio.Event()
        try:
            return str(await _ask_worker(ADD_RULE, to_wire(RuleChange(by=by, at=workflow.now(), rule=rule))))
        finally:
            self._rules_added.set()
            self._rules_added = None

    async def claim_expiry(self, approval: str) -> bool:
        """See Environment. The claim may be this tree's own: it has moved to a new workflow before it could journal
        that the approval has expired."""
        with anyio.CancelScope(shield=True):  # a bare await in a cancelled scope would not return
            try:
                await workflow.start_child_workflow(
                    EXPIRY,
                    id=decision_id(approval),
                    id_reuse_policy=ONCE,
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                    memo={"decision": {"kind": "expired"}},
                )
                return True
            except WorkflowAlreadyStartedError:
                pass
        return bool(await _ask_worker(CLAIMED, approval) == "expired")

    async def run_body(self, body: Body) -> Any:
        self.running += 1
        try:
            return await self._run_body(body)
        finally:
            self.running -= 1

    async def _run_body(self, body: Body) -> Any:
        request = to_wire(_request(body, self._largest))
        pause = 1.0
        while True:
            handle = self._start(body, request)
            cancellation = await wait_for(handle)
            try:
                found = from_wire(handle.result(), BodyResult)
            except ActivityError as error:
                cause = error.cause
                runs_again = body.is_idempotent or _is_not_here(cause) or _is_before_mark(cause)
                if cancellation is not None and (runs_again or isinstance(cause, CancelledError)):
                    raise cancellation from None
                if not runs_again:
                    return _lost(cause)
            else:
                if found.kind == "stalled":
                    body.stall(found.text)
                    await anyio.Event().wait()
                if found.kind != "cancelled":
                    return _end(body, found)
                _leave(body, found)
                if cancellation is not None:
                    raise cancellation
                if found.has_begun and not body.is_idempotent:
                    return _lost(InvalidInput("its worker was stopped"))
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _start(self, body: Body, request: Any) -> Any:
        key = f"{body.session} {body.run} {body.operation}"
        self._numbers[key] = number = self._numbers.get(key, 0) + 1
        return workflow.start_activity(
            BODY,
            request,
            activity_id=key if number == 1 else f"{key} {number}",
            summary=request["name"],
            start_to_close_timeout=UNBOUNDED if body.timeout is None else timedelta(seconds=body.timeout) + MARGIN,
            heartbeat_timeout=self._lost_after,
            retry_policy=RetryPolicy(maximum_attempts=1),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


async def _ask_worker(name: str, *given: Any) -> Any:
    """Have a worker do something in the namespace that needs no mark, as soon as one can. Return what it returns."""
    handle = workflow.start_activity(
        name,
        args=given,
        start_to_close_timeout=timedelta(seconds=20),
        retry_policy=RetryPolicy(initial_interval=timedelta(seconds=0.2), maximum_interval=timedelta(seconds=5)),
    )
    cancellation = await wait_for(handle)
    if cancellation is not None:
        raise cancellation
    return handle.result()


def _request(body: Body, largest: int) -> BodyRequest:
    context = body.args[0] if body.args and isinstance(body.args[0], ToolContext | StepContext) else None
    positional = body.args if context is None else body.args[1:]
    facts = None
    if isinstance(context, ToolContext):
        facts = CallFacts(requester=context.requester, cwd=context.cwd, is_allowed=context.is_allowed)
    what = f"an argument of {body.fn.__qualname__}" if hasattr(body.fn, "__qualname__") else "an argument"
    return BodyRequest(
        kind=body.kind,
        reference=refer(body.fn),
        name=getattr(body.fn, "__qualname__", body.kind),
        session=body.session,
        operation=body.operation,
        arguments=plain_of(dict(body.kwargs), what, largest),
        positional=plain_of([*positional], what, largest),
        timeout=body.timeout,
        inactivity_timeout=body.inactivity_timeout,
        facts=facts,
        largest=largest,
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


def _leave(body: Body, found: BodyResult) -> None:
    """Let the call have what its tool left when it was cancelled, as in this process."""
    if body.args and isinstance(body.args[0], ToolContext) and found.value is not None:
        body.args[0].leave(msgspec.convert(found.value, ToolResult[Any]))


def _lost(cause: BaseException | None) -> ToolResult[Any]:
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
            text = f"the call did not end within its deadline of {body.timeout:g} s"
            return ToolResult(kind="error", content=text, details=details)
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
