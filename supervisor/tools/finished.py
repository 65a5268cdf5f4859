"""The result of a process: how it ended, what it wrote, which processes it left behind. Values only."""

from typing import Literal

import msgspec

from supervisor.tools.output import Output


class LaunchFailed(OSError):
    """The command could not be started; nothing of it ran.

    An OSError: `errno`, `strerror` and `filename` (the program, or the folder in which it was to run) say why: ENOENT
    no such file or interpreter, EACCES not executable, E2BIG arguments and environment too long, EINVAL not encodable.
    """


class LeftBehind(msgspec.Struct, frozen=True, kw_only=True):
    """A process that we had to end because it outlived its command or had left the command's session (setsid).

    `how`: "terminated" (SIGTERM), "killed" (SIGKILL), "refused" (we may not signal it; it is alive), "stuck" (it did
    not die of SIGKILL in time; it may be alive).
    """

    pid: int
    command: str
    has_escaped: bool
    how: Literal["terminated", "killed", "refused", "stuck"]


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """How a released process ended. `exit_code` or `signal` is set, the other is None.

    Both are None if the status is unknown: the process would not end and is among `refused_kills`, or its warden was
    killed, as `trouble` says. `duration` is seconds from release to exit. `was_ended`: by us; `timed_out`:
    because of the deadline. `left_behind` names the first 100 of `left_behind_count`.
    """

    exit_code: int | None
    signal: int | None
    duration: float
    was_ended: bool
    timed_out: bool
    output: Output
    left_behind: tuple[LeftBehind, ...] = ()
    left_behind_count: int = 0
    trouble: str | None = None

    @property
    def refused_kills(self) -> tuple[int, ...]:
        """The pids that could not be ended. The command's own pid may be among them."""
        return tuple(each.pid for each in self.left_behind if each.how in ("refused", "stuck"))
