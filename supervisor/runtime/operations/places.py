"""When model calls and steps ask for a place of a limit, and give it back.

Rules
- A model call marks its tasks with a Place. The first new step inside asks, when its id and arguments are fixed, after
  the barrier and before its function. It gives the place back once its result is journaled; the next step asks anew.
- The block itself asks at its entry if it may: in no replay, and if no operation of the agent is under way. Else a
  result that came meanwhile would be given before it in this attempt, and after it in the next one, which does not
  wait. `at_entry` says that its own code asks the model, without steps: it waits at its entry in any case.
- A place that was taken at the entry is given back at each wait of the tasks inside, and taken again when the operation
  is over, unless steps ask for themselves.
- A step whose endpoint is busy closes the limit before it gives its place back, so that no other one is served between.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Final

from supervisor.core.errors import RetryAfter
from supervisor.core.limits import OWN, Ticket
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.places import PLACE, Place


@asynccontextmanager
async def within_limit(attempt: Attempt, name: str | None, *, at_entry: bool) -> AsyncIterator[None]:
    """Enclose a model call that has a limit."""
    if name is None:
        yield
        return
    limits, around = attempt.host.limits, PLACE.get()
    place = Place(attempt, name, around, at_entry=at_entry)
    if not attempt.replay.is_replaying and (at_entry or attempt.is_alone):
        attempt.entering += 1
        try:
            place.ticket = await limits.take(attempt, name, in_operation=False)
        finally:
            attempt.entering -= 1
    place.regains = at_entry or place.ticket is not None
    PLACE.set(place)
    try:
        yield
    except RetryAfter as busy:
        limits.close(name, busy.seconds)
        raise
    finally:
        PLACE.set(around)
        place.regains = False
        ticket, place.ticket = place.ticket, None
        limits.release(ticket)
    if around is not None and around.regains:
        await attempt.regain(around)


def call_of(attempt: Attempt) -> Place | None:
    """Return the model call with a limit in which this task runs."""
    place = PLACE.get()
    while place is not None and not (place.owner is attempt and place.is_call):
        place = place.around
    return place


async def take_for_step(attempt: Attempt, number: int = 0) -> Ticket | None:
    """Take a place for a new step, if it is in a model call that has a limit."""
    place = call_of(attempt)
    if place is None:
        return None
    if not place.at_entry:
        place.regains = False  # its steps ask for themselves
    if place.ticket is not None:
        ticket, place.ticket = place.ticket, None
        return ticket
    return await attempt.host.limits.take(attempt, place.name, in_operation=True, number=number)


async def take_again(attempt: Attempt, number: int) -> Ticket:
    """Wait until a step whose endpoint was busy may run again, at its place in the order. If the run is told to end
    meanwhile, it runs at once: busy again, it has failed."""
    name = _busy_name(attempt)
    return await attempt.host.limits.take(attempt, name, in_operation=True, number=number, is_again=True)


def close_for(attempt: Attempt, busy: RetryAfter) -> None:
    """Close the limit of a step, since what it asks is busy; one without a limit closes for its session alone."""
    attempt.host.limits.close(_busy_name(attempt), busy.seconds)


def _busy_name(attempt: Attempt) -> str:
    call = call_of(attempt)
    return f"{OWN}{attempt.session}" if call is None else call.name


HOLDS_NONE: Final = nullcontext()
"""A context for the function of a step or a tool that holds no place."""


@contextmanager
def holding(attempt: Attempt, ticket: Ticket) -> Iterator[None]:
    """Enclose the function of a step or a tool that holds a place. The place is given back afterwards, or when the
    function waits."""
    around = PLACE.get()
    place = Place(attempt, ticket.name, around, ticket, is_call=False)
    PLACE.set(place)
    try:
        yield
    finally:
        PLACE.set(around)
        held, place.ticket = place.ticket, None
        attempt.host.limits.release(held)
