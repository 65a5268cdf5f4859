"""Places of limits, as operations see them: who holds one, and whom they ask.

The runner keeps the queues (runtime/lifecycle/limits.py). Who holds a place when is in core/limits.py.
"""

from contextvars import ContextVar
from typing import Final, Protocol, TypeVar

import anyio
import msgspec

from supervisor.core.limits import Ticket

AttemptT_contra = TypeVar("AttemptT_contra", contravariant=True)


class Place(msgspec.Struct, eq=False):
    """A model call that has a limit, or the function of a step or a tool that holds a place. `owner`: its attempt."""

    owner: object
    name: str
    around: "Place | None"
    ticket: Ticket | None = None
    is_call: bool = True
    regains: bool = False
    """Whether its own code needs the place: it takes the place again after a wait."""
    at_entry: bool = False
    asking: anyio.Event | None = None
    """Set when a task that takes the place again is done."""


PLACE: Final[ContextVar[Place | None]] = ContextVar("supervisor_place", default=None)
"""The innermost place of this task, or of the task that started it."""


class LimitKeeper(Protocol[AttemptT_contra]):
    """What keeps the queues of limits."""

    async def take(
        self,
        attempt: AttemptT_contra,
        name: str,
        *,
        in_operation: bool,
        is_shared: bool = False,
        counts: bool = True,
        number: int = 0,
        is_again: bool = False,
    ) -> Ticket:
        """Wait for a place. `in_operation`: whether an operation waits, which is counted already. `is_shared`: of all
        processes of the store. `number`: the place in the order of one that has come before. `is_again`: what it is for
        was busy; then the wait ends without a place when the run is told to end."""
        ...

    def release(self, ticket: Ticket | None) -> None:
        """Give a place back."""
        ...

    def close(self, name: str, seconds: float) -> None:
        """Let no one begin under this limit for so many seconds."""
        ...

    def ask_turn(self, attempt: AttemptT_contra) -> bool:
        """Whether an attempt holds a place of its agent's limit; else it waits for one from now on."""
        ...
