"""Reservations: what a request to a model, or a call of a tool, may use of the budgets above it, from before it begins
until it is counted.

The runner grants them (runtime/lifecycle/budgets.py). Operations ask for one where they begin something new: never in a
replay, and never between an approval and its `executing`.

Rules
- A request is what is in `ctx.model_call()`. It is granted when the block is entered, or when the first new step in it
  begins: the block waits only if no other operation of the agent is under way, and if it is no replay. Else a result
  that came meanwhile would be given before it in this attempt, and after it in the next one, which may not wait. A step
  waits where its id and arguments are fixed already.
- A step outside of such a block counts as a request if its function takes a StepContext: only such a one can say that
  it has spent. What it has reserved and not used is given back at its end.
- A request that says nothing of what it used is journaled as one of unknown tokens and price, if a budget bounds it.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar

import msgspec

from supervisor.core.budgets import Used
from supervisor.core.usage import Usage

AttemptT_contra = TypeVar("AttemptT_contra", contravariant=True)


class Reservation(msgspec.Struct, eq=False):
    """What is reserved, once it is granted. `wake` tells the tasks of its attempt that wait under a key."""

    wants: Used
    wake: Callable[[str], None]
    key: str = ""
    """What it waits for: the decision about a budget, or what is in flight."""
    is_granted: bool = False


class Request(msgspec.Struct, eq=False):
    """A block in which an agent asks a model. `reserve`: what it may use. `owner`: its attempt."""

    owner: object
    reserve: Usage | None
    reservation: Reservation | None = None
    is_admitted: bool = False
    has_step: bool = False
    has_begun: bool = False
    """Whether the body of a step in it has begun."""
    has_said: bool = False
    """Whether what it used was said."""


REQUEST: Final[ContextVar[Request | None]] = ContextVar("supervisor_request", default=None)
"""The request in which a task runs or was started."""


def request_of(attempt: object) -> Request | None:
    """Return the request of an attempt in which this task runs."""
    found = REQUEST.get()
    return found if found is not None and found.owner is attempt else None


class BudgetKeeper(Protocol[AttemptT_contra]):
    """What grants reservations: the runner's part that knows the budgets."""

    async def bounds(self, attempt: AttemptT_contra) -> bool:
        """Whether any budget bounds a run. Waits for a store that is away."""
        ...

    async def reserve(
        self, attempt: AttemptT_contra, wants: Used | Usage | None, *, in_operation: bool, may_wait: bool = True
    ) -> Reservation | None:
        """Wait until what is wanted is granted; None: no budget bounds it, or it would have to wait and may not. A
        Usage is a request's reservation; with None, that is the largest one so far. `in_operation`: whether an
        operation waits, which is counted already."""
        ...

    def release(self, attempt: AttemptT_contra, reservation: Reservation | None) -> None:
        """Give a reservation back: what was used is counted, or nothing was."""
        ...
