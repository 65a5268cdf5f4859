"""The one module that reads clocks. Everything below it is given `now`.

Two clocks: the loop's, monotonic, for budgets and deadlines; and wall time, aware UTC, which is only recorded and says
when durable timers are due. Tests replace the loop's clock by one that jumps. A real loop's clock never runs ahead of
the machine's monotonic one; where it does, wall time runs ahead by as much, or durable timers would never come due.

Rules
- A process translates the due instant of a durable timer once. A wall clock that is set afterwards moves no timer of
  this process, whether its run is in memory or passivated. Only wall time outlives a process: the next one translates
  again, by the wall clock that it finds.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
from anyio.lowlevel import RunVar

_START: Final[RunVar[tuple[float, float]]] = RunVar("supervisor_clock_start")
"""Where both clocks stood when this loop was first asked: every clock in it must tell the same time."""


ROUNDING: Final = 2e-6  # seconds: wall time is in microseconds
FEW_TIMERS: Final = 1000
KEPT: Final = 60.0
"""Seconds after its instant for which a timer that came due is remembered: until its run has been told."""


class Clock:
    """Wall time and the loop's time, kept in step. Made inside the event loop that it reads."""

    def __init__(self) -> None:
        try:
            start = _START.get()
        except LookupError:
            start = (anyio.current_time(), time.monotonic())
            _START.set(start)
        self._loop_start, self._real_start = start
        self._timers: dict[datetime, float] = {}
        self._many = FEW_TIMERS

    def now(self) -> datetime:
        """Return wall time, aware UTC."""
        ahead = (anyio.current_time() - self._loop_start) - (time.monotonic() - self._real_start)
        real = datetime.now(UTC)
        return real + timedelta(seconds=ahead) if ahead > 1.0 else real

    def elsewhere(self) -> float:
        """Return the loop's instant as a thread outside of the loop knows it: not that of a virtual clock."""
        return self._loop_start + time.monotonic() - self._real_start

    def deadline(self, due_at: datetime) -> float:
        """Return the instant of the loop's clock at which wall time will be `due_at`, if nobody sets it."""
        left = (due_at - self.now()).total_seconds()  # read first: an instant that is rounded is late, never early
        return anyio.current_time() + left + ROUNDING

    def after(self, seconds: float) -> datetime:
        """Return the wall time at which a durable timer of so many seconds is due that begins now."""
        due_at = self.now() + timedelta(seconds=seconds)
        self._remember(due_at, anyio.current_time() + seconds)
        return due_at

    def timer(self, due_at: datetime) -> float:
        """Return the instant of the loop's clock at which a durable timer is due: the same one each time."""
        if (deadline := self._timers.get(due_at)) is None:
            deadline = self.deadline(due_at)
            self._remember(due_at, deadline)
        return deadline

    def _remember(self, due_at: datetime, deadline: float) -> None:
        self._timers.setdefault(due_at, deadline)
        if len(self._timers) > self._many:
            since = anyio.current_time() - KEPT
            self._timers = {each: instant for each, instant in self._timers.items() if instant > since}
            self._many = max(FEW_TIMERS, 2 * len(self._timers))


def duration() -> float:
    """Return a number of seconds whose differences are durations of this thread's work; never shown to anybody."""
    return time.perf_counter()
