"""A process to talk with: its input, its output, and its errors apart from that, for as long as a block lasts.

Theory: a coding agent is a guarded process (see `guarded`) with three pipes of its own. A task of the block reads its
errors and what its warden tells, so that an agent that complains a lot never blocks, and its death is seen at once.

Rules
- Entering returns when the command has begun. A command that cannot be executed raises LaunchFailed on entering.
- `receive` takes from the output only what the caller asks for: a process that writes faster waits.
- Leaving is shielded and bounded. The input ends, and the output is read on. After `stop_timeout` seconds the warden
  ends what is left: SIGTERM, and SIGKILL `grace` seconds later. Then no process of it is left.
- Our own death is the end of the wire to the warden, as with every process. The warden does not wait `stop_timeout`.
- After our death a later process makes sure with `end_former_process` that nothing of the former one is left. It knows
  the identity that `at_gate` was given before the command began.
"""

import errno
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Final, Self

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from supervisor.system.identity import HOST
from supervisor.system.threads import in_thread
from supervisor.tools.call_environment import environment_of
from supervisor.tools.descendants import is_alive
from supervisor.tools.finished import Finished, LaunchFailed
from supervisor.tools.guarded import START_TIMEOUT_SECONDS, GuardedProcess, encode_request
from supervisor.tools.orphaned import Answer, end_orphaned_process
from supervisor.tools.output import HeadAndTail
from supervisor.tools.termination import GIVE_UP_AFTER_SECONDS

__all__ = [
    "DuplexProcess",
    "Finished",
    "InputClosed",
    "LaunchFailed",
    "ProcessIdentity",
    "end_former_process",
    "open_duplex",
]

ERRORS_KEPT_BYTES: Final = 65536  # bytes of the errors' end
GRACE_SECONDS: Final = 2.0  # seconds from SIGTERM to SIGKILL
_MARGIN_SECONDS: Final = 10.0  # seconds that a warden on a busy machine gets beyond its own bounds
_PAUSE_SECONDS: Final = 0.02  # seconds between two looks at a warden that is ending its processes
_CHUNK: Final = 65536


