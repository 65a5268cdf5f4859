"""A process under a warden, as its owner sees it: gate, wire, streams and the one clean-up.

Theory: the process exists before its command does. It waits at a gate until `release`, so that the caller can put its
pid and start time on disk first. Each process has a warden, a small process between it and us (see `warden`). The
warden is the parent of all that the command ever starts, and ends all of it: when the command has exited, when we say
so, and when we die.

Rules:
- We wait for the exit, never for the end of a pipe: a process that holds the pipe after the exit cannot hold us.
- Every way out (exit, deadline, cancellation, an error, our death) is the same: the end of the wire to the warden.
  Our own wait for the warden is shielded and bounded, and a cancellation is re-raised after it.
- This module signals no bare pid, uses no child watcher, and never waits for a child of the user's.
"""

import errno
import math
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any, Self

import anyio
from anyio import AsyncContextManagerMixin, CancelScope
from anyio.lowlevel import checkpoint

from supervisor.tools.descendants import find_process, send_signal
from supervisor.tools.finished import Finished, LaunchFailed, LeftBehind
from supervisor.tools.launcher import fork_warden
from supervisor.tools.orphaned import end_orphaned_process
from supervisor.tools.orphans import GRACE_SECONDS as ORPHANS_GRACE
from supervisor.tools.output import HeadAndTail
from supervisor.tools.termination import GIVE_UP_AFTER_SECONDS
from supervisor.tools.warden import GO, pack, unpack

START_TIMEOUT_SECONDS = 30.0  # seconds until we give up a process that has not reached the gate (a dead network drive)
_BUSY_PAUSE_SECONDS = 0.01  # seconds until we ask a launcher again that is busy with hundreds of starts
_CHUNK = 65536
_DRAINED_BYTES = 2**21  # the most bytes that are read after the end: more than a pipe can hold


