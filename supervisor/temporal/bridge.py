"""The one way in which code of a workflow waits for Temporal: for an activity, or for another workflow.

Rules
- A bare `await` of a handle inside a cancelled scope never returns. So a task waits for an event that the handle sets.
- A cancelled wait asks Temporal to cancel, and then waits for the end under a shield: a body that still runs may still
  have effects.
- Which of several cancelled tasks goes on first depends on where their objects are in memory, so it differs between
  processes, and a replay would send its commands in another order. So they wait for each other at a gate, and pass it
  in the order in which their waits began.
- A workflow that leaves a worker's memory cancels all its tasks. That is no cancellation of a run: nothing is asked of
  Temporal any more, and each task ends at once.
"""

from typing import Any, Final, Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint
from temporalio import workflow

K = TypeVar("K", int, str)

TICKS: Final = 3
"""Ticks of the loop in which all tasks that one event has cancelled come to the gate."""


def is_evicted() -> bool:
    """Whether the workflow is leaving the memory of its worker: then Temporal refuses every request."""
    try:
        workflow.random()
    except BaseException:  # noqa: BLE001 # a private exception of temporalio, which is raised in no other case here
        return True
    return False


class Gate(Generic[K]):
    """Where cancelled tasks wait for each other, to go on in the order of their keys."""

    def __init__(self) -> None:
        self._waiting: list[tuple[K, anyio.Event]] = []

    async def pass_with(self, key: K) -> None:
        """Pass, when the tasks have come that the same event has cancelled."""
        passed = anyio.Event()
        self._waiting.append((key, passed))
        with anyio.CancelScope(shield=True):
            if len(self._waiting) == 1:
                for _ in range(TICKS):
                    await checkpoint()
                waiting, self._waiting = sorted(self._waiting, key=lambda each: each[0]), []
                for _, event in waiting:
                    event.set()
            await passed.wait()


class Bridge:
    """The waits of one workflow."""

    def __init__(self) -> None:
        self._count = 0
        self._gate = Gate[int]()

    async def wait(self, handle: Any) -> BaseException | None:
        """Wait until an activity or a workflow has ended. If the caller is cancelled meanwhile, cancel it, wait for its
        end all the same, and return the cancellation, which the caller raises again."""
        self._count += 1
        number, done = self._count, anyio.Event()
        handle.add_done_callback(lambda _: done.set())
        try:
            await done.wait()
        except anyio.get_cancelled_exc_class() as cancellation:
            if is_evicted():
                raise
            await self._gate.pass_with(number)
            handle.cancel()
            with anyio.CancelScope(shield=True):
                await done.wait()
            return cancellation
        return None
