"""Signals: the first one stops gracefully, the second one at once (R8).

SIGINT, SIGTERM and SIGHUP cancel the work; leaving `open_supervisor` by that cancellation lets results in flight be
written, withdraws nothing, and keeps all of it resumable. The receiver lives outside of the cancelled scope, so that a
second signal is heard while the first one is still being obeyed.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import anyio
from anyio.abc import TaskStatus

from supervisor.cli.answers import say
from supervisor.core.errors import SupervisorError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE: Final = 10
"""Seconds that stopping takes at most; said to the person."""
STOPPED_READING: Final = 128 + signal.SIGPIPE
"""The exit code where nobody reads any more what is said (`| head`)."""


def run_until_stopped(
    body: Callable[[], Awaitable[None]],
    backend: Literal["asyncio", "trio"],
    restore: Callable[[], None] = lambda: None,
) -> int | None:
    """Run `body` to its end, or until a signal; returns the exit code of the signal, None if there was none. That
    nobody reads what is said counts as one.

    What `body` raises is raised bare. `restore` gives the terminal back when the process ends at once.
    """
    received: list[int] = []
    failures: list[BaseException] = []

    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()
            await tasks.start(_receive, scope, received, restore)
            with scope:
                try:
                    await body()
                except Exception as error:  # noqa: BLE001 # carried out of the task group bare, and raised below
                    failures.append(error)
            tasks.cancel_scope.cancel()

    anyio.run(work, backend=backend)
    if failures and not received:
        if isinstance(failures[0], BrokenPipeError):
            return STOPPED_READING
        raise failures[0]
    return 128 + received[0] if received else None


def bare(body: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Take the one error of a body out of the group that a task group makes of it; of several that say what to do, the
    first."""

    async def run() -> None:
        try:
            await body()
        except ExceptionGroup as group:
            others = group.split(SupervisorError)[1]
            error: Exception = group
            while isinstance(error, ExceptionGroup) and (others is None or len(error.exceptions) == 1):
                error = error.exceptions[0]
            raise error from None

    return run


async def _receive(
    scope: anyio.CancelScope,
    received: list[int],
    restore: Callable[[], None],
    *,
    task_status: TaskStatus[None],
) -> None:
    with anyio.open_signal_receiver(*SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            received.append(number)
            if len(received) > 1:
                restore()
                os._exit(128 + number)
            say(f"Stopping: what runs now may end, for {GRACE} s at most; once more stops at once.")
            scope.cancel()
