"""The one way in which code of a workflow waits for Temporal: for an activity, or for another workflow.

Rules
- A bare `await` of a handle inside a cancelled scope never returns. So a task waits for an event that the handle sets.
- A cancelled wait asks Temporal to cancel, and then waits for the end under a shield: a body that still runs may still
  have effects.
- A shield inside a workflow has no deadline of its own. A deadline there is a timer of the server, which also says each
  end that is waited for: of an activity at its timeouts at the latest, or when its worker gives no sign of life.
- A cancel of the workflow from Temporal (its pages, `temporal workflow cancel`) comes to one task, which does nothing
  but wait, and notes it. So it breaks no await of the tree.
- A workflow that leaves a worker's memory cancels all its tasks. That is no cancellation of a run: nothing is asked of
  Temporal any more, and each task ends at once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
from temporalio import workflow

T = TypeVar("T")


def is_evicted() -> bool:
    """Whether the workflow is leaving the memory of its worker: then Temporal refuses every request."""
    try:
        workflow.random()
    except BaseException:  # noqa: BLE001 # a private exception of temporalio, which is raised in no other case here
        return True
    return False


async def uncancelled(run: Coroutine[Any, Any, T], note_cancel: Callable[[], object]) -> T:
    """Run the code of a workflow in a task of its own, which no cancel from Temporal reaches. `note_cancel` is called
    for it."""
    task = asyncio.get_running_loop().create_task(run)
    while not task.done():
        try:
            await asyncio.wait([task])
        except anyio.get_cancelled_exc_class():
            if is_evicted():
                raise
            note_cancel()
    return task.result()


async def wait_for(handle: Any, note_cancel: Callable[[], object] = lambda: None) -> BaseException | None:
    """Wait until an activity or a workflow has ended. If the caller is cancelled meanwhile, cancel it, wait for its
    end all the same, and return the cancellation, which the caller raises again. `note_cancel` is called then."""
    done = anyio.Event()

    def note(ended: Any) -> None:
        if not ended.cancelled():
            ended.exception()  # looked at, so that it is not logged where a cancelled caller has no use for it
        done.set()

    handle.add_done_callback(note)
    try:
        await done.wait()
    except anyio.get_cancelled_exc_class() as cancellation:
        if is_evicted():
            raise
        handle.cancel()
        note_cancel()
        with anyio.CancelScope(shield=True):  # the server bounds it
            await done.wait()
        return cancellation
    return None
