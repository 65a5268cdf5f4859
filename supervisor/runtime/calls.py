"""Tool calls: asked once, run at most once, answered exactly once (T1, A1).

    journaled, with its approval -> decided -> `executing` committed -> effect -> result committed -> result returned

What a call finds in the journal says where it goes on: asked, it waits; approved, it runs; executing is a call that was
lost and whose tool is idempotent (recovery has answered every other one), so it runs; finished, it returns.

Rules
- Immediately before the effect: the digest of what was approved, the run's life, and the arguments' types are checked
  again (A9), inside the plan that commits `executing`.
- The result is committed whatever happened meanwhile; what a cancellation cut off is journaled as `interrupted` with
  its output so far, and the caller gets the cancellation, never a result.
- Cancelled by a scope of the agent's own, a call is abandoned: a re-run waits there until it is cancelled again.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import inf, nextafter
from typing import Any, Final, Literal, get_args, get_origin

import anyio
import msgspec

from supervisor.core import events as e
from supervisor.core.encoding import JSON_NULL, from_json, printable, to_json
from supervisor.core.errors import InvalidInput, RunStopping, ToolFailed
from supervisor.core.ids import digest, new_approval_id
from supervisor.core.rules import Rule, VerdictKind, verdict
from supervisor.core.session import Job, Operation, SessionState
from supervisor.core.tool_spec import ToolSpec
from supervisor.core.toolcontext import NewJob, ToolContext
from supervisor.core.values import Option, ResultKind, ToolResult
from supervisor.runtime.attempt import Attempt
from supervisor.runtime.identity import HOST, working_directory
from supervisor.runtime.journal import View

CONNECTION_LOST: Final = (
    ConnectionError,
    EOFError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)
"""What a tool raises when its far side has gone: the call may have been done there, and nobody knows (T1)."""
LARGEST_RESULT: Final = 16 * 1024 * 1024  # bytes of JSON that one result may add to the journal
Effect = Literal["none", "maybe", "done"]
_NOT_BEGUN: Final[Mapping[str, Any]] = {"reason": "cancelled", "effect": "none"}


class Call:
    """One call of one tool in one attempt."""

    def __init__(self, attempt: Attempt, branch: str, tool: ToolSpec[Any, Any], args: Any, kwargs: Any) -> None:
        passed, full = tool.bind(args, kwargs)
        if (timeout := attempt.spec.call_timeout) is not None and tool.keeps_deadline and "timeout" not in passed:
            full["timeout"] = timeout  # before anybody is asked: a person sees the deadline that will hold
        self.attempt = attempt
        self.tool = tool
        self.arguments = to_json(full, f"an argument of tool {tool.name}")
        self.typed = tool.decode_arguments(self.arguments)
        self.digest = digest(msgspec.to_builtins(full, order="deterministic"))
        named = msgspec.to_builtins(passed, order="deterministic")
        self.operation = attempt.name_operation(branch, "call", tool.name, named)

    async def run(self) -> ToolResult[Any]:
        attempt = self.attempt
        with attempt.operating():
            record = await attempt.enter(self.operation)
            if record is not None and record.state == "abandoned":
                await attempt.wait_for_scope()
            try:
                if record is None:
                    await self._request()
                await self._proceed(is_new=record is None)
            except anyio.get_cancelled_exc_class():
                if attempt.fate is None:
                    await self._abandon()
                raise
            finished = await attempt.take(self.operation)
        assert isinstance(finished.result, e.ToolCallFinished)
        return result_of(finished.result, self.tool)

    @property
    def record(self) -> Operation:
        return self.attempt.state.operations[self.operation]

    async def _request(self) -> None:
        """Journal the call, with its approval where a person must decide; where nobody must, it is executing at
        once."""
        ruled = self._ask_rules(self.arguments)
        asks = self.tool.needs_approval(self.typed) if ruled is None else ruled[0] == "ask"
        is_denied = ruled is not None and ruled[0] == "deny"
        if asks:
            await self.attempt.refuse_if_stopping()
        approval = new_approval_id() if asks else None

        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            if asks and (state.cancel is not None or self.attempt.fate is not None):
                raise RunStopping("the run was told to stop; nobody is asked any more")
            yield e.ToolCallRequested(
                at=self._now(),
                operation=self.operation,
                tool=self.tool.name,
                arguments=self.arguments,
                digest=self.digest,
                idempotent=self.tool.idempotent,
                approval=approval,
                options=(Option("once"),) if asks else (),
            )
            if not asks and not is_denied and not self.tool.starts_process:
                yield self._started()

        await self.attempt.append(plan)

    def _ask_rules(self, arguments: msgspec.Raw) -> tuple[VerdictKind, Rule] | None:
        """Return what the rules say of the call, None where the tool's own rule decides."""
        facts = self.attempt.state.facts
        rules = (*self.attempt.host.rules, *facts.rules)
        if not rules:
            return None
        values, cwd = msgspec.json.decode(arguments), working_directory()
        return verdict(rules, self.tool.name, values, cwd=cwd, root_session=facts.root)

    async def _proceed(self, *, is_new: bool) -> None:
        """Bring the call from wherever it is to its result."""
        if self.record.state == "asked":
            await self.attempt.wait(self.operation, self.operation, lambda: self.record.state != "asked")
        record = self.record
        if record.state == "denied":
            assert record.decision is not None
            await self._commit(denial(record.decision, self._now()))
        elif record.state == "withdrawn":
            gone = {"reason": "withdrawn", "effect": "none"}
            await self._finish("interrupted", "the approval was withdrawn", gone)
        elif record.is_open:
            await self._execute(record, is_executing=is_new and record.state == "executing")

    async def _execute(self, record: Operation, *, is_executing: bool) -> None:
        assert isinstance(record.request, e.ToolCallRequested)
        edited = record.decision is not None and record.decision.edited is not None
        try:
            if not edited and record.request.digest != self.digest:
                raise InvalidInput("the call's defaults have changed since it was approved; ask again")
            arguments = self.tool.decode_arguments(record.arguments)
        except InvalidInput as error:
            await self._finish("error", str(error), {"reason": "invalid_arguments", "effect": "none"})
            return
        ruled = self._ask_rules(record.arguments)
        if ruled is not None and ruled[0] == "deny":  # an edit, or a rule that came after the approval (A8, A9)
            await self._finish("denied", _forbidden(ruled[1]), _FORBIDDEN)
            return
        if not is_executing and not self.tool.starts_process:
            await self.commit_started(None, None)
        self.attempt.watch.pause(f"call:{self.operation}", "call")
        try:
            await self._act(_CallContext(self), arguments)
        finally:
            self.attempt.watch.resume(f"call:{self.operation}")

    async def _act(self, context: "_CallContext", arguments: Mapping[str, Any]) -> None:
        """The effect, and its result on disk whatever happens."""
        timeout = self.tool.timeout
        if timeout is not None:
            timeout = self.attempt.spec.call_timeout or timeout
        # Just behind the instant itself: what ends exactly with it has ended (T3).
        deadline = nextafter(anyio.current_time() + timeout, inf) if timeout is not None else inf
        try:
            with anyio.CancelScope(deadline=deadline) as scope:
                value = await self.tool.fn(*((context,) if self.tool.takes_context else ()), **arguments)
        except anyio.get_cancelled_exc_class():
            await self._interrupt(context)
            raise
        except ToolFailed as failure:
            await self._finish("error", failure.content, {"effect": context.effect, **failure.details})
        except RunStopping:
            raise
        except Exception as error:  # noqa: BLE001 # a tool is the user's code: whatever it raises is its result
            text = f"{type(error).__name__}: {error}"
            reason = "connection_lost" if isinstance(error, CONNECTION_LOST) else "exception"
            await self._finish("error", text, {"reason": reason, "effect": context.effect})
        else:
            if scope.cancelled_caught:
                text = f"the call did not end within its deadline of {timeout:g} s"
                details = {"reason": "deadline", "effect": context.effect, "timeout": timeout}
                await self._finish("error", text, details)
            else:
                await self._finish_with(value)

    async def commit_started(
        self, process: int | None, process_started_at: float | None, job: NewJob | None = None
    ) -> None:
        """Commit `executing`, unless the run was told to stop meanwhile; with the background job that begins by it."""
        events: list[e.AnyEvent] = []

        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            needed_a_person = self.record.decision is not None
            if needed_a_person and (state.cancel is not None or self.attempt.fate is not None):
                raise RunStopping("the run was told to stop; the call does not begin")
            events[:] = [self._started(process, process_started_at)]
            if job is not None:
                events.append(self._job_started(job, process, process_started_at))
            return events

        await self.attempt.append(plan)
        for event in events:
            if isinstance(event, e.JobStarted):
                self.attempt.host.jobs.began(self.attempt.session, event)

    async def _interrupt(self, context: "_CallContext") -> None:
        """The call was cut off while it ran: journal what it left, as a result or as abandoned."""
        left = context.left or ToolResult(kind="interrupted", content="")
        details = {**left.details, "reason": "cancelled", "effect": context.effect}
        if self.attempt.fate is None:
            await self._abandon(left.content, details)
        else:
            await self._finish("interrupted", left.content or "the call was cancelled", details)

    async def _abandon(self, content: str = "", details: Mapping[str, Any] = _NOT_BEGUN) -> None:
        abandoned = e.OperationAbandoned(
            at=self._now(),
            operation=self.operation,
            kind="call",
            content=printable(content),
            details=_encode_details(details),
        )
        await self.attempt.abandon(abandoned)

    async def _finish_with(self, value: Any) -> None:
        """Commit what the tool returned: a ToolResult says all itself, anything else is the value of an ok one."""
        result = value if isinstance(value, ToolResult) else ToolResult(kind="ok", content="", value=value)
        try:
            raw = to_json(result.value, f"the result of tool {self.tool.name}")
            if result.kind == "ok":
                value_of(raw, self.tool)
        except InvalidInput as error:
            await self._finish("error", str(error), {"reason": "invalid_result", "effect": "done"})
            return
        content = result.content
        if result is not value:
            content = value if isinstance(value, str) else bytes(raw).decode()
        await self._finish(result.kind, content, result.details, raw)

    async def _finish(
        self, kind: ResultKind, content: str, details: Mapping[str, Any], value: msgspec.Raw = JSON_NULL
    ) -> None:
        size = len(content) + len(bytes(value))
        if size > LARGEST_RESULT:
            kind, details = "error", {**details, "reason": "too_large"}
            content = f"the result has {size} bytes, more than {LARGEST_RESULT}; write it to a file and return its path"
        event = e.ToolCallFinished(
            at=self._now(),
            operation=self.operation,
            kind=kind,
            content=printable(content),
            value=value if kind == "ok" else JSON_NULL,
            details=_encode_details(details),
        )
        await self._commit(event)

    async def _commit(self, event: e.ToolCallFinished) -> None:
        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            return [event] if state.operations[self.operation].is_open else []

        await self.attempt.append(plan, bound=False)

    def _started(self, process: int | None = None, process_started_at: float | None = None) -> e.ToolCallStarted:
        return e.ToolCallStarted(
            at=self._now(),
            operation=self.operation,
            host=HOST,
            pid=os.getpid(),
            process=process,
            process_started_at=process_started_at,
        )

    def _job_started(self, job: NewJob, process: int | None, process_started_at: float | None) -> e.JobStarted:
        assert process is not None
        return e.JobStarted(
            at=self._now(),
            job=job.id,
            operation=self.operation,
            command=printable(job.command),
            host=HOST,
            process=process,
            process_started_at=process_started_at,
            guard=job.guard,
            guard_started_at=job.guard_started_at,
            log=printable(job.log),
            keep=self.attempt.spec.jobs == "keep",
        )

    def _now(self) -> Any:
        return self.attempt.host.clock.now()


