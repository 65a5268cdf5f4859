"""What bodies and agents have spent on models: priced when they say it, and journaled once.

Rules
- What a body has said it used is in the append of its result. If it has no result (it was cancelled, it stalled, it
  was left), it is an append of its own: it was paid, too. A replay runs no body, so it adds nothing.
- `ctx.used` is an operation: a replay finds it in the journal.
- The price is that of the moment, and is never computed again.
- What a crash cuts off was paid and is not counted; the step runs again, and counts then.
"""

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.encoding import JSON_NULL, printable_text, to_json
from supervisor.core.errors import Suspended
from supervisor.core.usage import Usage, checked_usage
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.bodies import Running


def note_used(attempt: Attempt, running: Running, usage: Any) -> None:
    """Note what a body has used; see StepContext.used."""
    given = _checked(usage)
    running.in_loop(lambda: running.spent.append(attempt.host.price(given)))


def _checked(usage: Any) -> Usage:
    given = checked_usage(usage)
    return replace(given, model=printable_text(given.model))


def take_spent(attempt: Attempt, running: Running) -> list[e.UsageSpent]:
    """Take what a body has said and what is not journaled yet, for an append."""
    now = attempt.host.clock.now()
    taken, running.spent = running.spent, []
    return [e.UsageSpent(at=now, usage=usage, operation=running.operation) for usage in taken]


async def pay(attempt: Attempt, running: Running) -> None:
    """Journal what a body has used and what no result took along. Does not raise: the caller is on its way out."""
    if paid := take_spent(attempt, running):
        with suppress(Suspended):  # the store has refused it, which suspends the tree
            await attempt.append(lambda view, state: paid, bound=False)


async def append_result(attempt: Attempt, running: Running, ended: e.OperationFinished) -> None:
    """Journal the result of a step with what it has used."""
    paid = take_spent(attempt, running)
    try:
        await attempt.append(lambda view, state: [*paid, ended])
    except Suspended:  # the attempt is sealed: the step runs again, and has been paid
        running.spent = [each.usage for each in paid]
        raise


async def use(attempt: Attempt, branch: str, usage: Usage) -> None:
    """Journal what the agent itself has used; see Context.used."""
    given = _checked(usage)
    named = to_json(given, "a Usage")
    operation = attempt.names.of_operation(branch, "used", given.model, bytes(named).decode())
    attempt.begin_operation()
    try:
        if await attempt.enter(operation) is None:
            now = attempt.host.clock.now()
            spent = e.UsageSpent(at=now, usage=attempt.host.price(given), operation=operation)
            done = e.OperationFinished(at=now, operation=operation, kind="used", value=JSON_NULL)
            await attempt.append(lambda view, state: [spent, done])
        await attempt.take(operation)
    finally:
        await attempt.end_operation(operation)
