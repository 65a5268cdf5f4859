"""Whether a supervised call started this process, so that its actions must not count as a person's (A4).

There are two signs: the mark in the environment, and an ancestor that owns a tree of the store. A program can remove
the first and escape from the second; the README says that this guards against accidents and eager agents, not against
malice.

Rules
- Code that decides, changes rules, sends to a session, prunes or serves checks this first, in Python and on the
  command line.
- A store in memory is this process's own: it contains no decisions of others.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from supervisor.core.errors import NotEntitled
from supervisor.core.marker import CALL_MARKER
from supervisor.core.rows import Owner
from supervisor.storage import Store


def has_marker() -> bool:
    return bool(os.environ.get(CALL_MARKER))


def refuse_inside_call(what: str) -> None:
    """Raise NotEntitled if the environment says that a supervised call started this process."""
    if has_marker():
        raise NotEntitled(
            f"{what} was refused: this process belongs to a supervised call ({CALL_MARKER} is set), and what a call "
            "runs never decides; a person must decide, in a shell of their own"
        )


def refuse_below_owner(what: str, owners: Iterable[Owner]) -> None:
    """Raise NotEntitled if a process that owns a tree of this store started this one, directly or not."""
    here = socket.gethostname()
    pids = {owner.pid: owner for owner in owners if owner.host == here}
    for pid in ancestors(os.getpid()) if pids else ():
        if pid in pids:
            raise NotEntitled(
                f"{what} was refused: {pids[pid]} runs sessions of this store and started this process, so a "
                "supervised call may have; decide from a shell of your own"
            )


class Inside:
    """Whether the actions of this process on a store may count as a person's."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._has_no_owner_above = False
        """Checked once: a process that runs a call owns its tree before the call begins."""

    def refuse(self, what: str) -> None:
        """Raise NotEntitled if this process belongs to a supervised call."""
        if not self._store.is_durable:
            return
        refuse_inside_call(what)
        if not self._has_no_owner_above:
            refuse_below_owner(what, self._store.owners())
            self._has_no_owner_above = True


def ancestors(pid: int) -> Iterator[int]:
    """Iterate over the parents of a process, nearest first, as far as the system tells them."""
    seen = {pid}
    while (parent := _parent(pid)) is not None and parent > 0 and parent not in seen:
        yield parent
        seen.add(parent)
        pid = parent


def _parent(pid: int) -> int | None:
    try:
        if sys.platform == "linux":
            # the name in parentheses may contain any characters, spaces and parentheses too
            return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        found = subprocess.run(["/bin/ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, check=True)  # noqa: S603 # no shell, own pid
        return int(found.stdout)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None
