"""The one module that reads clocks. Everything below it is given `now`.

Two clocks: the loop's, monotonic, for budgets and deadlines; and wall time, aware UTC, which is only recorded and says
when durable timers are due. Tests replace the loop's clock by one that jumps. A real loop's clock never runs ahead of
the machine's monotonic one; where it does, wall time runs ahead by as much, or durable timers would never come due.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
from anyio.lowlevel import RunVar

_START: Final[RunVar[tuple[float, float]]] = RunVar("supervisor_clock_start")
"""Where both clocks stood when this loop was first asked: every clock in it must tell the same time."""


class Clock:
    """Wall time and the loop's time, kept in step. Made inside the event loop that it reads."""

    def __init__(self) -> None:
        try:
            start = _START.get()
        except LookupError:
            start = (anyio.current_time(), time.monotonic())
            _START.set(start)
        self._loop_start, self._real_start = start

    def now(self) -> datetime:
        """Return wall time, aware UTC."""
        ahead = (anyio.current_time() - self._loop_start) - (time.monotonic() - self._real_start)
        real = datetime.now(UTC)
        return real + timedelta(seconds=ahead) if ahead > 1.0 else real

    def elsewhere(self) -> float:
        """Return the loop's instant as a thread outside of the loop knows it: not that of a virtual clock."""
        return self._loop_start + time.monotonic() - self._real_start

    def deadline(self, due_at: datetime) -> float:
        """Return the instant of the loop's clock at which wall time will be `due_at`."""
        return anyio.current_time() + (due_at - self.now()).total_seconds()


def duration() -> float:
    """Return a number of seconds whose differences are durations of this thread's work; never shown to anybody."""
    return time.perf_counter()