_FORBIDDEN: Final[Mapping[str, Any]] = {"reason": "rule", "effect": "none"}


def _forbidden(rule: Rule) -> str:
    """Say to the agent which rule denied its call."""
    return f"denied by a rule from {rule.origin}: {rule.tool}" + (f" {rule.pattern}" if rule.pattern else "")


class _CallContext(ToolContext):
    """What the tool knows of its call."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.operation = call.operation
        self.session = call.attempt.session
        self.requester = call.attempt.state.facts.requester
        self.executing = not call.tool.starts_process
        self.left: ToolResult[Any] | None = None

    @property
    def effect(self) -> Effect:
        """What may have happened if the tool does not say: nothing before `executing` was committed."""
        return "maybe" if self.executing else "none"

    @property
    def is_cancelled(self) -> bool:
        return self._call.attempt.fate is not None

    def heartbeat(self) -> None:
        host = self._call.attempt.host
        host.hub.sign(self.session, host.clock.now())

    @property
    def jobs(self) -> Mapping[str, Job]:
        return self._call.attempt.state.jobs

    @property
    def job_folder(self) -> str:
        return self._call.attempt.host.jobs.folder()

    async def started(self, pid: int, started_at: float | None, job: NewJob | None = None) -> None:
        await self._call.commit_started(pid, started_at, job)
        self.executing = True

    def leave(self, result: ToolResult[Any]) -> None:
        self.left = result


def denial(decided: e.ApprovalDecided, now: datetime) -> e.ToolCallFinished:
    """Return the result of a call that was denied."""
    content = f"denied by {decided.by}: {decided.reason or 'no reason was given'}"
    details = _encode_details({"effect": "none"})
    return e.ToolCallFinished(
        at=now, operation=decided.operation, kind="denied", content=printable(content), details=details
    )


def result_of(event: e.ToolCallFinished, tool: ToolSpec[Any, Any]) -> ToolResult[Any]:
    """Return a journaled result as the caller gets it: the value typed, and only for an ok one."""
    value = value_of(event.value, tool) if event.kind == "ok" else None
    details = msgspec.json.decode(event.details)
    return ToolResult(kind=event.kind, content=event.content, value=value, details=details)


def value_of(raw: msgspec.Raw, tool: ToolSpec[Any, Any]) -> Any:
    """Decode an ok result's value as the tool's annotation says; raises InvalidInput if it does not fit."""
    type_ = tool.return_type
    if get_origin(type_) is ToolResult:
        (type_,) = get_args(type_)
    return from_json(raw, type_, f"the result of tool {tool.name}")


def _encode_details(details: Mapping[str, Any]) -> msgspec.Raw:
    """Details are a tool's own words: what JSON cannot hold is shown as text rather than lost with the result."""
    whole = {"reason": None, "effect": "done", **details}
    return msgspec.Raw(msgspec.json.encode({printable(str(k)): _as_json(v) for k, v in whole.items()}))


def _as_json(value: Any) -> Any:
    try:
        return to_json(value, "a detail")
    except InvalidInput:
        return printable(repr(value))
