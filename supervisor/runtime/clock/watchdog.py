"""The watchdog ends attempts that show no progress (W1-W7, W11, W12). The arithmetic is in core/sessions/inactivity.py.

A heartbeat must cost almost nothing. So it stores `coarse`, an instant that a tick renews. There is no loop over all
attempts: the alarm looks at each one at the earliest instant at which it could be due, and again later if it is not.

Rules
- The watchdog's clock is the loop's clock less the lag that the alarm has measured. So a blocked loop stalls no attempt
  (W11).
- The tick is 4/5 of the tolerance of the shortest budget. The tolerance is 5 % of the budget, at most 250 ms and at
  least 10 ms. While no watch is armed there is no tick.
- A model call whose own tasks wait for people, or for a call with a deadline of its own, does not count as work
  meanwhile. A model call elsewhere does: a wait outside of it stops no clock.
- A watch decides on expiry and acts on it in one step: a paused watch never expires, and expiry is final (W3).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from types import MappingProxyType
from typing import Any, Final

import msgspec

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.sessions.inactivity import Inactivity, PauseKind
from supervisor.runtime.clock.alarm import Alarm, Appointment
from supervisor.system.logs import FactLog

log = FactLog(__name__)

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
ROUNDING_SECONDS = 1e-6  # seconds: the error of an instant after the lag was added and subtracted again


class Watchdog:
    """The clock that all watches share."""

    def __init__(self, alarm: Alarm, *, is_on: bool = True) -> None:
        """`is_on`: whether watches expire here, and not where bodies run (environment.py)."""
        self.alarm = alarm
        self.is_on = is_on
        self._ticks: Counter[float] = Counter()
        self._pace = inf
        self._next: Appointment | None = None
        self.now = alarm.now
        """Returns the watchdog's instant: the loop's clock less its lag."""
        self.coarse = self.now()

    def look_at(self, instant: float, look: Callable[[], None]) -> Appointment:
        return self.alarm.at(instant + self.alarm.lag, look)

    def arm(self, tick: float) -> None:
        """Count a watch with this tick: from now on `coarse` is never older than the tick."""
        self._ticks[tick] += 1
        if tick < self._pace:
            self.alarm.take_back(self._next)
            self._tick()

    def disarm(self, tick: float) -> None:
        self._ticks[tick] -= 1
        if not self._ticks[tick]:
            del self._ticks[tick]

    def _tick(self) -> None:
        self.coarse = self.now()
        self._pace = min(self._ticks, default=inf)
        self._next = self.look_at(self.coarse + self._pace, self._tick) if self._ticks else None


class Work(msgspec.Struct, eq=False):
    """A step in flight, or a model call, whose name is empty. `since` is an instant of the watchdog's clock. `held`:
    the number of operations inside it that wait for the replay. `waits`: the number of waits of its own tasks.
    `on_silence`: see Context.model_call."""

    name: str
    since: float
    on_silence: Callable[[str], bool] | None = None
    held: int = 0
    waits: int = 0


_CALL: Final[ContextVar[Work | None]] = ContextVar("supervisor_model_call", default=None)
"""The model call in which a task runs or was started. The task's heartbeats count for that call."""


