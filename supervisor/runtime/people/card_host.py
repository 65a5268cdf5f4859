"""The card host keeps approvals and what has happened to their cards: the seam below poster.py and cards.py.

The store of this process is one card host (posting.py). Another one keeps approvals elsewhere, and the same
code posts, retries and retires its cards.

Rules
- `read` does not wait. A card host that is far from its store keeps a copy of the approvals that the poster shows.
- When `note` returns, the event is kept. If that fails, the card host logs it and raises nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from supervisor.core.approvals.state import Left
from supervisor.core.events.asking import CardBegun, CardEvent, ReminderEvent
from supervisor.core.values import Approval


class CardHost(Protocol):
    """Keeps approvals, and what has happened to their cards."""

    def now(self) -> datetime:
        """Return wall time, aware UTC."""
        ...

    def after(self, seconds: float, callback: Callable[[], None], /) -> Callable[[], None]:
        """Call `callback` after `seconds`, or later, and again if it raises StoreError. Return a function that cancels
        the call at any time."""
        ...

    def read(self, approval: Approval, /) -> Approval | None:
        """Return an approval as it is now, None if it does not exist; unchanged if it cannot be read."""
        ...

    def mark(self, approval: Approval, /) -> Approval:
        """Return an approval as people see it now: marked if its run is blocked."""
        ...

    def find_left(self, approval: Approval, /) -> Mapping[str, Left]:
        """Return the noted states of an approval's cards, by target. Raises StoreError if they cannot be read."""
        ...

    async def claim(self, approval: Approval, begun: CardBegun, /) -> Left | None:
        """Keep the event of a card that is about to be posted. Return None if this process is to post it, or the state
        of the card that another process has posted for this target, or may have posted before it died."""
        ...

    async def begin_to_tell(
        self, due: Sequence[Approval], where: Mapping[str, Any], lasts: timedelta, /
    ) -> list[ReminderEvent | None]:
        """Keep that this process is about to send the last reminder of some approvals. Return what keeps it from that
        for each: that it was sent already, or that another process began to, at most `lasts` ago; None: nothing.
        `where`: the fields that name the target. Raises StoreError, and then this process has not begun."""
        ...

    async def note(self, approval: Approval, event: CardEvent | ReminderEvent, /) -> None:
        """Keep an event about a card of an approval, or about a message that told of it."""
        ...