class GuardedProcess(AsyncContextManagerMixin):
    """A process at its gate, running, or ended; for one task.

    `pid` and `started_at` (see `descendants.started_at`; None if unknown) identify it, and `guard` and
    `guard_started_at` its warden. `finished` is None until the process has been released and has ended in any way; it
    is set before a cancellation leaves `wait`.
    """

    pid: int
    started_at: float | None
    guard: int
    guard_started_at: float | None
    finished: Finished | None
    margin: float = 10.0
    """Seconds that a warden on a busy machine gets beyond its own bounds."""

    def __init__(
        self, request: bytes, *, grace: float, output: HeadAndTail, watcher: Callable[[bytes], None] | None
    ) -> None:
        self.pid = self.guard = 0
        self.started_at = self.guard_started_at = None
        self.finished = None
        self._request = request
        self._grace = grace
        self._output = output
        self._watcher = watcher
        self._watcher_error: Exception | None = None
        self._has_begun = False
        self._wire: socket.socket | None = None
        self._reader = -1
        self._received = bytearray()
        self._released_at: float | None = None
        self._is_overdue = False
        self._is_concluding = False
        self._is_concluded = False
        self._failure: LaunchFailed | None = None
        self._exit: tuple[int, float, bool] | None = None  # code, duration, whether we ended it
        self._left: tuple[list[Any], int] | None = None
        self._trouble: str | None = None

    def __repr__(self) -> str:
        state = "ended" if self._is_concluded else "running" if self._released_at is not None else "at its gate"
        return f"<{type(self).__name__} {self.pid or 'not started'}, {state}>"

    @property
    def is_released(self) -> bool:
        """Whether the command may have begun. A call that was not released had no effect."""
        return self._released_at is not None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        try:
            await self._start()
            yield self
        finally:
            try:
                await self._conclude()
            finally:
                self._close()

    async def release(self) -> None:
        """Open the gate: the command begins, and its time counts from here.

        If this raises a cancellation, the gate is shut and stays shut.
        """
        if self._released_at is not None:
            raise RuntimeError("a process can be released only once")
        if self._is_concluding:
            raise RuntimeError("this process has ended before its release")
        await checkpoint()  # a native cancellation, which came with a commit, is raised only where the task yields
        assert self._wire is not None
        self._released_at = anyio.current_time()
        with suppress(OSError):  # the warden was killed, and the process at the gate with it: `wait` reports it
            self._wire.send(GO)

    async def begin(self) -> bool:
        """Open the gate, and wait until the command has begun: shielded, usually a few milliseconds.

        Returns False if its warden did not report in time. Raises LaunchFailed if the command could not be executed.
        If this raises a cancellation, nothing has run.
        """
        await self.release()
        with anyio.move_on_after(START_TIMEOUT_SECONDS, shield=True):
            while not self._has_begun and self._failure is None and await self._receive():
                pass
        if self._failure is not None:
            raise self._failure
        return self._has_begun

    async def _start(self) -> None:
        with anyio.move_on_after(START_TIMEOUT_SECONDS):
            # If the launcher or a spare warden died meanwhile, only the request was lost: another one is asked.
            if not (await self._reach_gate() or await self._reach_gate()):
                raise LaunchFailed(errno.ECHILD, "the launcher does not start, or is killed at once", None)
        if not self.pid:
            raise LaunchFailed(errno.ETIMEDOUT, f"not started within {START_TIMEOUT_SECONDS:.0f} s", None)

    async def _reach_gate(self) -> bool:
        self._close()
        self._received.clear()  # half a message of the attempt before
        self._trouble = None
        with ExitStack() as theirs:
            try:
                self._wire, wire = socket.socketpair()
                theirs.enter_context(wire)
                self._wire.setblocking(False)
                streams = self._open_streams(theirs)
                while not _try_fork(wire, streams):  # noqa: ASYNC110 - we wait for another process
                    await anyio.sleep(_BUSY_PAUSE_SECONDS)
            except OSError as error:
                raise LaunchFailed(error.errno, f"{error.strerror} (starting a process)", None) from error
            if sys.platform != "darwin":  # macOS loses a descriptor in transit when its sender closes it
                theirs.close()
            if not (await self._send_request(self._wire) and await self._receive()):
                return False
        if self._failure is not None:
            raise self._failure
        return self.pid != 0

    def _open_streams(self, theirs: ExitStack) -> list[int]:
        """Return the command's streams, which `theirs` closes on our side: its output, or its input, output, errors."""
        self._reader, writer = os.pipe()
        theirs.callback(os.close, writer)
        os.set_blocking(self._reader, False)
        return [writer]

    async def _send_request(self, wire: socket.socket) -> bool:
        rest = memoryview(self._request)
        while rest:
            try:
                rest = rest[wire.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(wire)
            except OSError:
                return False
        return True

    async def _receive(self) -> bool:
        """Apply the warden's next message; return False at the end of the wire."""
        assert self._wire is not None
        while (message := unpack(self._received)) is None:
            try:
                chunk = self._wire.recv(_CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self._wire)
                continue
            except OSError:
                return False
            if not chunk:
                return False
            self._received += chunk
        self._take(message)
        return True

    def _take(self, message: Any) -> None:
        match message:
            case "started", pid, started_at, guard, guard_started_at:
                self.pid, self.started_at = pid, started_at
                self.guard, self.guard_started_at = guard, guard_started_at
            case ("begun",):
                self._has_begun = True
            case "failed", number, filename:
                self._failure = LaunchFailed(number, os.strerror(number), os.fsdecode(filename))
            case "exited", code, duration, was_ended:
                self._exit = code, duration, was_ended
            case "done", rows, count:
                self._left = rows, count
            case "broken", trouble:
                self._trouble = self._trouble or trouble

    def _take_received(self) -> None:
        """Apply the messages that have been received with earlier ones."""
        while self._left is None and (message := unpack(self._received)) is not None:
            self._take(message)

    async def _receive_all(self) -> None:
        while self._left is None and await self._receive():
            pass

    async def _reading_output(self, until: Callable[[], Awaitable[None]]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._read_output, group.cancel_scope)
            await until()
            group.cancel_scope.cancel()

    async def _read_output(self, scope: CancelScope) -> None:
        while self._reader >= 0:
            await anyio.wait_readable(self._reader)
            if self._read_chunk() == 0:
                return
            if self._watcher_error is not None and not self._is_concluding:
                scope.cancel()

    def _read_chunk(self) -> int | None:
        """Read what the pipe holds; return the number of bytes, 0 at its end, None if it is empty now."""
        if self._reader < 0:
            return 0
        try:
            chunk = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return None
        self._output.add(chunk)
        if chunk and self._watcher is not None:
            try:
                self._watcher(chunk)
            except Exception as error:  # noqa: BLE001 - `wait` raises it after the command has been ended
                self._watcher, self._watcher_error = None, error
        return len(chunk)

    async def _conclude(self) -> None:
        """End what is left, learn how it ended, and set `finished`: shielded and bounded."""
        if self._is_concluded or self._wire is None:
            return
        self._is_concluding = True
        try:
            with suppress(OSError):
                self._wire.shutdown(socket.SHUT_WR)
            is_heard = await self._hear_out(self._grace + GIVE_UP_AFTER_SECONDS)
            if not is_heard and not self._is_guard_stopped():
                is_heard = await self._hear_out(self.margin)
            if not is_heard:
                await self._end_warden()
            if self._left is None and self._released_at is not None and self._failure is None:
                await self._end_without_warden()
        finally:
            self._is_concluded = True
            self._drain()
            if self._released_at is not None and self._failure is None:
                self.finished = self._sum_up(self._released_at)

    async def _hear_out(self, seconds: float) -> bool:
        """Receive the warden's remaining messages; return False if they do not end in time."""
        self._take_received()
        if self._left is not None:  # it came together with the exit: no process was left
            return True
        with anyio.move_on_after(seconds, shield=True):
            await self._reading_output(self._receive_all)
            return True
        return False

    def _is_guard_stopped(self) -> bool:
        seen = find_process(self.guard) if self.guard else None
        return seen is not None and seen.identity == (self.guard, self.guard_started_at) and seen.is_stopped

    async def _end_warden(self) -> None:
        """Kill a warden that is stopped, or does not finish; the launcher then ends what it guarded."""
        if self.guard and send_signal((self.guard, self.guard_started_at), signal.SIGKILL) != "gone":
            await self._hear_out(ORPHANS_GRACE + GIVE_UP_AFTER_SECONDS + self.margin)

    async def _end_without_warden(self) -> None:
        self._trouble = self._trouble or "the process that guards the command was killed or stopped"
        with anyio.move_on_after(self._grace + GIVE_UP_AFTER_SECONDS + self.margin, shield=True):
            answer = await end_orphaned_process(self.pid, self.started_at, self._grace)
            self._trouble += f"; the command itself: {answer}; processes that it had daemonized may still run"

    def _drain(self) -> None:
        drained = 0
        while drained < _DRAINED_BYTES and (count := self._read_chunk()):
            drained += count

    def _sum_up(self, released_at: float) -> Finished:
        code, duration, was_ended = self._exit or (None, anyio.current_time() - released_at, True)
        rows, count = self._left or ((), 0)
        return Finished(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            duration=duration,
            was_ended=was_ended,
            timed_out=self._is_overdue and was_ended,
            output=self._output.output(),
            left_behind=tuple(
                LeftBehind(pid=pid, command=command, has_escaped=session != self.pid, how=how)
                for pid, command, session, how in rows
            ),
            left_behind_count=count,
            trouble=self._trouble,
        )

    def _close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1


def _try_fork(wire: socket.socket, streams: list[int]) -> bool:
    try:
        fork_warden(wire, streams)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS):
            raise
        return False
    return True