class Watch:
    """The watchdog of one attempt. It calls `expire` once, with the cause, when the attempt has stalled."""

    __slots__ = ("_dog", "_expire", "_inside", "_looks", "_looks_at", "_tick", "inactivity", "is_armed", "work")

    def __init__(self, dog: Watchdog, spec: AgentSpec[Any, Any], expire: Callable[[str], None]) -> None:
        self._dog = dog
        self._expire: Callable[[str], None] | None = expire if dog.is_on else None
        self._tick = 0.8 * min(0.25, max(0.01, 0.05 * spec.inactivity_timeout))
        self._looks: Appointment | None = None
        self._looks_at = inf
        self._inside: Mapping[str, Work] = _NONE
        """The model calls whose own tasks wait, by the reason of the pause. Most watches share an empty one."""
        self.is_armed = False
        self.work: tuple[Work, ...] = ()
        self.inactivity = Inactivity(
            dog.now(), spec.inactivity_timeout, spec.first_progress_timeout, spec.active_timeout
        )
        self._rearm()

    def heartbeat(self) -> None:
        inactivity = self.inactivity
        inactivity.beat = self._dog.coarse
        if inactivity.unheard:
            inactivity.hear(self._call)

    def keepalive(self) -> None:
        self.inactivity.keepalive(self._dog.now(), self._call)

    @property
    def _call(self) -> "Work | None":
        """The model call of this attempt in which the current task runs; None if it runs in none."""
        call = _CALL.get()
        return call if call in self.work else None

    def progress(self) -> None:
        self.inactivity.progress(self._dog.now())

    def pause(self, reason: str, kind: PauseKind) -> None:
        self.inactivity.pause(reason, kind, self._dog.now())
        if (call := self._call) is not None:
            self._inside = {**self._inside, reason: call}
            call.waits += 1
            if call.waits == 1:
                self.inactivity.rest(self._dog.now())
        self._rearm()

    def resume(self, reason: str) -> None:
        if (call := self._inside.get(reason)) is not None:
            self._inside = {other: each for other, each in self._inside.items() if other != reason} or _NONE
            call.waits -= 1
            if not call.waits:
                self.inactivity.go_on(self._dog.now())
        self.inactivity.resume(reason, self._dog.now())
        self._rearm()

    @property
    def is_working(self) -> bool:
        """Whether a step or a model call is in flight whose own tasks do not wait."""
        return any(not work.waits for work in self.work)

    @property
    def is_at_work(self) -> bool:
        """Whether a step or a model call is in flight that has no operation waiting for the replay."""
        return any(not work.held for work in self.work)

    @contextmanager
    def held(self) -> Iterator[None]:
        """An operation waits for the replay. If it is inside a model call, that call is not at work meanwhile."""
        if (call := self._call) is None:
            yield
            return
        call.held += 1
        try:
            yield
        finally:
            call.held -= 1

    def left(self) -> tuple[float, float] | None:
        """Return the seconds that are left, and the budget they are left of; None while the watch cannot expire."""
        return self.inactivity.left(self._dog.now()) if self.is_armed else None

    @contextmanager
    def working(
        self, step: str = "", *, model_call: bool = False, on_silence: Callable[[str], bool] | None = None
    ) -> Iterator[None]:
        """A step or a model call is in flight: the clock runs even if other operations wait."""
        work, around = Work(step, self._dog.now(), on_silence), _CALL.get()
        call = work if model_call else None
        self.inactivity.begin_work(work.since, call)
        self.work += (work,)
        self._rearm()
        _CALL.set(call or around)
        try:
            yield
        finally:
            _CALL.set(around)
            self.work = tuple(other for other in self.work if other is not work)
            if work.waits:  # its tasks outlive it, and wait for themselves from now on
                self._inside = {reason: other for reason, other in self._inside.items() if other is not work} or _NONE
                self.inactivity.go_on(self._dog.now())
            self.inactivity.end_work(self._dog.now(), call)
            self._rearm()

    def disarm(self) -> None:
        """Never expire: the attempt was stopped or has ended."""
        self._expire = None
        self._dog.alarm.take_back(self._looks)
        self._set_armed(False)

    def _rearm(self) -> None:
        due = self.inactivity.due_at(self._tick) if self._expire is not None else None
        self._set_armed(due is not None)
        if due is not None and (earliest := self._earliest(due)) < self._looks_at:
            self._looks_at = earliest
            self._dog.alarm.take_back(self._looks)
            self._looks = self._dog.look_at(earliest, self._look)

    def _set_armed(self, is_armed: bool) -> None:
        if is_armed != self.is_armed:
            self.is_armed = is_armed
            (self._dog.arm if is_armed else self._dog.disarm)(self._tick)

    def _earliest(self, due: float) -> float:
        """Return the earliest instant at which the watch could be due: a first heartbeat may shorten the budget."""
        if not self.inactivity.unheard:
            return due
        return min(due, max(self.inactivity.since, self._dog.now()) + self.inactivity.budget)

    def _look(self) -> None:
        self._looks_at = inf
        now = self._dog.now()
        due = self.inactivity.due_at(self._tick) if self._expire is not None else None
        if due is not None and due <= now + ROUNDING_SECONDS and self._expire is not None:
            cause = self.inactivity.cause(now)
            if self.inactivity.is_used_up or not self._is_silence_met(cause):
                self._expire(cause)
                return
            self.progress()
        self._rearm()

    def _is_silence_met(self, cause: str) -> bool:
        """Whether a model call in flight ends by itself, so that the attempt goes on. `on_silence` is the agent's code,
        and runs in the alarm, on which all attempts depend: an exception of it is a no."""
        for work in self.work:
            try:
                if work.on_silence is not None and work.on_silence(cause):
                    return True
            except Exception as error:  # noqa: BLE001 # see above
                log.error("on_silence.failed", cause=cause, error=type(error).__name__)
        return False
