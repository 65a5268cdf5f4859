"""How a process ends that has threads of native code: without the finalization of the interpreter.

temporalio runs threads of its own and has no means to end them (temporalio/sdk-python#300). If one of them calls Python
while the interpreter is being finalized, the process dies with SIGABRT: after its work is done, and with exit code 134.

Rules
- Code that starts such threads calls `note_native_threads`. A command then ends in `end_process`.
- Exit handlers run and streams are flushed, as at any end. Finalizers of objects do not run: none of ours needs that.
"""

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

_noted: list[bool] = []


def note_native_threads() -> None:
    """Record that this process has threads that may call Python at any time."""
    _noted[:] = [True]


def end_process(code: int) -> NoReturn:
    """End the process with an exit code: by `sys.exit`, or without finalization if it has native threads."""
    if not _noted:
        sys.exit(code)
    try:
        atexit._run_exitfuncs()  # noqa: SLF001 # as multiprocessing does before it ends a process in this way
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # its reader has gone, or it is closed
                stream.flush()
        os._exit(code)
