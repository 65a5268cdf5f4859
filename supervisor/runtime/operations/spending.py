"""What bodies and agents have spent on models: priced when they say it, and journaled once.

Rules
- What a body has said it used is in the append of its result. If it has no result (it was cancelled, it stalled, it
  was left), it is an append of its own: it was paid, too. A replay runs no body, so it adds nothing.
- `ctx.used` is an operation: a replay finds it in the journal.
- The price is that of the moment, and is never computed again.
- What a crash cuts off was paid and is not counted; the step runs again, and counts then.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.encoding import JSON_NULL, printable_text, to_json
from supervisor.core.errors import Suspended
from supervisor.core.usage import Usage, checked_usage
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.bodies import Running
from supervisor.runtime.attempt.reservations import REQUEST, Request, Reservation, request_of


def note_used(attempt: Attempt, running: Running, usage: Any) -> None:
    """Note what a body has used; see StepContext.used."""
    given = _checked(usage)
    running.in_loop(lambda: take_used(running, attempt.host.price(given)))


def take_used(running: Running, usage: Usage) -> None:
    """Take what a body has used, with its price."""
    running.spent.append(usage)
    if running.request is not None:
        running.request.has_said = True


def _checked(usage: Any) -> Usage:
    given = checked_usage(usage)
    return replace(given, model=printable_text(given.model))


def take_spent(attempt: Attempt, running: Running) -> list[e.UsageSpent]:
    """Take what a body has said and what is not journaled yet, for an append."""
    if not running.spent:
        return []
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

    async def spend() -> None:
        done = attempt.finished(operation, "used", value=JSON_NULL)
        spent = e.UsageSpent(at=done.at, usage=attempt.host.price(given), operation=operation)
        await attempt.append(lambda view, state: [spent, done])
        if (request := request_of(attempt)) is not None:
            request.has_said = True

    await attempt.do_once(operation, spend)


async def use_now(attempt: Attempt, usage: Usage) -> None:
    """Journal what another program has used, unless this is a replay."""
    given = _checked(usage)
    await attempt.check()
    if not attempt.replay.is_replaying:
        spent = e.UsageSpent(at=attempt.host.clock.now(), usage=attempt.host.price(given))
        await attempt.append(lambda view, state: [spent])


@asynccontextmanager
async def asking_model(attempt: Attempt, reserve: Usage | None) -> AsyncIterator[None]:
    """Enclose a request to a model, as far as budgets bound it (B2)."""
    budgets, around = attempt.host.budgets, REQUEST.get()
    if not await budgets.bounds(attempt) or (reserve is not None and not reserve.requests):
        yield
        return
    request = Request(attempt, reserve)
    may_wait = not attempt.in_flight or attempt.spec.holds_process  # of that nothing is run again in a replay
    if not attempt.replay.is_replaying:
        await admit(attempt, request, in_operation=False, may_wait=may_wait)
    REQUEST.set(request)
    has_returned = False
    try:
        yield
        has_returned = True
    finally:
        REQUEST.set(around)
        is_silent = not request.has_said and (request.has_begun or (has_returned and not request.has_step))
        if request.is_admitted and is_silent:
            await _note_silent(attempt)
        budgets.release(attempt, request.reservation)


async def admit(attempt: Attempt, request: Request, *, in_operation: bool, may_wait: bool = True) -> None:
    """Wait until a request may begin."""
    found = await attempt.host.budgets.reserve(attempt, request.reserve, in_operation=in_operation, may_wait=may_wait)
    request.reservation, request.is_admitted = found, found is not None


async def admit_step(attempt: Attempt, running: Running, *, may_spend: bool) -> Reservation | None:
    """Wait until a new step may begin, if it is a request to a model. Return its own reservation, if it has one.
    `may_spend`: whether its function can say that it has spent."""
    running.request = request = request_of(attempt)
    if request is not None:
        request.has_step = True
        if not request.is_admitted:
            await admit(attempt, request, in_operation=True)
        request.has_begun = True
    elif may_spend:
        return await attempt.host.budgets.reserve(attempt, None, in_operation=True)
    return None


async def _note_silent(attempt: Attempt) -> None:
    """Journal a request that has said nothing of what it used."""
    unknown = Usage(input_tokens=None, cached_input_tokens=None, output_tokens=None)
    spent = e.UsageSpent(at=attempt.host.clock.now(), usage=unknown)
    with suppress(Suspended):
        await attempt.append(lambda view, state: [spent], bound=False)
