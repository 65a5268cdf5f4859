"""Calls of function tools: the effect is a function that the environment runs under a deadline.

The module is longer than 400 lines because the arguments, the deadline and the result of such a call are one life.
"""

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from anyio.lowlevel import checkpoint_if_cancelled

from supervisor.core import events as e
from supervisor.core.budgets import A_CALL, ASKING_CALL, Used
from supervisor.core.calls.content import content_of
from supervisor.core.calls.edits import EDITORS
from supervisor.core.calls.paths import OF_TOOLS
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.previews import PREVIEW_SECONDS, PREVIEWS_ELSEWHERE
from supervisor.core.declarations.tool_context import NewJob, ProcessToolContext
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.encoding import INEXACT, from_json, is_exact, plain, printable_text, to_json
from supervisor.core.errors import InvalidInput, RetryAfter, RunStopping, ToolFailed
from supervisor.core.limits import BUSY, ELSEWHERE, Ticket
from supervisor.core.sessions.state import SessionState
from supervisor.core.text.masks import mask_arguments
from supervisor.core.usage import Usage
from supervisor.core.values import JobView, Policy, ToolResult
from supervisor.runtime.attempt.attempt import READY, Attempt
from supervisor.runtime.attempt.bodies import DeadlinePassed, Running, runs_on
from supervisor.runtime.attempt.native_cancellation import is_own_doing
from supervisor.runtime.attempt.operation_ids import Place
from supervisor.runtime.attempt.tracebacks import explain, secret_values, traceback_of
from supervisor.runtime.environment import Body, Ruled
from supervisor.runtime.journal.writer import View
from supervisor.runtime.operations.calls import NOTHING_SAID, Call, Denied, Effect, Said
from supervisor.runtime.operations.places import HOLDS_NONE, holding
from supervisor.runtime.operations.spending import note_used, pay, take_spent, take_used
from supervisor.runtime.plans.allowances import in_order
from supervisor.system.forks import THIS_PROCESS
from supervisor.system.identity import host_of

if TYPE_CHECKING:
    from supervisor.runtime.operations.evidence import Taking

CONNECTION_LOST: Final = (
    ConnectionError,
    EOFError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)
"""Exceptions of a tool that has lost its connection: whether the far side did the call is not known (T1)."""


