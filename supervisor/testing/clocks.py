"""The wall clock of a test: set forward or back while its event loop goes on, or standing still.

The loop's clock is another one: virtual time replaces it (supervisor/testing/__init__.py). A person or a time server
sets the wall clock of a machine at any moment, and no timer of a running process may move by that.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from supervisor.runtime.clock.clock import Clock
from supervisor.testing.replacing import wrapped


class WallClock:
    """The wall clock that the supervisors of a test read."""

    ahead: float = 0.0
    """Seconds by which it was set forward; negative: back."""
    stands_at: datetime | None = None
    """The instant at which it stands still, aware UTC; None: it goes on."""


@contextmanager
def wall_clock() -> Iterator[WallClock]:
    """Give all supervisors of this process a wall clock that the test sets."""
    shown = WallClock()

    def read(now: Callable[[Clock], datetime], clock: Clock) -> datetime:
        return shown.stands_at or now(clock) + timedelta(seconds=shown.ahead)

    with wrapped(Clock, "now", read), wrapped(Clock, "now_elsewhere", read):
        yield shown
