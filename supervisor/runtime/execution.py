"""Invokes an agent function and says how it ended: the two scopes, and whose exception is whose (W1).

None means that there is no ending: another attempt follows, or the process is going down.
"""

from typing import Any

import anyio

from supervisor.core.encoding import JSON_NULL, from_json, printable, to_json
from supervisor.core.errors import InvalidInput, Suspended
from supervisor.core.restarts import failed_steps
from supervisor.runtime.attempt import Attempt
from supervisor.runtime.context import LocalContext
from supervisor.runtime.ending import Ending


async def execute(attempt: Attempt) -> tuple[Ending | None, frozenset[str]]:
    """Run the agent function to its end, its children to theirs, and return what to record, and the steps whose
    failures led to it: another attempt could mend those (core/restarts.py)."""
    returned: list[Any] = []
    error: BaseException | None = None
    try:
        with attempt.external, attempt.inner:
            returned.append(
                await attempt.spec.fn(LocalContext(attempt), *attempt.spec.decode_input(attempt.state.input))
            )
            await _wait_for_children(attempt)
    except Suspended:
        pass
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseExceptionGroup as group:
        error = _own_error(group)
    except anyio.get_cancelled_exc_class():
        error = RuntimeError("a cancellation was raised inside the agent, by none of its scopes")
    except Exception as failure:  # noqa: BLE001 # an agent is the user's code: whatever it raises is its outcome
        error = failure
    return _ending(attempt, returned, error), frozenset() if _unasked(attempt) else failed_steps(error)


async def _wait_for_children(attempt: Attempt) -> None:
    """An agent that returns waits for its children, as a task group does (W13)."""
    attempt.is_finishing = True
    for child in attempt.state.open_children:
        await attempt.wait(f"child:{child}", child, lambda child=child: attempt.state.children[child] is not None)  # type: ignore[misc] # mypy does not infer a lambda's default


def _own_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return what is the agent's own in what its task groups raised."""
    if group.subgroup((KeyboardInterrupt, SystemExit)) is not None:
        raise group
    _, rest = group.split((Suspended, anyio.get_cancelled_exc_class()))
    return rest


def _ending(attempt: Attempt, returned: list[Any], error: BaseException | None) -> Ending | None:
    fate, partial = attempt.fate, attempt.state.saved or JSON_NULL
    if fate is not None and fate.is_pause:
        return None
    if fate is not None:
        cause = fate.cause + (f"; while ending: {_describe(error)}" if error is not None else "")
        if returned:
            partial = _partial(returned[0])
        return Ending(kind=fate.kind, cause=printable(cause), partial=partial)  # type: ignore[arg-type] # no pause: an outcome's kind
    unasked = _unasked(attempt)
    if error is not None:
        cause = _describe(error) + (f"; {attempt.diverged().cause}" if unasked else "")
        return Ending(kind="failed", cause=printable(cause), partial=partial)
    if unasked:
        return Ending(kind="failed", cause=printable(attempt.diverged().cause), partial=partial)
    try:
        value = to_json(returned[0], f"the result of agent {attempt.spec.name}")
        from_json(value, attempt.spec.return_type, f"the result of agent {attempt.spec.name}")
    except InvalidInput as misfit:
        return Ending(kind="failed", cause=printable(str(misfit)), partial=partial)
    return Ending(kind="succeeded", value=value)


def _unasked(attempt: Attempt) -> list[str]:
    """Return what the journal holds and the agent did not ask for again: it has taken another path."""
    return [op for op in attempt.memory.unclaimed if attempt.state.operations[op].state != "abandoned"]


def _partial(value: Any) -> Any:
    try:
        return to_json(value, "a partial result")
    except InvalidInput:
        return to_json(printable(repr(value)), "a partial result")


def _describe(error: BaseException | None) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: " + "; ".join(_describe(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
