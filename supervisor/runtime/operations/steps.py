"""Steps: a function of the agent's own runs at least once, and its result or its exception is journaled.

A step is identified by its function and its arguments, so both are the same in every attempt: the function is at the
top of a module, and JSON can hold the arguments. A step with a name of its own is identified by that name, and takes
any function and any arguments.

A result is read back by the function's annotation, in each attempt. One that could not be read is refused before the
function runs: what it does may cost money.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import msgspec

from supervisor.core import events as e
from supervisor.core.declarations.signatures import accepts_context, awaits, hint_of, signature_of
from supervisor.core.declarations.tool_context import StepContext
from supervisor.core.encoding import INEXACT, JSON_NULL, is_exact, to_json
from supervisor.core.errors import InvalidInput, LimitExceeded, RetryAfter, StepFailed
from supervisor.core.models import dump, read_model, why_unreadable
from supervisor.core.sessions.state import Operation
from supervisor.core.usage import Usage
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.bodies import Running
from supervisor.runtime.attempt.operation_ids import Named, Place
from supervisor.runtime.attempt.tracebacks import cure, secret_values, text_of, traceback_of
from supervisor.runtime.environment import Body
from supervisor.runtime.operations.places import HOLDS_NONE, close_for, holding, take_again, take_for_step
from supervisor.runtime.operations.reports import stream
from supervisor.runtime.operations.spending import admit_step, append_result, note_used, pay, take_used


async def step(attempt: Attempt, place: Place, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run a step; see Context.step."""
    while isinstance(fn, partial):  # its arguments count as if they had been passed here
        fn, args, kwargs = fn.func, (*fn.args, *args), {**fn.keywords, **kwargs}
    if not hasattr(fn, "__qualname__"):
        raise InvalidInput(f"step {fn!r} has no name; use a function at the top of a module, or a method")
    takes_context = accepts_context(fn, StepContext)
    bound = signature_of(fn).bind(*(None,) * takes_context, *args, **kwargs)
    name, arguments, inexact = fn.__qualname__, None, None
    if isinstance(place, Named):
        name = place.name
    elif "<" in name:
        raise InvalidInput(
            f"step {fn.__module__}.{name} is a closure; use a function at the top of a module, or a method, or name "
            "the step with ctx.named(name).step(...)"
        )
    else:
        passed = dict([*bound.arguments.items()][takes_context:])
        what = f"an argument of step {fn.__module__}.{name}"
        raw = to_json(passed, what, canonical=True, hook=dump)
        arguments = msgspec.json.decode(raw)
        inexact = None if is_exact(passed, raw, dump) else f"{what} {INEXACT}"
    operation = attempt.names.of_operation(place, "step", name, arguments)
    if operation not in attempt.state.operations:
        attempt.refuse_new(operation, inexact or _refusal(name, fn, bound.arguments))

    def make() -> tuple[Body, Running]:
        named = attempt.session, attempt.spec.name, operation, f"step {name}"
        running = Running(attempt.host.bodies, *named, begins_again=True)
        given = (_StepContext(attempt, running), *args) if takes_context else args
        return attempt.make_body(running, fn, given, kwargs, kind="step", name=name, is_idempotent=True), running

    record = await attempt.do_once(operation, lambda: _perform(attempt, make, name, may_spend=takes_context))
    return attempt.read(operation, lambda: value_of(record, hint_of(fn, "return"), name))


def _refusal(name: str, fn: Any, arguments: Mapping[str, Any]) -> str | None:
    """Return why the result of a step could not be read back; None if it can be."""
    try:
        hint = hint_of(fn, "return")
    except InvalidInput as error:
        return f"step {name} did not run: {error}"
    if (why := why_unreadable(hint)) is not None:
        return (
            f"step {name} did not run, since its result could not be read back as {hint}: {why}. Wrap it in a function "
            "that returns what you need, such as .model_dump(mode='json'), and name that type as its result"
        )
    if arguments.get("stream") is True and any(why_unreadable(each) is not None for each in get_args(hint)):
        return (
            f"step {name} did not run: it would return a stream, which the journal cannot hold. Read the stream in a "
            "function of your own, and return the whole answer from it"
        )
    return None


