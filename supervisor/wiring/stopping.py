"""Run a program until a signal stops it: gracefully at first, and in a bounded time even if agents and tools hang (R8).

    first signal    the body is cancelled. Closing `open_supervisor` lets executing calls end for GRACE seconds, then
                    cancels them. It withdraws nothing, and all runs can be resumed
    LIMIT seconds   a message names what still holds the process, and the process ends
    second signal   the process ends at once

A thread receives the signals, since the loop may be blocked: by a function that blocks or computes, by a task that
ignores its cancellation, and after the loop by threads and exit handlers that do not end. The thread gets each signal
through `signal.set_wakeup_fd`, which needs no Python code in the main thread. It gets each signal a second time from a
Python handler, in case other code takes the wake-up descriptor.

Rules
- The thread ends the process by `os._exit`. That is as safe as SIGKILL, which commits are designed for: no code of ours
  runs afterwards. So a commit is on disk completely or not at all, and an executing call is reported as lost.
- The thread never waits for a lock of a stream, or for a terminal that takes no more output.
- In a forked child, signals work as if this module did not exist.
- Native code that never releases the interpreter's lock (a regular expression that backtracks for ever) stops this
  thread, too. Only SIGKILL ends such a process, and is as safe.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Literal

import anyio

from supervisor.core.errors import SupervisorError
from supervisor.core.text.visible import visible
from supervisor.runtime.reading.unfinished import all_unfinished
from supervisor.system.logs import FactLog

log = FactLog(__name__)

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS: Final = 10
"""Seconds for which executing calls may go on, for the message. `open_supervisor` enforces them."""
LIMIT_SECONDS = 20.0
"""Seconds after the first signal at which the process ends in any case."""
STOPPED_READING: Final = 128 + signal.SIGPIPE
"""The exit code after the reader of our output has gone (`| head`)."""
_CLOSE: Final = 0
_FROM_PYTHON: Final = 128
"""The Python handler adds this to a signal's number, so that no signal is counted twice."""
_AT_MOST: Final = 5
"""The number of runs or threads that the message names."""


def run_until_stopped(
    body: Callable[[], Awaitable[None]],
    backend: Literal["asyncio", "trio"] = "asyncio",
    restore: Callable[[], None] = lambda: None,
) -> int | None:
    """Run `body` to its end, or until SIGINT, SIGTERM or SIGHUP. Return the exit code of the signal (128 plus its
    number), or None without a signal. Call this in the main thread of a program that then exits with that code.

    The first signal cancels `body`. At the second signal the process ends at once, with the code of that signal. It
    also ends 20 s after the first signal. An exception of `body` is raised bare; for a BrokenPipeError 141 is returned.
    After a signal it is logged. `restore` resets the terminal before the process ends at once.
    """
    failures: list[BaseException] = []
    ear = _Ear(restore)

    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()
            tasks.start_soon(ear.cancel_when_told, scope)
            try:
                with scope:  # it takes the cancellation out of a group that has an error, too
                    await body()
            except Exception as error:  # noqa: BLE001 # raised bare below, outside the task group
                failures.append(error)
            tasks.cancel_scope.cancel()

    try:
        anyio.run(work, backend=backend)
    finally:
        if not ear.received:
            ear.close()
    if failures and not isinstance(failures[0], BrokenPipeError):
        if not ear.received:
            raise failures[0]
        log.error("program.failed", reason=repr(failures[0]), when="it was stopped")
    if ear.received:
        return 128 + ear.received[0]
    return STOPPED_READING if failures else None


def bare(body: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Wrap a body so that the one error inside an exception group is raised bare. If there are several, and all of them
    are SupervisorErrors, which say what to do, the first one is raised."""

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


class _Ear:
    """Receives signals in a thread of its own, until it is closed. After a signal it stays open."""

    def __init__(self, restore: Callable[[], None]) -> None:
        self.received: list[int] = []
        self._restore = restore
        self._ears, self._mouth = os.pipe()  # signals, from the handlers to the thread
        self._told, self._tell = os.pipe()  # the first one, from the thread to the loop
        for end in (self._mouth, self._tell):
            os.set_blocking(end, False)
        self._thread = threading.Thread(target=self._listen, name="supervisor signals", daemon=True)
        self._thread.start()
        self._before: dict[signal.Signals, Any] = {}
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                self._before[number] = signal.signal(number, self._heard)
        _open.append(self)

    async def cancel_when_told(self, scope: anyio.CancelScope) -> None:
        """Cancel a scope at the first signal."""
        # Set inside the loop, since trio takes the descriptor when its loop begins. Neither loop needs it for threads.
        signal.set_wakeup_fd(self._mouth, warn_on_full_buffer=False)
        await anyio.wait_readable(self._told)
        scope.cancel()

    def close(self) -> None:
        self.give_back()
        os.write(self._mouth, bytes([_CLOSE]))
        self._thread.join()
        for end in (self._ears, self._mouth, self._told, self._tell):
            os.close(end)

    def give_back(self) -> None:
        """Restore the signal handlers of before."""
        _open.remove(self)
        if (descriptor := signal.set_wakeup_fd(-1)) != self._mouth:
            signal.set_wakeup_fd(descriptor)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            os.write(self._mouth, bytes([_FROM_PYTHON + number]))

    def _listen(self) -> None:
        heard: dict[bool, list[int]] = {False: [], True: []}
        ends_at: float | None = None
        while True:
            left = None if ends_at is None else max(0.0, ends_at - time.monotonic())
            if not select.select([self._ears], [], [], left)[0]:
                self._end(f"Stopped by force after {LIMIT_SECONDS:g} s. {_held_by()}")
            for byte in os.read(self._ears, 64):
                if byte == _CLOSE:
                    return
                heard[byte > _FROM_PYTHON].append(byte % _FROM_PYTHON)
            native, python = heard.values()  # the Python handler may be late, and its order may differ
            self.received[:] = native if len(native) >= len(python) else python
            if len(self.received) > 1:
                self._end()
            if self.received and ends_at is None:
                ends_at = time.monotonic() + LIMIT_SECONDS
                _say(f"Stopping: executing calls have {GRACE_SECONDS} s to end. Repeat the signal to stop at once.")
                os.write(self._tell, b"!")

    def _end(self, why: str = "") -> None:
        if why:
            _say(why)
        restoring = threading.Thread(target=self._restore, daemon=True)
        restoring.start()
        restoring.join(1.0)
        os._exit(128 + self.received[-1])


_open: Final[list[_Ear]] = []


def _forget() -> None:
    """Restore the signal handlers in a forked child."""
    for ear in _open:
        ear.give_back()


os.register_at_fork(after_in_child=_forget)


def _held_by() -> str:
    """Return what keeps this process from ending. Control characters in names of agents and tools are made visible."""
    held: list[str] = []
    with suppress(RuntimeError):  # the loop's thread may change the attempts meanwhile
        held = [visible(str(each)) for each in all_unfinished()]
    what = "Still at work"
    if not held:
        what = "No run was at work; threads that have not ended"
        held = [visible(thread.name) for thread in threading.enumerate() if not thread.daemon]
    more = f" and {len(held) - _AT_MOST} more" if len(held) > _AT_MOST else ""
    return (
        f"{what}: {'; '.join(held[:_AT_MOST])}{more}. All committed entries are safe. A call that was executing is "
        "reported as lost when its session is resumed."
    )


def _say(text: str) -> None:
    """Write to stderr if it takes a line at once. This takes no lock, since the main thread may hold one."""
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0.5)[1]:
            os.write(2, (text + "\n").encode(errors="backslashreplace")[: select.PIPE_BUF])
