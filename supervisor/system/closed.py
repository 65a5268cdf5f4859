"""Closing this process to others of the same user: its first environment and its memory contain secrets.

Theory: `os.environ.pop` changes the environment of children. It does not change /proc/PID/environ, which shows the
environment with which the process began, or memory, which a debugger of the same user can read.

Rules
- On Linux only root (CAP_SYS_PTRACE) can look into a process that is not dumpable: at /proc/PID/environ, mem, maps and
  fd, with debuggers and profilers; and it leaves no core dump. Programs that it starts are dumpable.
- Until it closes itself, some milliseconds after its start, the process is open. A file for a secret never is.
- Only the daemon is closed, and a worker that has keys of Temporal. `run` and `resume` hold no secrets of ours, and a
  program that could read them as their user can write the store anyway; they stay open to debuggers and profilers.
- Nothing is closed on other systems than Linux.
"""

import sys

_PR_SET_DUMPABLE = 4


def close_to_others() -> bool:
    """Close this process, as far as the system can; return whether it is closed."""
    if sys.platform != "linux":
        return False
    import ctypes  # the import takes longer than most commands

    return bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