async def _perform(attempt: Attempt, make: Callable[[], tuple[Body, Running]], name: str, *, may_spend: bool) -> None:
    """Run a new step, and journal its result. If what it asks is busy, it waits outside of its work and runs again."""
    number, is_again, is_over = 0, False, False
    while not is_over:
        body, running = make()
        reserved = await admit_step(attempt, running, may_spend=may_spend)
        try:
            ticket = await (take_again(attempt, number) if is_again else take_for_step(attempt))
            number, is_again = 0 if ticket is None else ticket.number, True
            with HOLDS_NONE if ticket is None else holding(attempt, ticket), attempt.watch.working(name):
                is_over = await _run(attempt, body, running, name)
        finally:
            if reserved is not None:
                attempt.host.budgets.release(attempt, reserved)


async def _run(attempt: Attempt, body: Body, running: Running, name: str) -> bool:
    """Run the body of a step, and journal its result. Return False if it is to run again: its limit is closed then."""
    is_over = True
    try:
        ended = await _take(attempt, body, running, name)
        await append_result(attempt, running, ended)
    except RetryAfter as busy:
        close_for(attempt, busy)
        is_over = False
    finally:
        await pay(attempt, running)
    if running.cancellation is not None:
        raise running.cancellation
    return is_over


async def _take(attempt: Attempt, body: Body, running: Running, name: str) -> e.OperationFinished:
    """Run the body of a step, and return its result. An exception is a result, too."""
    environment, bodies = attempt.host.environment, attempt.host.bodies
    value, error, traceback = JSON_NULL, None, ""
    try:
        what = f"the result of step {name}"
        if not environment.runs_elsewhere and bodies.refusal:
            raise LimitExceeded(bodies.refusal)
        if environment.runs_elsewhere or not awaits(body.fn):
            returned = await environment.run_body(body)
        else:
            returned = await bodies.run(running, partial(environment.run_body, body))
        value = to_json(returned, what, exact=True, hook=dump)
        read_model(value, hint_of(body.fn, "return"), what)
    except Exception as failure:
        if _runs_again(attempt, failure):
            raise
        value, error = JSON_NULL, (type(failure).__name__, text_of(failure) + cure(failure, f"step {name}"))
        traceback = traceback_of(failure, secret_values(attempt.state))
    return attempt.finished(body.operation, "step", value=value, error=error, traceback=traceback)


def _runs_again(attempt: Attempt, failure: Exception) -> bool:
    """Whether a step waits until what it asks is no longer busy. A run that was told to stop does not wait for that."""
    is_elsewhere = attempt.host.environment.runs_elsewhere
    return isinstance(failure, RetryAfter) and attempt.stop_reason is None and not is_elsewhere


def value_of(record: Operation, type_: Any, what: str) -> Any:
    """Return the result of an operation as its type. Raises StepFailed if the result is an exception."""
    assert isinstance(record.result, e.OperationFinished)
    if record.result.error is not None:
        raise StepFailed(record.result.operation, what, *record.result.error)
    return read_model(record.result.value, type_, f"the result of {what}")


class _StepContext(StepContext):
    __slots__ = ("_attempt", "_running", "operation")

    def __init__(self, attempt: Attempt, running: Running) -> None:
        self._attempt = attempt
        self._running = running
        self.operation = running.operation

    def heartbeat(self) -> None:
        self._running.in_loop(self._attempt.watch.heartbeat)

    def stream(self, piece: str, /) -> None:
        self._running.in_loop(stream, self._attempt, piece)

    def used(self, usage: Usage, /) -> None:
        note_used(self._attempt, self._running, usage)

    def take_used(self, usage: Usage) -> None:
        take_used(self._running, usage)
