"""One task that waits for whatever is due next: watchdogs, passivation, durable timers, ends that are overdue.

It sleeps while nothing can be due, since an empty wake four times a second costs minutes in a simulated month.

Rules
- Callbacks are synchronous and short; one that needs to wait starts a task where that task has an owner.
- Whoever has no use for a call any more takes it back: until it is due, it would keep in memory whom it calls.
- `lag` is how much later than planned this task ran, in all, where it was over 50 ms: the loop was held by somebody, or
  the process was stopped. Watchdogs take it off their clock (W11), by `now`, which stands from the instant at which
  this task was to run until it has: whoever runs in between knows nothing of the lag yet.
"""

import heapq
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any

import anyio

TOLERATED_LAG = 0.05
FEW = 100  # calls that were taken back, which are not worth tidying up

Appointment = list[Any]
"""Instant, number, callback: compared by the heap in this order, so no class of ours."""


class Alarm:
    def __init__(self) -> None:
        self._heap: list[Appointment] = []
        self._taken_back = 0
        self._count = count()
        self._wake = anyio.Event()
        self._planned = inf
        self.lag = 0.0

    def now(self) -> float:
        """Return the loop's clock less all lag."""
        return min(anyio.current_time(), self._planned) - self.lag

    def at(self, deadline: float, callback: Callable[[], None]) -> Appointment:
        """Call back at an instant of the loop's clock, or as soon after as the loop gets to it."""
        appointment = [deadline, next(self._count), callback]
        heapq.heappush(self._heap, appointment)
        if deadline < self._planned:
            self._planned = max(deadline, anyio.current_time())
            self._wake.set()
        return appointment

    def take_back(self, appointment: Appointment | None) -> None:
        """Call nobody; nothing if it was called already."""
        if appointment is None or appointment[2] is None:
            return
        appointment[2] = None
        self._taken_back += 1
        if self._taken_back > max(FEW, len(self._heap) // 2):
            self._heap = [each for each in self._heap if each[2] is not None]
            heapq.heapify(self._heap)
            self._taken_back = 0

    async def run(self) -> None:
        """Serve until cancelled."""
        now = anyio.current_time()
        while True:
            self._planned = max(self._heap[0][0], now) if self._heap else inf  # what is overdue at first is no lag
            if self._planned > anyio.current_time():
                with anyio.CancelScope(deadline=self._planned):
                    await self._wake.wait()
                if self._wake.is_set():
                    self._wake = anyio.Event()
            else:
                await anyio.lowlevel.checkpoint()
            now = anyio.current_time()
            if now - self._planned > TOLERATED_LAG:
                self.lag += now - self._planned
            self._planned = now
            while self._heap and self._heap[0][0] <= now:
                appointment = heapq.heappop(self._heap)
                callback, appointment[2] = appointment[2], None
                if callback is not None:
                    callback()
                else:
                    self._taken_back -= 1