class FunctionCall(Call):
    """A call of a tool's function."""

    __slots__ = ("_chosen", "_running", "given", "tool")

    def __init__(
        self,
        attempt: Attempt,
        place: Place,
        tool: ToolSpec[Any, Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        model_id: str | None = None,
        said: Said = NOTHING_SAID,
    ) -> None:
        _ = tool.value_type  # an annotation that cannot be resolved raises here, before anything runs
        passed, full = tool.bind(args, kwargs)
        if (timeout := attempt.spec.call_timeout) is not None and tool.keeps_deadline and "timeout" not in passed:
            full["timeout"] = timeout  # before the approval is made: a person sees the deadline that will hold
        arguments, inexact = to_json(full, f"an argument of tool {tool.name}"), None
        if not is_exact(full, arguments):
            for name, value in full.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise InvalidInput(f"argument {name} of tool {tool.name} is {value}, which JSON cannot hold")
            inexact = f"an argument of tool {tool.name} {INEXACT}"
        self.tool = tool
        self._running: Running | None = None
        self.given = frozenset(passed)
        self._chosen = tool.deadline_in(passed) if model_id is not None else None
        tool.decode_arguments(arguments)
        given = plain(full)
        named = mask_arguments({name: given[name] for name in passed}, tool.secret)
        if model_id is not None:
            named = [model_id, named]
        operation = attempt.names.of_operation(place, "call", tool.name, named)
        attempt.refuse_new(operation, inexact or attempt.host.environment.why_too_large(arguments, tool.name))
        content = content_of(
            tool.name,
            arguments,
            given,
            folder=attempt.state.facts.cwd,
            command=tool.command,
            claims=tool.claims,
            secret=tool.secret,
            paths=tool.paths or OF_TOOLS.get(tool.name, ()),
            edits=tool.edits or (() if tool.paths else EDITORS.get(tool.name, ())),
        )
        super().__init__(
            attempt,
            operation,
            content,
            is_idempotent=tool.idempotent,
            is_editable=tool.editable,
            said=said,
        )

    has_body = True

    @property
    def why_too_long(self) -> str | None:
        """Why the deadline that a model has chosen is refused; None if it is not."""
        most = self.attempt.spec.max_timeout or self.tool.max_timeout
        if self._chosen is None or self._chosen <= most:
            return None
        return f"timeout is {self._chosen:g} s, of at most {most:g} s; do it in parts, or in the background"

    def _note(self, state: SessionState) -> str:
        most = self.attempt.spec.max_timeout or self.tool.max_timeout
        chosen = "" if self._chosen is None else f"the model chose the deadline, of at most {most:g} s"
        return "; ".join(each for each in (super()._note(state), chosen) if each)

    @property
    def value_type(self) -> Any:
        return self.tool.value_type

    @property
    def refusal(self) -> str:
        is_bound = self.tool.limit is not None and self.attempt.host.environment.runs_elsewhere
        if self.tool.preview is not None and self.attempt.host.environment.runs_elsewhere:
            return f"tool {self.tool.name}: {PREVIEWS_ELSEWHERE}"
        return ELSEWHERE if is_bound else self.tool.refusal

    @property
    def claimed(self) -> str:
        return self.tool.claimed

    def begin_evidence(self) -> "Taking | None":
        if self.tool.preview is None:
            return None
        from supervisor.runtime.operations.evidence import to_take  # most tools have no preview

        if (taking := to_take(self)) is not None:
            taking.begin()
        return taking

    async def take_wanted(self) -> None:
        from supervisor.runtime.operations.evidence import take_wanted

        await take_wanted(self)

    @property
    def wants(self) -> Used:
        return ASKING_CALL if self.tool.asks_model else A_CALL

    def own_policy(self, arguments: msgspec.Raw) -> Policy:
        decoded = self.tool.decode_arguments(arguments) if callable(self.tool.policy) else {}
        return self.tool.policy_of(decoded)

    @property
    def begins_late(self) -> bool:
        """Whether the call counts as executing only from the moment at which its tool starts a process (T9)."""
        return self.tool.starts_process and not self.attempt.host.environment.runs_elsewhere

    def asked_with(self) -> dict[str, Any]:
        tool, is_former = self.tool, self.attempt.host.environment.is_former
        found: dict[str, Any] = {"defaults": tool.defaults_in(self.arguments)}
        if tool.preview is not None:
            found["preview"] = PREVIEW_SECONDS
        if self.is_editable:
            found["default_values"] = tool.default_values_beyond(self.arguments)
            found["schema"] = tool.edit_schema
            found["parameters"] = tool.former_parameters if is_former else tool.parameters_for_people
        return found

    def begin_events(self, at: datetime) -> Iterable[e.AnyEvent]:
        waits = self.begins_late or self.tool.is_ready is not None or self.tool.limit is not None
        return () if waits else (self._started(at),)

    def check(self, arguments: msgspec.Raw, *, is_edited: bool) -> dict[str, Any]:
        return self.tool.read_edited(arguments) if is_edited else self.tool.decode_arguments(arguments)

    async def perform(self, arguments: dict[str, Any], *, is_executing: bool) -> None:
        if why := self.attempt.host.bodies.refusal:
            await self.finish("error", why, {"reason": "too_many_left", "effect": "none"})
            return
        if not is_executing:
            try:
                if (is_ready := self.tool.is_ready) is not None:
                    await self._wait_until(is_ready)
            except ToolFailed as failure:  # it never begins
                await self.finish("error", failure.content, {**failure.details, "effect": "none"})
                return
            if self.attempt.spec.holds_process:  # the call's effect lets the program go on: before its result
                await self.attempt.regain_turn(self.operation)
            await self.attempt.hold()
        ticket = None if self.tool.limit is None else await self._take_place(self.tool.limit)
        with HOLDS_NONE if ticket is None else holding(self.attempt, ticket), self.attempt.host.acting:
            if self.tool.preview is not None and not is_executing and await self._has_changed():
                return
            if not is_executing and self.begins_late:
                live = self.attempt.host.journal.look()
                self.check_rules(live, self.attempt.state)  # before the process is made; again when `executing` commits
            elif not is_executing:
                await self.commit_started(None, None)
            self.attempt.watch.pause(f"call:{self.operation}", "wait" if self.tool.waits else "call")
            try:
                await self._act(_CallContext(self), arguments)
            finally:
                self.attempt.watch.resume(f"call:{self.operation}")

    async def _has_changed(self) -> bool:
        """Whether what the preview has read is not so any more; then the call is denied."""
        from supervisor.runtime.operations.evidence import why_changed

        if (changed := await why_changed(self)) is None:
            return False
        await self.finish("denied", changed, {"reason": "changed", "effect": "none"})
        return True

    async def _take_place(self, name: str) -> Ticket:
        """Wait for a place of the tool's limit. `executing` is not committed, so a later attempt waits, too."""
        self.attempt.give_way()
        return await self.attempt.host.limits.take(self.attempt, name, in_operation=True, is_shared=True)

    async def _wait_until(self, is_ready: Callable[[Callable[[], None]], bool]) -> None:
        """Wait until the tool is ready for the call. `executing` is not committed, so a later attempt waits, too."""
        attempt, key = self.attempt, f"{READY}{self.operation}"
        await attempt.wait(key, key, lambda: is_ready(partial(attempt.wake, key)))

    async def _act(self, context: "_CallContext", arguments: Mapping[str, Any]) -> None:
        """Run the effect, and commit its result whatever happens."""
        timeout = self.tool.timeout
        if timeout is not None:
            timeout = self.attempt.spec.call_timeout or timeout
        # Just after the instant itself: a call that ends exactly at its deadline has ended in time (T3).
        deadline = inf if timeout is None else nextafter(anyio.current_time() + timeout, inf)
        args, kwargs = self.tool.spread(arguments)
        running = self._running = context.running
        body = self.attempt.make_body(
            running,
            self.tool.fn,
            (context, *args) if self.tool.takes_context else args,
            kwargs,
            kind="call",
            name=self.tool.name,
            timeout=timeout,
            is_idempotent=self.is_idempotent,
            queue=self.tool.queue,
            ruled=self._ruled(),
            recheck=self._recheck,
        )
        try:
            await checkpoint_if_cancelled()  # if a cancellation came during the commit, no effect begins
            context.executing = not self.begins_late
            value = await self._run(body, running, deadline)
        except DeadlinePassed as passed:
            text = f"the call did not end within its deadline of {timeout:g} s{runs_on(running)}"
            effect = context.effect if passed.has_begun else "none"
            await self.finish("error", text, {"reason": "deadline", "effect": effect, "timeout": timeout})
        except ToolFailed as failure:
            await self.finish("error", failure.content, {"effect": context.effect, **failure.details})
        except (RunStopping, Denied):
            raise
        except BaseException as error:  # noqa: BLE001 # a tool is the user's code, and its exception is its result
            await self._finish_raised(context, error)
        else:
            await self._finish_with(value, deadline if running.is_told and running.cancellation is None else inf)
        finally:
            await pay(self.attempt, running)
        if running.cancellation is not None:  # its function has ended all the same, and that is the call's result
            raise running.cancellation

    def take_spent(self) -> list[e.UsageSpent]:
        return [] if self._running is None else take_spent(self.attempt, self._running)

    def _run(self, body: Body, running: Running, deadline: float) -> Awaitable[Any]:
        """Run the function: apart, if the call need not wait for it (runtime/attempt/bodies.py). A tool that keeps its
        deadline itself ends by itself."""
        host, tool = self.attempt.host, self.tool
        runs_apart = (tool.timeout is not None and tool.awaits) or tool.is_plain
        if runs_apart and not host.environment.runs_elsewhere:
            return host.bodies.run(running, partial(host.environment.run_body, body), deadline)
        return host.environment.run_body(body)

    async def _finish_raised(self, context: "_CallContext", error: BaseException) -> None:
        """Commit what the function has raised as the call's result. Raise a cancellation again, and what must end the
        process."""
        if (cancelled := _cancellation_of(error)) is not None:
            await self._interrupt(context, error)
            raise context.running.cancellation or cancelled from None
        if not isinstance(error, Exception | SystemExit):
            raise error
        reason = "connection_lost" if isinstance(error, CONNECTION_LOST) else "exception"
        if isinstance(error, RetryAfter) and self.tool.limit is not None:
            self.attempt.host.limits.close(self.tool.limit, error.seconds)
            reason = BUSY
        traceback = traceback_of(error, secret_values(self.attempt.state))
        details = {"reason": reason, "effect": context.effect}
        await self.finish("error", explain(error, f"tool {self.tool.name}"), details, traceback=traceback)

    async def _recheck(self, rules: tuple[Rule, ...]) -> Ruled | None:
        """See Body."""
        host = self.attempt.host
        host.rules.shared = rules
        await self.settle_elsewhere()
        self.check_rules(host.journal.look(), self.attempt.state)
        return self._ruled()

    def _ruled(self) -> Ruled | None:
        if self.settled is None:
            return None
        host, record, content, facts = self.attempt.host, self.record, self.content_now, self.attempt.state.facts
        assert isinstance(record.request, e.ToolCallRequested)
        view, kept = host.journal.look(), record.request.allowances
        return Ruled(
            rules=in_order(view, host.rules.about(view, facts, content), self.now(), facts.root, kept)[0],
            root=facts.root,
            own=self.own_policy(record.arguments),
            tool=content.tool,
            folder=facts.cwd,
            paths=content.paths,
            edits=content.edits,
            command=content.command,
            claims=content.claims,
            secret=content.secret,
            is_decided=record.is_decided,
            was_ruled=record.request.rule is not None,
        )

    async def commit_started(
        self, process: int | None, process_started_at: float | None, job: NewJob | None = None
    ) -> None:
        """Commit `executing`, together with the background job that begins, if any. Raises RunStopping if the run was
        told to stop meanwhile, and Denied if a rule denies the call."""

        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            needed_a_person = self.record.is_decided
            if needed_a_person and (state.cancel is not None or self.attempt.stop_reason is not None):
                raise RunStopping("the run was told to stop; the call does not begin")
            self.check_rules(view, state)
            started = self._started(self.now(), process, process_started_at)
            return [started] if job is None else [started, self._job_started(job, process, process_started_at)]

        try:
            await self.attempt.append(plan)
        finally:  # a native cancellation may come with the commit
            if job is not None and (known := self.attempt.state.jobs.get(job.id)) is not None:
                self.attempt.host.jobs.began(self.attempt.session, known.started)

    async def _interrupt(self, context: "_CallContext", error: BaseException) -> None:
        """Journal a call that was cancelled while it ran, with its output so far: as its result, or as abandoned."""
        own = error.subgroup(Exception) if isinstance(error, BaseExceptionGroup) else None
        also = "" if own is None else f"while it was cancelled: {own!r}"
        left = context.left or ToolResult(kind="interrupted", content=also)
        running = context.running
        effect = "none" if running.ended is not None and not running.has_begun else context.effect
        details = {**left.details, "reason": "cancelled", "effect": effect}
        if await is_own_doing(self.attempt):
            await self.abandon(left.content, details)
        if self.record.is_open:  # the run is stopped, perhaps while the abandonment waited for the disk
            await self.finish("interrupted", (left.content or "the call was cancelled") + runs_on(running), details)

    async def _finish_with(self, value: Any, deadline: float) -> None:
        """Commit the tool's return value: a ToolResult as it is, and any other value as an ok result. One that came
        after the deadline says so."""
        result = value if isinstance(value, ToolResult) else ToolResult(kind="ok", content="", value=value)
        late = {"late": round(max(0.0, anyio.current_time() - deadline), 3)} if deadline < inf else {}
        details = {**result.details, **late}
        try:
            raw = to_json(result.value, f"the result of tool {self.tool.name}", exact=True)
            if result.kind == "ok":
                from_json(raw, self.value_type, f"the result of tool {self.name}")
        except InvalidInput as error:
            await self.finish("error", str(error), {"reason": "invalid_result", "effect": "done"})
            return
        content = result.content
        if result is not value:
            content = value if isinstance(value, str) else bytes(raw).decode()
        await self.finish(result.kind, content, details, raw)

    def _started(
        self, at: datetime, process: int | None = None, process_started_at: float | None = None
    ) -> e.ToolCallStarted:
        return e.ToolCallStarted(
            at=at,
            operation=self.operation,
            host=host_of(is_shared=self.attempt.host.journal.store.is_shared),
            pid=THIS_PROCESS.pid,
            process=process,
            process_started_at=process_started_at,
        )

    def _job_started(self, job: NewJob, process: int | None, process_started_at: float | None) -> e.JobStarted:
        assert process is not None
        return e.JobStarted(
            at=self.now(),
            job=job.id,
            operation=self.operation,
            command=printable_text(job.command),
            host=host_of(is_shared=self.attempt.host.journal.store.is_shared),
            process=process,
            process_started_at=process_started_at,
            guard=job.guard,
            guard_started_at=job.guard_started_at,
            log=printable_text(job.log),
            keep=self.attempt.spec.jobs == "keep",
            notify=job.notify,
        )


def _cancellation_of(error: BaseException) -> BaseException | None:
    """Return the cancellation to raise again, if a tool ended by one. On trio it may come in a group with exceptions
    of the tool's clean-up; it is raised alone. An exception that must end the process has precedence: then None."""
    if isinstance(error, BaseExceptionGroup):
        if error.subgroup((KeyboardInterrupt, SystemExit)) is not None:
            return None
        first: BaseException | None = error.subgroup(anyio.get_cancelled_exc_class())
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return first
    return error if isinstance(error, anyio.get_cancelled_exc_class()) else None


class _CallContext(ProcessToolContext):
    """The context that a tool has of its call. Every call has this class; the tool's annotation limits what it uses."""

    def __init__(self, call: FunctionCall) -> None:
        self._call = call
        self.operation = call.operation
        self.session = call.attempt.session
        named = self.session, call.attempt.spec.name, self.operation, f"tool {call.tool.name}"
        self.running = Running(call.attempt.host.bodies, *named, begins_again=call.is_idempotent)
        facts = call.attempt.state.facts
        self.requester, self.cwd = facts.requester, facts.cwd
        self.executing = False
        self.left: ToolResult[Any] | None = None

    @property
    def given(self) -> Collection[str]:
        call = self._call
        if (edited := call.record.edited) is None:
            return call.given
        asked, now = msgspec.json.decode(call.arguments), msgspec.json.decode(edited)
        return call.given | {name for name, value in now.items() if name not in asked or asked[name] != value}

    @property
    def effect(self) -> Effect:
        """The effect of a call whose tool does not say: none before its function runs or, for a tool that starts a
        process, before `executing` is committed."""
        return "maybe" if self.executing else "none"

    @property
    def is_allowed(self) -> bool:
        record = self._call.record
        assert isinstance(record.request, e.ToolCallRequested)
        return record.is_decided or record.request.rule is not None

    @property
    def is_cancelled(self) -> bool:
        return self._call.attempt.stop_reason is not None or self.running.is_told

    def heartbeat(self) -> None:
        host = self._call.attempt.host
        self.running.in_loop(lambda: host.hub.sign(self.session, host.clock.now()))

    @property
    def jobs(self) -> Mapping[str, JobView]:
        self.running.check()
        return {name: job.view(self.session) for name, job in self._call.attempt.state.jobs.items()}

    @property
    def job_folder(self) -> str:
        self.running.check()
        return self._call.attempt.host.jobs.folder()

    async def started(self, pid: int, started_at: float | None, job: NewJob | None = None) -> None:
        self.running.check()
        await self._call.commit_started(pid, started_at, job)
        self.executing = True

    def used(self, usage: Usage, /) -> None:
        note_used(self._call.attempt, self.running, usage)

    def take_used(self, usage: Usage) -> None:
        take_used(self.running, usage)

    def leave(self, result: ToolResult[Any]) -> None:
        self.left = result
