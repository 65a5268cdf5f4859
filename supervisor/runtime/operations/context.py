"""The agent's Context: every method is an operation, and takes the path that runtime/attempt/attempt.py describes. The
types that a program sees are in the seam (seam/context.py).

Some operations are journaled only with their result (step, spawn, now, random, the outcome or cancel of a child). If a
scope of the agent's own cancels one, nothing is journaled, and it is new again in a replay. The others (calls,
questions, sleep, timers) are journaled when they start, and as abandoned when a scope cancels them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar

import anyio
import msgspec
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.approvals.masking import shown_entries
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.signatures import signature_of
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.encoding import printable_text, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import split_operation_id
from supervisor.core.limits import ELSEWHERE, checked_limit
from supervisor.core.sessions.state import SessionState
from supervisor.core.usage import Usage
from supervisor.core.values import URGENCIES, Message, ReportKind, ToolCall, ToolResult, Urgency
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.operation_ids import Named, Place
from supervisor.runtime.attempt.settling import Settling
from supervisor.runtime.journal.writer import View
from supervisor.runtime.operations.calls import Said, run
from supervisor.runtime.operations.children import LocalChild, spawn
from supervisor.runtime.operations.emitted_calls import AgentCall, model_call
from supervisor.runtime.operations.function_calls import FunctionCall
from supervisor.runtime.operations.messages import receive, saved_before, say, transcript
from supervisor.runtime.operations.places import within_limit
from supervisor.runtime.operations.questions import ask
from supervisor.runtime.operations.reports import report, stream
from supervisor.runtime.operations.spending import asking_model, use, use_now
from supervisor.runtime.operations.steps import step, value_of
from supervisor.runtime.operations.timers import DurableTimer, sleep
from supervisor.seam.context import Context, Operations
from supervisor.seam.runs import ChildRun, TaskGroup, Timer

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class LocalOperations(Operations):
    def __init__(self, attempt: Attempt, place: Place) -> None:
        self._attempt = attempt
        self._place = place

    def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, ToolResult[Any]]:
        said = _said(tool, kwargs)
        if isinstance(tool, ToolCall):
            if args or kwargs:
                raise TypeError("a ToolCall holds its arguments; pass no other arguments with it")
            return run(partial(model_call, self._attempt, self._place, tool, said))
        if isinstance(tool, AgentSpec):
            given = tool.encode_input(args, kwargs)
            inexact = tool.why_inexact(args, kwargs, given)
            return run(partial(AgentCall, self._attempt, self._place, tool, given, inexact=inexact, said=said))
        if not isinstance(tool, ToolSpec):
            raise TypeError(f"ctx.call takes a tool, not {tool!r}: declare it with @tool")
        return run(partial(FunctionCall, self._attempt, self._place, tool, args, kwargs, said=said))

    async def ask(
        self,
        question: str,
        /,
        *,
        choices: Sequence[str] | None = None,
        schema: Any = None,
        expires_in: float | None = None,
        urgency: Urgency | None = None,
    ) -> Any:
        return await ask(self._attempt, self._place, question, choices, schema, expires_in, _checked_urgency(urgency))

    async def step(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await step(self._attempt, self._place, fn, args, kwargs)


class LocalContext(LocalOperations, Context):
    def __init__(self, attempt: Attempt, branch: str = "") -> None:
        super().__init__(attempt, branch)
        self._branch = branch
        self.session = attempt.session

    @property
    def cwd(self) -> str:
        return self._attempt.state.facts.cwd

    @property
    def run_number(self) -> int:
        return self._attempt.run

    @property
    def is_durable(self) -> bool:
        return self._attempt.host.journal.store.is_durable

    @property
    def saved(self) -> Any:
        saved = self._attempt.state.saved
        return None if saved is None else msgspec.json.decode(saved)

    @property
    def version(self) -> str:
        return self._attempt.spec.version

    async def patched(self, name: str, /) -> bool:
        attempt = self._attempt
        await attempt.check()
        if name not in attempt.patches:
            is_marked, takes = name in attempt.state.marks, attempt.host.environment.takes_patch
            is_taken = is_marked or (not attempt.replay.is_replaying and takes(attempt.session, attempt.run, name))
            attempt.patches = {**attempt.patches, name: is_taken}
            if attempt.patches[name] and not is_marked:
                await attempt.deliver(lambda: e.PatchMarked(at=attempt.host.clock.now(), name=printable_text(name)))
        return attempt.patches[name]

    async def spawn(self, agent: Any, /, *args: Any, **kwargs: Any) -> ChildRun[Any]:
        cwd = kwargs.pop("cwd", None)
        child = await spawn(self._attempt, self._branch, agent, args, kwargs, cwd)
        return LocalChild(self._attempt, self._branch, child, agent)

    async def run(self, agent: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await (await self.spawn(agent, *args, **kwargs)).result()

    async def sleep(self, seconds: float, /) -> None:
        await sleep(self._attempt, self._branch, seconds)

    @asynccontextmanager
    async def move_on_after(self, seconds: float, /) -> AsyncIterator[Timer]:
        timer = DurableTimer(self._attempt, self._branch, seconds)
        try:
            await timer.start()
            with timer.scope:
                yield timer
            await timer.finish()
        except GeneratorExit:
            raise  # the generator is being closed, and can await nothing
        except BaseException as error:
            await timer.interrupt(error)
            raise

    async def now(self) -> Any:
        instant = self._attempt.host.clock.now()
        return await self._note("now", to_json(instant, "an instant"), type(instant))

    async def random(self) -> float:
        number = self._attempt.host.environment.random()
        return float(await self._note("random", to_json(number, "a number"), float))

    async def _note(self, kind: str, value: Raw, type_: Any) -> Any:
        """Do an operation whose result is known at once and is written as a note."""
        attempt = self._attempt
        operation = attempt.names.of_operation(self._branch, kind, "", None)

        def deliver() -> Awaitable[bool]:
            return attempt.deliver(lambda: attempt.finished(operation, kind, value=value))

        return value_of(await attempt.do_once(operation, deliver), type_, kind)

    async def receive(self) -> str:
        return await receive(self._attempt, self._branch)

    async def send(self, text: str, /) -> None:
        await say(self._attempt, self._branch, text)

    def transcript(self) -> tuple[Message, ...]:
        journal = self._attempt.read_store(lambda store: store.journal(self.session))
        return transcript(shown_entries(journal, credentials=False), self._attempt.run)

    def named(self, name: str, /) -> Operations:
        return LocalOperations(self._attempt, Named(self._branch, _checked(name, "an operation")))

    def saved_before(self) -> tuple[Any, ...]:
        return self._attempt.read_store(lambda store: saved_before(store, self.session, self._attempt.run))

    def branch(self, name: str, /) -> Context:
        return LocalContext(self._attempt, f"{self._branch}{_checked(name, 'a branch')}/")

    @asynccontextmanager
    async def task_group(self) -> AsyncIterator[TaskGroup]:
        opened, depth = self._attempt.names.of_block(self._branch, "group", None)
        number = split_operation_id(opened)[1]
        try:
            async with anyio.create_task_group() as tasks:
                name = f"group{number}" if not depth else f"group{depth}-{number}"
                yield _Group(self, name, tasks, self._attempt.settling)
        finally:
            self._attempt.complete(opened)

    @asynccontextmanager
    async def model_call(
        self,
        *,
        reserve: Usage | None = None,
        limit: str | None = None,
        at_entry: bool = False,
        on_silence: Callable[[str], bool] | None = None,
    ) -> AsyncIterator[None]:
        name = checked_limit(limit, "ctx.model_call")
        if name is not None and self._attempt.host.environment.runs_elsewhere:
            raise InvalidInput(ELSEWHERE)
        try:
            async with asking_model(self._attempt, reserve), within_limit(self._attempt, name, at_entry=at_entry):
                with self._attempt.watch.working(model_call=True, on_silence=on_silence):
                    yield
        finally:
            self._attempt.settling.begin()  # a timer or a socket may have led to this step
            self._attempt.check_quiet()  # the attempt may only wait from now on

    def heartbeat(self) -> None:
        self._attempt.watch.heartbeat()

    def stream(self, piece: str, /) -> None:
        stream(self._attempt, piece)

    def keepalive(self) -> None:
        self._attempt.watch.keepalive()

    async def report(
        self,
        kind: ReportKind,
        text: str,
        /,
        *,
        tool: str | None = None,
        call: str | None = None,
        is_error: bool = False,
    ) -> None:
        await report(self._attempt, kind, text, tool, call, is_error=is_error)

    async def used(self, usage: Usage, /, *, is_operation: bool = True) -> None:
        await (use(self._attempt, self._branch, usage) if is_operation else use_now(self._attempt, usage))

    async def save(self, state: Any, /) -> None:
        attempt = self._attempt
        # The state is of this instant: a result that another task is given before the commit is not in it. Only the
        # latest state is written: of two tasks that save, the one that asked first may be committed last.
        latest = to_json(state, "the state to save", exact=not attempt.host.environment.is_former)
        attempt.host.environment.check_size(latest, "the state to save")
        attempt.to_save = latest
        attempt.names.begin_save()

        planned: list[e.StateSaved] = []
        """What the plan writes, also when it runs again: by then operations are named as after the save."""

        def plan(view: View, session: SessionState) -> Iterable[e.AnyEvent]:
            if (raw := attempt.to_save) is not None and not planned:
                attempt.to_save = None
                counts, floor = attempt.names.save(session.kept)
                planned.append(e.StateSaved(at=attempt.host.clock.now(), state=raw, counts=counts, floor=floor))
            return planned

        attempt.begin_operation()
        try:
            await attempt.check()
            await attempt.pass_barrier()
            with attempt.settling.holding():
                await attempt.append(plan)
        finally:
            if attempt.to_save is latest:
                attempt.to_save = None
                attempt.names.drop_save()
            await attempt.end_operation()


def _said(tool: Any, kwargs: dict[str, Any]) -> Said:
    """Take from the arguments of a call what the caller says to the person who decides. What is an argument of the tool
    itself stays one."""
    own = (tool.input_name,) if isinstance(tool, AgentSpec) else getattr(tool, "parameter_names", ())
    said = Said(**{name: kwargs.pop(name) for name in Said._fields if name in kwargs and name not in own})
    if not isinstance(said.because, str):
        raise TypeError(f"because is a text for the person who decides, not {said.because!r}")
    _checked_urgency(said.urgency)
    return said


def _checked_urgency(urgency: Any) -> Urgency | None:
    if urgency not in (None, *URGENCIES):
        raise InvalidInput(f"urgency is one of {', '.join(URGENCIES)}, not {urgency!r}")
    found: Urgency | None = urgency
    return found


def _checked(name: str, what: str) -> str:
    if not name or any(mark in name for mark in "/#:"):
        raise InvalidInput(f"{name!r} cannot name {what}: use a word without '/', '#' and ':'")
    return name


class _Group(TaskGroup):
    """Numbers its children in program order, so that each has its own branch in every attempt."""

    def __init__(self, context: LocalContext, name: str, tasks: anyio.abc.TaskGroup, settling: Settling) -> None:
        self._context = context
        self._name = name
        self._tasks = tasks
        self._settling = settling
        self._number = 0

    def start_soon(self, fn: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> None:
        try:
            signature_of(fn).bind(None, *args)
        except TypeError as error:
            name = getattr(fn, "__qualname__", repr(fn))
            raise TypeError(
                f"{name} cannot be started: {error}; it gets the context of its branch first, and then the arguments: "
                f"async def {getattr(fn, '__name__', 'fn')}(ctx: Context, ...)"
            ) from None
        except ValueError:  # a builtin without a signature
            pass
        self._number += 1
        self._settling.begin()  # as above
        self._tasks.start_soon(fn, self._context.branch(f"{self._name}.{self._number}"), *args)
