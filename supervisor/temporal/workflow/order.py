"""Wakes the cancelled tasks of a workflow in the order in which they were started.

Temporal runs a workflow again in other processes, and there its tasks must do the same in the same order. The loop runs
callbacks in the order in which they are registered. So a program that reads no clock and no random numbers of its own
is deterministic, with one exception: a cancel scope and a task group keep their tasks in a set, and a set is ordered by
addresses in memory. If one of them cancels several tasks, these wake in another order in each process.

How the order is restored
    `Task.cancel` registers callbacks that wake the task. `_call_soon` replaces the loop's `call_soon`, and puts a
    *place* into the loop's queue for each of these callbacks. Cancellations that follow each other without another
    callback in between share their places. When the loop reaches the first of these places, the callbacks are sorted
    by the numbers of their tasks, and each place runs the next one.

Rules
- `_create_task` replaces the loop's `create_task`, which makes every task of a workflow. It gives each task a number.
- The callbacks of one cancel stay next to each other: the marks of settling.py tell by that when a step runs.
- A query makes tasks, too, and a replay does not run it. Numbers only grow, so it does not change the order of others.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeVar
from weakref import ref

T = TypeVar("T")


async def in_order(awaitable: Awaitable[T]) -> T:
    """Await a workflow's code in a task of its own, on a loop that keeps the order."""
    return await _Order(asyncio.get_running_loop()).run(awaitable)


class _Order:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._create: Any = loop.create_task
        self._usual: Any = loop.call_soon
        self._count = 0
        self._cancelled: int | None = None
        """The number of the task whose `cancel` runs."""
        self._places: _Places | None = None
        """The places to which the next cancellation adds its own."""
        vars(loop)["create_task"] = self._create_task
        vars(loop)["call_soon"] = self._call_soon

    async def run(self, awaitable: Awaitable[T]) -> T:
        async def run() -> T:
            return await awaitable

        result: T = await self._create_task(run())
        return result

    def _create_task(self, coro: Any, **options: Any) -> Any:
        task = self._create(coro, **options)
        self._count += 1
        # Not a subclass: temporalio makes the task. A weak reference, since a task in a circle of references waits for
        # the garbage collector.
        task.cancel = partial(self._cancel, ref(task), self._count)
        return task

    def _cancel(self, task: Callable[[], "asyncio.Task[Any] | None"], number: int, msg: Any = None) -> bool:
        found = task()
        assert found is not None, "the caller has the task"
        before, self._cancelled = self._cancelled, number
        try:
            return asyncio.Task.cancel(found, msg)
        finally:
            self._cancelled = before

    def _call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._cancelled is None:
            self._places = None
            return self._usual(callback, *args, context=context)  # type: ignore[no-any-return] # the loop's own
        if self._places is None:
            self._places = _Places()
        handle = asyncio.Handle(callback, args, self._loop, context)
        self._places.waiting.append((self._cancelled, handle))
        self._usual(self._run_next, self._places)
        return handle

    def _run_next(self, places: "_Places") -> None:
        if self._places is places:
            self._places = None
        handle = places.next()
        if not handle.cancelled():
            handle._run()  # noqa: SLF001 # as loops do: it reports what the callback raises


class _Places:
    """Callbacks that wait for their places, each with the number of the task that it belongs to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, asyncio.Handle]] = []
        self._sorted: Iterator[tuple[int, asyncio.Handle]] | None = None

    def next(self) -> asyncio.Handle:
        if self._sorted is None:
            self._sorted = iter(sorted(self.waiting, key=lambda each: each[0]))  # stable: a task's own stay in order
        return next(self._sorted)[1]
