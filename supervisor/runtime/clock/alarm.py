"""The alarm: one task that calls back at given instants, for watchdogs, passivation, durable timers and overdue ends.

The task sleeps until the earliest instant. Polling four times a second would cost minutes in a simulated month.

Rules
- Callbacks are synchronous and short. A callback that needs to wait starts a task, in a group that owns it. One whose
  store is away is called again (patience.py): it reads first, and acts then.
- A caller takes back an appointment that it no longer needs: the heap keeps its callback in memory until it is due.
- `lag` is the sum of all delays of this task over 50 ms: another task held the loop, or the process was stopped.
  Watchdogs subtract it from their clock by `now` (W11). `now` stands still from the instant at which this task was to
  run until it has run, because until then the lag is not known.
"""

import heapq
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any

import anyio

from supervisor.core.errors import StoreDied
from supervisor.runtime.clock.patience import PAUSE_SECONDS
from supervisor.seam.store import StoreAway

TOLERATED_LAG_SECONDS = 0.05
FEW = 100  # appointments taken back: up to this number the heap is not rebuilt

Appointment = list[Any]
"""Instant, number, callback. A list, because the heap compares lists item by item in this order."""


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
        """Call back at an instant of the loop's clock, or as soon after it as the loop is free."""
        appointment = [deadline, next(self._count), callback]
        heapq.heappush(self._heap, appointment)
        if deadline < self._planned:
            self._planned = max(deadline, anyio.current_time())
            self._wake.set()
        return appointment

    def take_back(self, appointment: Appointment | None) -> None:
        """Cancel an appointment. Nothing happens if its callback was called already."""
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
            self._planned = max(self._heap[0][0], now) if self._heap else inf  # an instant in the past makes no lag
            if self._planned > anyio.current_time():
                with anyio.CancelScope(deadline=self._planned):
                    await self._wake.wait()
                if self._wake.is_set():
                    self._wake = anyio.Event()
            else:
                await anyio.lowlevel.checkpoint()
            now = anyio.current_time()
            if now - self._planned > TOLERATED_LAG_SECONDS:
                self.lag += now - self._planned
            self._planned = now
            while self._heap and self._heap[0][0] <= now:
                appointment = heapq.heappop(self._heap)
                callback, appointment[2] = appointment[2], None
                if callback is None:
                    self._taken_back -= 1
                    continue
                try:
                    callback()
                except StoreAway:
                    self.at(now + PAUSE_SECONDS, callback)
                except StoreDied:
                    pass  # all callers are told