class InputClosed(anyio.BrokenResourceError):
    """The process takes no more input: it has exited, or has closed its standard input."""


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process and its warden on their host; no other process has this identity. JSON may hold it."""

    host: str
    pid: int
    started_at: float | None
    guard: int
    guard_started_at: float | None


AtGate = Callable[[ProcessIdentity], Awaitable[None]]


def open_duplex(
    command: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    mark: str,
    stop_timeout: float = 5.0,
    grace: float = GRACE_SECONDS,
    at_gate: AtGate | None = None,
    errors: int | None = None,
) -> "DuplexProcess":
    """Start a process to talk with; use as `async with open_duplex(...) as process`.

    `command` is run without a shell, its program looked up in the PATH. `cwd` is its folder. `env` is added to our own
    environment, from which our secrets are removed; `mark` names the session that starts it (see `environment_of`).
    `stop_timeout` is seconds from the end of its input to SIGTERM when the block is left, `grace` from SIGTERM to
    SIGKILL. `at_gate` is awaited before the command begins, with what identifies it: put that on disk, for
    `end_former_process`. If `at_gate` raises, nothing has run. `errors` is a descriptor that becomes its standard
    error; without it, the end of its errors is kept here.

    Entering raises LaunchFailed, which names the program or the folder, if the process cannot be started.
    """
    request = encode_request(list(command), cwd, environment_of(mark, env), grace)
    return DuplexProcess(request, grace=grace, stop_timeout=stop_timeout, at_gate=at_gate, errors=errors)


class DuplexProcess(GuardedProcess):
    """A process that has begun. Made by `open_duplex`. `finished` says how it ended, once the block has been left."""

    def __init__(
        self, request: bytes, *, grace: float, stop_timeout: float, at_gate: AtGate | None, errors: int | None
    ) -> None:
        super().__init__(request, grace=grace, output=HeadAndTail(ERRORS_KEPT_BYTES, head=0), watcher=None)
        self._stop_timeout = stop_timeout
        self._at_gate = at_gate
        self._errors = errors
        self._input = -1
        self._from_output = -1
        self._sending = anyio.Lock()
        self._is_over = anyio.Event()

    @property
    def identity(self) -> ProcessIdentity:
        """What identifies the process and its warden."""
        return ProcessIdentity(HOST, self.pid, self.started_at, self.guard, self.guard_started_at)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with super().__asynccontextmanager__():
            if self._at_gate is not None:
                await self._at_gate(self.identity)
            if not await self.begin():
                raise LaunchFailed(
                    errno.ETIMEDOUT,
                    f"its warden was killed, or has not answered within {START_TIMEOUT_SECONDS:.0f} s",
                    None,
                )
            with _without_group():
                async with anyio.create_task_group() as group:
                    group.start_soon(self._watch)
                    try:
                        yield self
                    finally:
                        await self._stop()
                        group.cancel_scope.cancel()

    async def send(self, data: bytes) -> None:
        """Write to its standard input; return when the pipe has taken all. Concurrent sends do not mix.

        Raises InputClosed. After a cancellation a part may have been sent.
        """
        async with self._sending:
            rest = memoryview(data)
            while rest:
                if self._input < 0:
                    raise InputClosed("the process is being ended, and takes no more input")
                try:
                    rest = rest[os.write(self._input, rest) :]
                except BlockingIOError:
                    with suppress(anyio.ClosedResourceError):
                        await anyio.wait_writable(self._input)
                except BrokenPipeError:
                    raise InputClosed("the process has exited, or has closed its standard input") from None

    async def receive(self) -> bytes:
        """Return the next bytes of its standard output; for one task at a time. Raises anyio.EndOfStream at its end.

        The process may live on after it has closed its output: `wait` says when it has ended.
        """
        await checkpoint()
        while True:
            try:
                chunk = os.read(self._from_output, _CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self._from_output)
                continue
            if not chunk:
                raise anyio.EndOfStream
            return chunk

    def stderr_tail(self) -> str:
        """Return the last 64 KiB of its standard error so far, as text; bytes that are not UTF-8 are replaced."""
        kept = self._output.output()
        return (kept.head + kept.tail).decode("utf-8", "replace")

    async def wait(self) -> Finished:
        """Wait until the process has exited and all that it left is ended; return how. `output` is its errors' end."""
        await self._is_over.wait()
        assert self.finished is not None
        return self.finished

    async def _watch(self) -> None:
        await self._reading_output(self._receive_all)
        await self._conclude()
        self._is_over.set()

    async def _stop(self) -> None:
        """End its input, and let it exit by itself for a while; its output is read on, so that it can."""
        self._close_input()
        with anyio.move_on_after(self._stop_timeout, shield=True):
            async with anyio.create_task_group() as group:
                group.start_soon(self._discard_output)
                await self._is_over.wait()
                group.cancel_scope.cancel()

    async def _discard_output(self) -> None:
        with suppress(anyio.EndOfStream, anyio.BusyResourceError):  # a task that still receives reads it on
            while True:
                await self.receive()

    def _open_streams(self, theirs: ExitStack) -> list[int]:
        reader, self._input = os.pipe()
        theirs.callback(os.close, reader)
        self._from_output, writer = os.pipe()
        theirs.callback(os.close, writer)
        for ours in (self._input, self._from_output):
            os.set_blocking(ours, False)
        errors = super()._open_streams(theirs) if self._errors is None else [self._errors]
        return [reader, writer, *errors]

    def _close_input(self) -> None:
        if self._input >= 0:
            anyio.notify_closing(self._input)
            os.close(self._input)
            self._input = -1

    def _close(self) -> None:
        super()._close()
        self._close_input()
        if self._from_output >= 0:
            os.close(self._from_output)
            self._from_output = -1


@contextmanager
def _without_group() -> Iterator[None]:
    """Raise the error of a task group's body as it is: our own tasks in the group raise none."""
    try:
        yield
    except BaseExceptionGroup as errors:
        own = [each for each in errors.exceptions if not isinstance(each, anyio.get_cancelled_exc_class())]
        if len(own) != 1:
            raise
        raise own[0] from None


async def end_former_process(former: ProcessIdentity, margin: float = _MARGIN_SECONDS) -> Answer:
    """Make sure that nothing is left of a process whose owner has died; return what was found of the process itself.

    Its warden ends it and all it started, and is waited for first. If the warden hangs, it is ended with all below it;
    `margin`: the seconds that it gets beyond its own bounds.
    The answers are those of `end_orphaned_process`; "not ours" also for a process on another host.
    """
    if former.host != HOST:
        return "not ours"
    guard = former.guard, former.guard_started_at
    with anyio.move_on_after(GRACE_SECONDS + GIVE_UP_AFTER_SECONDS + margin):
        while await in_thread(is_alive, *guard):  # noqa: ASYNC110 - we wait for another process
            await anyio.sleep(_PAUSE_SECONDS)
    await end_orphaned_process(*guard, 0.0)
    return await end_orphaned_process(former.pid, former.started_at, GRACE_SECONDS)
