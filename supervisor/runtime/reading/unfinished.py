"""The work that is still under way in this process, for a caller that has waited long enough for its end.

Rules
- Any thread may ask, even while the loop is blocked: only attempts in memory are read, and not the store.
- Names of agents and tools are untrusted text: a caller that shows them makes them safe for a screen.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import msgspec

from supervisor.core import events as e

if TYPE_CHECKING:
    from supervisor.runtime.attempt.attempt import Attempt
    from supervisor.runtime.lifecycle.runner import Runner

OWN_CODE: Final = "its own code"
opened: "Final[WeakSet[Runner]]" = WeakSet()
"""The runners of this process. A closed one has no attempts."""


class Unfinished(msgspec.Struct, frozen=True):
    """One thing that an attempt in memory is doing, or that it has left (T3)."""

    session: str
    agent: str
    doing: str
    since: datetime
    seconds: float
    """How long it had been doing this when it was asked for."""

    def __str__(self) -> str:
        return f"{self.agent} [{self.session}]: {self.doing} for {self.seconds:.0f} s"


def all_unfinished() -> list[Unfinished]:
    """Return the unfinished work of every open supervisor of this process."""
    return [each for runner in list(opened) for each in unfinished(runner)]


def unfinished(runner: "Runner") -> list[Unfinished]:
    """Return what the attempts in memory are doing: calls, steps and model calls, or else their own code."""
    found = [each for attempt in list(runner.attempts.live.values()) for each in _of_attempt(runner, attempt)]
    return [*found, *_left(runner)]


def _left(runner: "Runner") -> Iterator[Unfinished]:
    now, instant = runner.clock.now_elsewhere(), runner.clock.elsewhere()
    for body in list(runner.bodies.left):
        seconds = max(0.0, instant - body.left_at)
        since = now - timedelta(seconds=seconds)
        yield Unfinished(body.session, body.agent, f"{body.name}, whose call or step has ended,", since, seconds)


def _of_attempt(runner: "Runner", attempt: "Attempt") -> Iterator[Unfinished]:
    work = attempt.watch.work
    under_way = ((f"step {each.name}" if each.name else "model call", _wall(runner, each.since)) for each in work)
    doing = [*_calls(attempt), *under_way]
    if not doing:
        doing.append((OWN_CODE, _wall(runner, attempt.watch.inactivity.last_progress)))
    now = runner.clock.now_elsewhere()
    for what, since in doing:
        seconds = max(0.0, (now - since).total_seconds())
        yield Unfinished(attempt.session, attempt.spec.name, what, since, seconds)


def _calls(attempt: "Attempt") -> Iterator[tuple[str, datetime]]:
    state = attempt.host.journal.states.get(attempt.session)
    for reason, kind in dict(attempt.watch.inactivity.pauses).items():
        record = None if state is None else state.operations.get(reason.removeprefix("call:"))
        if kind == "call" and record is not None and isinstance(record.request, e.ToolCallRequested):
            yield f"call {record.request.tool}", (record.started or record.request).at


def _wall(runner: "Runner", instant: float) -> datetime:
    """Return the wall time of an instant of the watchdog's clock."""
    ago = runner.clock.elsewhere() - runner.alarm.lag - instant
    return runner.clock.now_elsewhere() - timedelta(seconds=max(0.0, ago))
