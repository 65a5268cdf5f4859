"""Classify how an agent function ended: by its result, or by whose exception it raised (W1).

The runner awaits the function directly inside the attempt's two scopes: each frame in between would stay in memory
while the agent waits for a person.
"""

from typing import Any, Final

import anyio

from supervisor.core.encoding import JSON_NULL, from_json, printable_text, to_json
from supervisor.core.errors import InvalidInput, Suspended
from supervisor.core.sessions.restarts import failed_steps
from supervisor.core.sessions.retrying import led_by
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.divergence import path_block
from supervisor.runtime.attempt.tracebacks import describe, explain, secret_values, traceback_of
from supervisor.runtime.plans.end import Ending

LONGEST_SHOWN_CHARACTERS: Final = 10_000
"""Characters of a partial result that is not JSON, or too large."""


def _own_error(raised: BaseException | None) -> BaseException | None:
    """Return the agent's own part of an exception; None if the exception only says that the attempt was ended from
    outside. Raises an exception that must end the process."""
    match raised:
        case None:
            return None
        case Suspended():
            return None
        case KeyboardInterrupt() | SystemExit():
            raise raised
        case BaseExceptionGroup():
            return _without_ours(raised)
        case Exception():
            return raised
        case _ if isinstance(raised, anyio.get_cancelled_exc_class()):
            return _native_cancellation()
        case _:
            raise raised


def _native_cancellation() -> RuntimeError:
    return RuntimeError("the agent raised a cancellation that none of its cancel scopes had requested")


async def wait_for_children(attempt: Attempt) -> None:
    """Wait for the children of an agent that has returned, as a task group does (W13)."""
    attempt.is_finishing = True
    for child in attempt.state.open_children:
        await attempt.wait(f"child:{child}", child, lambda child=child: attempt.state.children[child] is not None)  # type: ignore[misc] # mypy does not infer a lambda's default


def _without_ours(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    if group.subgroup((KeyboardInterrupt, SystemExit)) is not None:
        raise group
    _, rest = group.split((Suspended, anyio.get_cancelled_exc_class()))
    return rest


def ending_of(
    attempt: Attempt, returned: list[Any], raised: BaseException | None
) -> tuple[Ending | None, frozenset[str]]:
    """Return the ending of an attempt, and the steps whose failures led to it. A restart may run those steps again
    (core/sessions/restarts.py). The ending is None if another attempt follows or the process is going down. Raises an
    exception that must end the process."""
    error = _own_error(raised)
    if attempt.stop_reason is None and attempt.replay.oldest_unclaimed(attempt.state) is not None:
        how = "the agent returned" if error is None else f"the agent raised {describe(error)}"
        attempt.stop_blocked(path_block(attempt, how, error))
    return _ending(attempt, returned, error), failed_steps(error)


def _ending(attempt: Attempt, returned: list[Any], error: BaseException | None) -> Ending | None:
    reason, partial = attempt.stop_reason, attempt.state.saved or JSON_NULL
    if reason is not None and reason.is_pause:
        return None
    if reason is not None:
        cause = reason.cause + (f"; while ending: {describe(error)}" if error is not None else "")
        if returned:
            partial = _partial(attempt, returned[0])
        raised = _raised(attempt, error)
        raised["asks_again"] = attempt.spec.holds_process and reason.kind != "cancelled"
        return Ending(kind=reason.kind, cause=printable_text(cause), partial=partial, **raised)  # type: ignore[arg-type] # no pause: an outcome's kind
    if error is None and not returned:  # the agent raised a group of cancellations only
        error = _native_cancellation()
    if error is not None:
        cause = explain(error, f"agent {attempt.spec.name}")
        return Ending(kind="failed", cause=printable_text(cause), partial=partial, **_raised(attempt, error))
    try:
        what = f"the result of agent {attempt.spec.name}"
        value = to_json(returned[0], what, exact=not attempt.host.environment.is_former)
        from_json(value, attempt.spec.return_type, what)
        attempt.host.environment.check_size(value, what)
    except InvalidInput as misfit:
        return Ending(kind="failed", cause=printable_text(str(misfit)), partial=partial)
    return Ending(kind="succeeded", value=value)


def _partial(attempt: Attempt, value: Any) -> Any:
    what = "a partial result"
    try:
        raw = to_json(value, what, exact=not attempt.host.environment.is_former)
        attempt.host.environment.check_size(raw, what)
    except InvalidInput:
        shown = printable_text(repr(value))
        return to_json(
            shown if len(shown) <= LONGEST_SHOWN_CHARACTERS else f"{shown[:LONGEST_SHOWN_CHARACTERS]}...", what
        )
    return raw


def _raised(attempt: Attempt, error: BaseException | None) -> dict[str, Any]:
    """Return the fields of an Ending that describe an exception."""
    traceback = "" if error is None else traceback_of(error, secret_values(attempt.state))
    return {"traceback": traceback, "error": error, "led_by": led_by(error), "stopped_at": attempt.stopped_at}
