"""Closing this process to others of the same user: its environment, as it began, and its memory hold secrets.

Theory: `os.environ.pop` changes what children inherit. It does not change /proc/PID/environ, which shows the
environment as the process began with it, nor memory, which a debugger of the same user can read.

Rules
- On Linux a process that is not dumpable is closed to all but root (CAP_SYS_PTRACE): /proc/PID/environ, mem, maps and
  fd, debuggers and profilers; and it leaves no core dump. Programs that it starts are not.
- Until it has closed itself, some milliseconds after its start, it is open. A file for a secret never is.
- Only the daemon is closed. `run` and `resume` hold no secrets of ours, and whoever could read them as their user can
  write the store; they stay open to debuggers and profilers.
- Elsewhere than on Linux nothing is closed.
"""

import sys

_PR_SET_DUMPABLE = 4


def close_to_others() -> bool:
    """Close this process, as far as the system can; returns whether it is closed."""
    if sys.platform != "linux":
        return False
    import ctypes  # takes longer than most commands of the command line may

    return bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
