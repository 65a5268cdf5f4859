"""Watchdog arithmetic: when has a run been silent for too long? (W1-W7, W11)

Pure: `now` is an argument, on a clock that only grows and from which the loop's own lag was subtracted
(runtime/clock/watchdog.py).

Rules
- The clock is stopped while a named reason pauses it and no step or model call is in flight (W2). When the last reason
  goes, the full budget starts again. A model call rests while its own tasks wait: it is not in flight then. Pausing
  twice for one reason, or ending a pause that did not begin, is an error.
- While a model call without a first heartbeat is in flight, the budget is `first_progress_timeout`, whatever its
  siblings do; `keepalive` counts only then (W5, W6). A heartbeat from outside all model calls counts for each of them.
- `active_timeout` counts everything but waits: it counts executing calls; it does not count people, children and
  timers (W5).
- A heartbeat stores a coarse instant (`beat`), since it must cost almost nothing. The instant may be older than the
  heartbeat by the clock's tick, so expiry is checked one tick later, never earlier than the budget (W11).
"""

from math import inf
from typing import Literal

from supervisor.core.errors import IllegalEvent

PauseKind = Literal["wait", "call"]
"""wait: for people, messages, children, timers. call: a call that executes under a deadline of its own."""


class Inactivity:
    """How long one attempt has been silent, and how long it has been active."""

    __slots__ = (
        "_active",
        "_active_since",
        "_model_calls",
        "_resting",
        "_work",
        "active_timeout",
        "beat",
        "budget",
        "first_budget",
        "pauses",
        "since",
        "unheard",
    )

    def __init__(self, now: float, budget: float, first_budget: float, active_timeout: float | None) -> None:
        self.budget = budget
        self.first_budget = first_budget
        self.active_timeout = active_timeout
        self.pauses: dict[str, PauseKind] = {}
        self.since = now
        self.beat = -inf
        """The last heartbeat."""
        self.unheard: tuple[object, ...] = ()
        """Model calls in flight without a heartbeat so far."""
        self._work = 0
        self._model_calls = 0
        self._resting = 0
        """How many of the model calls wait themselves."""
        self._active = 0.0
        self._active_since: float | None = now

    @property
    def is_paused(self) -> bool:
        return bool(self.pauses) and not self._is_working

    @property
    def _is_working(self) -> bool:
        return self._work > self._resting

    def pause(self, reason: str, kind: PauseKind, now: float) -> None:
        if reason in self.pauses:
            raise IllegalEvent(f"the watchdog is already paused for {reason}")
        self.pauses[reason] = kind
        self._count(now)

    def resume(self, reason: str, now: float) -> None:
        if reason not in self.pauses:
            raise IllegalEvent(f"the watchdog was not paused for {reason}")
        del self.pauses[reason]
        if not self.pauses:
            self.since = now
        self._count(now)

    def begin_work(self, now: float, model_call: object = None) -> None:
        """A step, or this model call, is in flight: it is watched, whatever else waits (W2)."""
        if self.is_paused:
            self.since = now
        self._work += 1
        if model_call is not None:
            self._model_calls += 1
            self.unheard += (model_call,)
            self.since = now
        self._count(now)

    def end_work(self, now: float, model_call: object = None) -> None:
        is_call = model_call is not None
        if not (self._model_calls if is_call else self._work - self._model_calls):
            raise IllegalEvent(f"no {'model call' if is_call else 'step'} is in flight")
        self._work -= 1
        self._model_calls -= is_call
        if model_call in self.unheard:
            self.hear(model_call)
        self.progress(now)
        self._count(now)

    def rest(self, now: float) -> None:
        """A model call waits: for a person, or for a call that executes under its own deadline."""
        self._resting += 1
        self._count(now)

    def go_on(self, now: float) -> None:
        """A model call does not wait any more, and has its full budget."""
        if not self._resting:
            raise IllegalEvent("no model call waits")
        self._resting -= 1
        self.since = now
        self._count(now)

    def progress(self, now: float) -> None:
        """An operation completed. This is not the first progress of a model call in flight."""
        self.since = now

    def hear(self, model_call: object) -> None:
        """A model call has had its first heartbeat; None: it is not known which one, so this counts for all."""
        self.unheard = () if model_call is None else tuple(call for call in self.unheard if call is not model_call)

    def keepalive(self, now: float, model_call: object) -> None:
        """The peer is alive. This is not progress: it counts only before the first progress of its model call (W6);
        None: of any model call."""
        if self.unheard if model_call is None else model_call in self.unheard:
            self.since = now

    @property
    def last_progress(self) -> float:
        return max(self.since, self.beat)

    @property
    def _silence(self) -> float:
        return self.first_budget if self.unheard else self.budget

    def due_at(self, tick: float) -> float | None:
        """Return the instant from which the run is stalled; None while the clock is stopped."""
        instants = []
        if not self.is_paused:
            instants.append(max(self.since, self.beat + tick) + self._silence)
        if (spent_at := self._spent_at()) is not None:
            instants.append(spent_at)
        return min(instants, default=None)

    def left(self, now: float) -> tuple[float, float] | None:
        """Return the rest of the budget that ends first, and that budget; None while the clock is stopped."""
        due = self.due_at(0.0)
        if due is None:
            return None
        budget = self._silence
        if self.active_timeout is not None and (self.is_paused or due < self.last_progress + budget):
            budget = self.active_timeout
        return max(0.0, due - now), budget

    def cause(self, now: float) -> str:
        """Return which budget is used up, for a run that is stalled."""
        if self.is_used_up:
            return f"active_timeout: active for {self.active_time(now):.3f} s"
        return f"no progress for {now - self.last_progress:.3f} s (budget {self._silence:g} s)"

    @property
    def is_used_up(self) -> bool:
        """Whether the active time is, rather than the budget of a silence."""
        return (spent_at := self._spent_at()) is not None and spent_at == self.due_at(0.0)

    def _spent_at(self) -> float | None:
        """Return the instant at which the active time is used up."""
        if self.active_timeout is None or self._active_since is None:
            return None
        return self._active_since + self.active_timeout - self._active

    def active_time(self, now: float) -> float:
        return self._active + (now - self._active_since if self._active_since is not None else 0.0)

    def _count(self, now: float) -> None:
        """Start or stop the clock of active time: it is stopped while there are only waits."""
        waits = "wait" in self.pauses.values()
        is_stopped = waits and not self._is_working and "call" not in self.pauses.values()
        if is_stopped and self._active_since is not None:
            self._active += now - self._active_since
            self._active_since = None
        elif not is_stopped and self._active_since is None:
            self._active_since = now
