"""One server for a run of pytest: the first process that needs it starts it, the last one that used it stops it.

Theory: each process that uses a server has a lock that it shares with the others, and that ends with it, however it
ends. Who is alone with the lock is the last one. A second lock, the door, lets one process at a time start or stop.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

VARIABLE = "TESTS_OF_ONE_RUN"
"""Names the folder that the processes of a run share."""
if VARIABLE not in os.environ:
    os.environ[VARIABLE] = tempfile.mkdtemp(prefix="tests-of-one-run-")
    atexit.register(shutil.rmtree, os.environ[VARIABLE], ignore_errors=True)
_FOLDER = Path(os.environ[VARIABLE])


@contextmanager
def used(name: str, start: Callable[[], str], stop: Callable[[str], None]) -> Iterator[str]:
    """Use a server: give what `start` said of it to the process that called it, which `stop` is told."""
    known = _FOLDER / name
    with (_FOLDER / f"{name}.door").open("w") as door, (_FOLDER / f"{name}.users").open("w") as users:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        if not known.exists():
            known.write_text(start())
        fcntl.flock(door, fcntl.LOCK_UN)
        yield known.read_text()
        fcntl.flock(door, fcntl.LOCK_EX)
        with suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stop(known.read_text())
            known.unlink()