def encode_request(
    command: str | Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    grace: float,
    record: str | None = None,
    deadline: float | None = None,
) -> bytes:
    """Return the request to a warden; `record` is the path to which a background job's end is written, `deadline` the
    seconds after which the warden ends the command by itself."""
    if not (math.isfinite(grace) and grace >= 0):
        raise ValueError(f"grace must be a number of seconds, 0 or more, not {grace}")
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    if not argv or not argv[0]:
        raise LaunchFailed(errno.EINVAL, "the command is empty: name a program to run", None)
    if any("\0" in each for each in argv):
        raise LaunchFailed(errno.EINVAL, "an argument holds a NUL character", argv[0].partition("\0")[0])
    for name, value in (env or {}).items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise LaunchFailed(errno.EINVAL, f"not a possible environment variable: {name!r}", argv[0])
    try:
        # Bytes exactly as given. We ask for our own folder, which may be gone, only where it matters.
        folder = cwd if cwd and os.path.isabs(cwd) else os.path.join(os.getcwd(), cwd or "")  # noqa: PTH109, PTH117, PTH118
        order = (
            [os.fsencode(each) for each in argv],
            os.fsencode(folder),
            dict(os.environb) if env is None else {os.fsencode(k): os.fsencode(v) for k, v in env.items()},
        )
        # The warden passes the order on as it is, and reads the rest.
        return pack((pack(order), grace, None if record is None else os.fsencode(record), deadline))
    except UnicodeEncodeError as error:
        raise LaunchFailed(errno.EINVAL, "command, folder or environment cannot be encoded", argv[0]) from error
    except FileNotFoundError as error:
        raise LaunchFailed(errno.ENOENT, "our own working folder is gone: give an absolute cwd", None) from error
