"""The one module that reads clocks. All code below it has `now` as a parameter.

There are two clocks. The loop's clock is monotonic, for budgets and deadlines. Wall time is aware UTC; it is journaled,
and it says when durable timers are due. Tests replace the loop's clock by a virtual one that jumps. A virtual clock
runs ahead of the machine's monotonic clock, which a real one never does. Wall time then runs ahead by as much:
otherwise durable timers would never come due.

Rules
- A process translates the due instant of a durable timer once, into an instant of the loop. If the wall clock is set
  afterwards, no timer of this process moves, whether its run is in memory or passivated. The next process translates
  again, by its own wall clock, because only wall time outlives a process.
- Where machines share a store, wall time is that of the store's server, so that a timer that one machine begins comes
  due at the same instant on another one.
- A timer of N seconds takes at most N seconds in each process, by the instant at which it began: the wall clock may
  have been set back meanwhile, by a year.
"""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final

import anyio
from anyio.lowlevel import RunVar

_START: Final[RunVar[tuple[float, float]]] = RunVar("supervisor_clock_start")
"""Both clocks when a Clock was first made in this loop: all Clocks of a loop must tell the same time."""


ROUNDING_SECONDS: Final = 2e-6  # seconds: wall time is in microseconds
FEW_TIMERS: Final = 1000
_SET: Final = timedelta(seconds=1.0)
"""If wall time and the loop's time differ by more, the wall clock was set."""
KEPT_SECONDS: Final = 60.0
"""Seconds for which a timer that came due is remembered. Its run is told within that time."""


class Clock:
    """Wall time and the loop's time, kept in step. Make it inside the event loop whose clock it reads."""

    def __init__(self, skew: Callable[[], timedelta] = timedelta) -> None:
        """`skew`: by how much the clock that counts is ahead of this machine's."""
        self.skew = skew
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
        real = datetime.now(UTC) + self.skew()
        return real + timedelta(seconds=ahead) if ahead > 1.0 else real

    def duration(self) -> float:
        """Return a number of seconds that is only good for differences: the duration of some work. Never show it."""
        return time.perf_counter()

    def elsewhere(self) -> float:
        """Return the loop's instant, for a thread that cannot ask the loop. It does not follow a virtual clock."""
        return self._loop_start + time.monotonic() - self._real_start

    def now_elsewhere(self) -> datetime:
        """Return wall time, for a thread that cannot ask the loop. It does not follow a virtual clock."""
        return datetime.now(UTC) + self.skew()

    def deadline(self, due_at: datetime, since: datetime) -> float:
        """Return the instant of the loop's clock at which wall time will be `due_at`, unless the wall clock is set, and
        no later than if it had begun now. `since`: when it began."""
        # Wall time is read first: rounding makes it late, never early.
        left = (due_at - max(self.now(), since)).total_seconds()
        return anyio.current_time() + left + ROUNDING_SECONDS

    def after(self, seconds: float) -> datetime:
        """Return the wall time at which a durable timer is due that begins now and lasts `seconds`."""
        due_at = self.now() + timedelta(seconds=seconds)
        self._remember(due_at, anyio.current_time() + seconds)
        return due_at

    def timer(self, due_at: datetime, since: datetime) -> float:
        """Return the instant of the loop's clock at which a durable timer is due: the same instant each time. `since`:
        when it began."""
        if (deadline := self._timers.get(due_at)) is None:
            deadline = self.deadline(due_at, since)
            self._remember(due_at, deadline)
        return deadline

    def first_due(self, timers: Iterable[tuple[datetime, datetime]]) -> datetime | None:
        """Return when the first of several durable timers is due, each with the instant at which it began: an instant
        of the wall clock as it is now, if that was set back meanwhile."""
        found = min(((self.timer(due_at, since), due_at) for due_at, since in timers), default=None)
        if found is None:
            return None
        deadline, due_at = found
        by_now = self.now() + timedelta(seconds=deadline - anyio.current_time())
        return by_now if due_at - by_now > _SET else due_at

    def is_ahead(self, due_at: datetime) -> bool:
        """Return whether this process has begun or translated a durable timer that is not due yet."""
        return self._timers.get(due_at, -inf) > anyio.current_time()

    def has_passed(self, due_at: datetime) -> bool:
        """Return whether a durable timer is due: by wall time, unless this process counts it and it is not due here."""
        return due_at <= self.now() and not self.is_ahead(due_at)

    def _remember(self, due_at: datetime, deadline: float) -> None:
        self._timers.setdefault(due_at, deadline)
        if len(self._timers) > self._many:
            since = anyio.current_time() - KEPT_SECONDS
            self._timers = {each: instant for each, instant in self._timers.items() if instant > since}
            self._many = max(FEW_TIMERS, 2 * len(self._timers))
