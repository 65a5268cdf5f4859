"""A process that was forked from a supervisor is a copy that owns nothing.

Theory: a forked process goes on with the memory of its parent: with its event loop, its open stores and the run of the
code that has forked. Two processes would then do the same effects. The copy shares what the kernel keeps of the event
loop, too: to end in an orderly way it would take the parent's wake-ups away, and the parent would wait for ever.

Rules
- A copy that comes back from the code of a user (an agent, a step, a tool) into ours ends there, at once.
- So does a copy that goes on with the parent's event loop in another way, as soon as it reaches the journal.
- Every other use of what was inherited raises StoreDied: the caller has an event loop of its own, and decides.
- A child that runs another program, or ends by `os._exit` as those of `multiprocessing` do, notices nothing.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from supervisor.core.errors import StoreDied
from supervisor.system.logs import FactLog

log = FactLog(__name__)

_EX_SOFTWARE = 70


class _Process:
    """This process. Each call and each commit asks for its pid, and asking the kernel for it takes longer."""

    pid = os.getpid()

    @classmethod
    def look(cls) -> None:
        cls.pid = os.getpid()


THIS_PROCESS = _Process
os.register_at_fork(after_in_child=_Process.look)


def end_copy(made_in: int) -> None:
    """End this process if it is not the one that had this pid when the code of a user was called. Call it while the
    exception of that code is handled, if there is one: `sys.exit` keeps its code."""
    if THIS_PROCESS.pid == made_in:
        return
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        with suppress(AttributeError, OSError, ValueError):  # no stream, or one that is closed
            sys.stdout.flush()
    else:
        log.error("copy.ended", pid=os.getpid(), parent=made_in, hint="end a forked child by os._exit")
        code = _EX_SOFTWARE
    os._exit(code)


def inherited(store: Path | str) -> StoreDied:
    """Return the error for a copy that uses a store which its parent has opened."""
    return StoreDied(
        f"{store} was opened by the process from which this one was forked, and only that process uses it; nothing was "
        "written. Start this process as a new program (`spawn`, not `fork`), and open the store there"
    )
