"""Durable timers: `sleep` and `move_on_after`. Their due instant is journaled, and is the same in every attempt.

The expiry of a `move_on_after` is a result like any other. It first gets its place in the replay order, and cancels the
block when its turn has come. So the block is cancelled at the same place in every attempt.

A block may be inside another block of the same length, and a save may complete the inner one while the outer one goes
on. So each depth of nesting has a counter of its own (runtime/attempt/operation_ids.py).
"""

from collections.abc import Callable
from functools import partial

import anyio

from supervisor.core import events as e
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, RunStopping, StoreError, Suspended
from supervisor.core.events import WaitKind
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.native_cancellation import is_own_doing
from supervisor.runtime.attempt.settling import own_tasks
from supervisor.runtime.clock.alarm import Appointment

FOREVER_SECONDS = 100 * 365 * 86_400.0
"""Seconds. A longer timer is cut to this century, since dates have an end."""
_EXPIRED, _IN_TIME = to_json(True, "a timer"), to_json(False, "a timer")


async def _begin(attempt: Attempt, operation: str, kind: WaitKind, seconds: float) -> None:
    """Journal a new timer with its due instant."""
    clock = attempt.host.clock
    due_at = clock.after(min(seconds, FOREVER_SECONDS))
    event = e.OperationStarted(at=clock.now(), operation=operation, kind=kind, due_at=due_at)
    await attempt.append(lambda view, state: [event])


def _check_seconds(seconds: float) -> None:
    if not seconds >= 0:
        raise InvalidInput(f"a timer takes 0 seconds or more, not {seconds}")


async def sleep(attempt: Attempt, branch: str, seconds: float) -> None:
    """Wait until a journaled instant; see Context.sleep."""
    _check_seconds(seconds)
    operation = attempt.names.of_operation(branch, "sleep", "", seconds)
    attempt.begin_operation()
    try:
        try:
            if await attempt.enter(operation) is None:
                await _begin(attempt, operation, "sleep", seconds)
            record = attempt.state.operations[operation]
            if record.state == "abandoned":
                await attempt.wait_for_scope()
            if record.is_open:
                await _wait_until_due(attempt, operation)
                await attempt.deliver(lambda: attempt.finished(operation, "sleep", value=_EXPIRED))
        except anyio.get_cancelled_exc_class():
            if await is_own_doing(attempt):
                await attempt.abandon(operation, "sleep")
            raise
        await attempt.take(operation)
    finally:
        await attempt.end_operation(operation)


async def _wait_until_due(attempt: Attempt, operation: str) -> None:
    request = attempt.state.operations[operation].request
    assert isinstance(request, e.OperationStarted)
    deadline = attempt.host.clock.timer(request.due_at, request.at)
    attempt.timers[operation] = request.due_at
    try:
        await wait_until(attempt, operation, deadline, is_refused=False)
    finally:
        del attempt.timers[operation]


async def wait_until(
    attempt: Attempt,
    operation: str,
    deadline: float,
    is_over: Callable[[], bool] = lambda: False,
    *,
    is_refused: bool = True,
) -> None:
    """Wait until an instant of the loop's clock, or until `is_over`. `is_refused`: as in Attempt.wait."""
    due = attempt.host.alarm.at(deadline, partial(attempt.wake, operation))
    try:
        await attempt.wait(
            operation, operation, lambda: is_over() or anyio.current_time() >= deadline, is_refused=is_refused
        )
    finally:
        attempt.host.alarm.take_back(due)


class DurableTimer:
    """The timer of a `Context.move_on_after`: the scope of its block, and whether it expired before the block ended."""

    def __init__(self, attempt: Attempt, branch: str, seconds: float) -> None:
        _check_seconds(seconds)
        self.scope = anyio.CancelScope()
        self._attempt = attempt
        self._seconds = seconds
        self._operation, _ = attempt.names.of_block(branch, "timer", seconds)
        self._firing = anyio.CancelScope()
        self._due: Appointment | None = None
        self._has_fired = anyio.Event()

    @property
    def expired(self) -> bool:
        record = self._attempt.state.operations.get(self._operation)
        result = record.result if record is not None else None
        return isinstance(result, e.OperationFinished) and bytes(result.value) == bytes(_EXPIRED)

    async def start(self) -> None:
        attempt = self._attempt
        attempt.begin_operation()
        try:
            is_new = await attempt.enter(self._operation) is None
            async with attempt.resting():  # a later attempt does not wait for the disk here
                if is_new:
                    with attempt.settling.holding():
                        await _begin(attempt, self._operation, "timer", self._seconds)
        finally:
            await attempt.end_operation()
        record = attempt.state.operations[self._operation]
        if self.expired:
            self._begin_to_fire()
        elif record.is_open:
            assert isinstance(record.request, e.OperationStarted)
            attempt.timers[self._operation] = record.request.due_at
            deadline = attempt.host.clock.timer(record.request.due_at, record.request.at)
            self._due = attempt.host.alarm.at(deadline, self._come_due)

    def _come_due(self) -> None:
        if self._operation in self._attempt.timers and self._attempt.stop_reason is None:
            self._begin_to_fire()

    def _begin_to_fire(self) -> None:
        self._attempt.firing += 1
        self._attempt.host.start_soon(self._fire)

    async def _fire(self) -> None:
        """Cancel the block, at the expiry's place in the replay order."""
        attempt = self._attempt
        own_tasks(attempt.settling)
        try:
            with self._firing:
                if self._firing.cancel_called or attempt.has_ended:
                    return  # the block ended before this task began, and its session may have left memory
                if not self.expired and not await attempt.deliver(self._expiry):
                    return  # the block ended before it could be cancelled
                try:
                    await attempt.take(self._operation)
                    self.scope.cancel()
                finally:
                    await attempt.leave(self._operation)
        except (RunStopping, StoreError, Suspended):
            pass  # the agent's own tasks get the same exception, and unwind
        finally:
            self._has_fired.set()
            attempt.firing -= 1
            attempt.check_quiet()

    def _expiry(self) -> e.OperationFinished | None:
        if self._firing.cancel_called or not self._attempt.state.operations[self._operation].is_open:
            return None
        return self._attempt.finished(self._operation, "timer", value=_EXPIRED)

    async def interrupt(self, error: BaseException) -> None:
        """End the timer: an error, or a cancellation that is not this timer's own, has left the block."""
        self._end()
        if isinstance(error, anyio.get_cancelled_exc_class()):
            await is_own_doing(self._attempt)
        if not self.scope.cancel_called and self._attempt.stop_reason is None:
            await self._attempt.abandon(self._operation, "timer")
            await self._attempt.leave(self._operation)
        self._attempt.complete(self._operation)

    async def finish(self) -> None:
        """End the timer: the block has ended. Journal that it ended in time, unless the timer has expired."""
        attempt = self._attempt
        if self.expired:
            if not self.scope.cancel_called:
                await self._has_fired.wait()
            self._end()
            return attempt.complete(self._operation)
        self._end()
        attempt.begin_operation()
        try:
            await attempt.check()
            record = attempt.state.operations[self._operation]
            if record.state == "abandoned":
                return None
            if record.is_open:
                await attempt.deliver(lambda: attempt.finished(self._operation, "timer", value=_IN_TIME))
            await attempt.take(self._operation)
        finally:
            await attempt.end_operation(self._operation)
        return None

    def _end(self) -> None:
        self._firing.cancel()
        self._attempt.host.alarm.take_back(self._due)
        self._attempt.timers.pop(self._operation, None)
        self._attempt.check_quiet()  # without this timer the run may only wait for people
