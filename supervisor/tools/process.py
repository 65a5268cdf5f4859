"""One real process per call: it cannot hang us, leaves nothing behind, and begins only after it is journaled.

Theory: a call's process is a guarded process (see `guarded`) with a deadline, and with stdout and stderr as one stream.

Rules:
- The deadline counts from the release. A command that exits at the deadline has exited: the warden checks it first.
"""

import os
from collections.abc import Callable, Mapping, Sequence

from anyio import CancelScope

from supervisor.tools.finished import Finished, LaunchFailed, LeftBehind
from supervisor.tools.guarded import GuardedProcess, encode_request
from supervisor.tools.orphaned import end_orphaned_process
from supervisor.tools.output import HeadAndTail, Output

__all__ = ["Finished", "LaunchFailed", "LeftBehind", "Output", "Process", "end_orphaned_process", "open_process"]


def open_process(
    command: str | Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    output_limit: int = 30_000,
    grace: float = 2.0,
    on_output: Callable[[bytes], None] | None = None,
) -> "Process":
    """Start a process that waits at its gate; use as `async with open_process(...) as process`.

    A string is run by `/bin/sh -c`, a sequence without a shell, its program looked up in the PATH of `env`. `env` is
    the whole environment (default: ours). Standard input is /dev/null; stdout and stderr are one stream, of which
    `output_limit` bytes are kept, half from its start and half from its end. `grace` is seconds from SIGTERM to
    SIGKILL. `on_output` gets each piece of output in the loop, as soon as it is read; an error that it raises ends
    the command and is raised by `wait`.

    Leaving the context ends the process and all that it started; without a release, nothing ever ran. Where the
    platform has no subreaper (macOS), a process that left its session and whose parent has ended is not found and not
    ended.

    Entering raises `LaunchFailed` if the process cannot be started, or not in `cwd`.
    """
    return Process(
        encode_request(command, cwd, env, grace), grace=grace, output=HeadAndTail(output_limit), watcher=on_output
    )


class Process(GuardedProcess):
    """A call's process. Made by `open_process`; for one task."""

    async def wait(self, timeout: float) -> Finished:
        """Wait until the command has exited and all that it left behind is ended; return how it ended.

        `timeout` is seconds from the release; at that deadline the command is ended, and `timed_out` is true. Raises
        `LaunchFailed` if the command could not be executed. On cancellation the command is ended, `finished` is set
        with the output so far, and the cancellation is re-raised.
        """
        if self._released_at is None:
            raise RuntimeError("release the process first, then wait for it")
        if not self._is_concluded:
            try:
                with CancelScope(deadline=self._released_at + timeout) as scope:
                    await self._reading_output(self._receive_exit)
                self._is_overdue = scope.cancelled_caught
            finally:
                await self._conclude()
        if self._failure is not None:
            raise self._failure
        if self._watcher_error is not None:
            raise self._watcher_error
        assert self.finished is not None
        return self.finished

    async def _receive_exit(self) -> None:
        while self._exit is None and self._failure is None and await self._receive():
            pass
