"""Whether a supervised call started this process, so that its actions must not count as a person's (A4).

There are two signs: the mark in the environment, and an ancestor that owns a tree of the store. If an agent's program
has started an owner, to be asked by it, that program is such an ancestor, too: its own shell is below it. A program can
remove the first sign and escape from the second: this guards against accidents and eager agents, not against malice
(docs/explanation/who-may-decide.md).

Rules
- Code that does what the laws of commands and refusals.py refuse checks this first, in Python and on the command line.
- Doubt is a refusal. Ancestors can be known only among processes that this one sees. So each live owner of a store file
  must be one of them: its pid, with the start of its process, whatever its host is called. A process in another
  container or namespace, or without /proc, decides through a server, with a token.
  An owner that is not seen is asked for twice, since it may have died between the two looks.
- /proc may belong to another namespace than this process: `/proc/self` says under which pid it knows this one.
- A store in memory is this process's own: it contains no decisions of others.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from supervisor.core.errors import NotEntitled
from supervisor.core.marker import CALL_MARKER
from supervisor.core.rows import Owner, Process
from supervisor.seam.store import Store
from supervisor.system.machine import MACHINE

STARTED_BY: Final[list[Process]] = []
"""The program that started this process in order to be asked by it, with its wrappers. What is below it never decides
while this process owns trees: the lock file of the owner says so (store/owners.py)."""


OURS: Final[set[str]] = set()
"""The ids of the owners that this process is."""


def has_marker() -> bool:
    return bool(os.environ.get(CALL_MARKER))


def refuse_inside_call(what: str) -> None:
    """Raise NotEntitled if the environment says that a supervised call started this process."""
    if has_marker():
        raise NotEntitled(
            f"{what} was refused: this process belongs to a supervised call ({CALL_MARKER} is set), and what a call "
            "runs never decides; a person must decide, in a shell of their own"
        )


class OwnerUnseen(NotEntitled):
    """An owner is no process that this one can see. One that died while it was looked for is none, either: the
    caller asks for the owners once more, and a dead one is not among them."""


def refuse_below_owner(what: str, owners: Iterable[Owner], *, in_doubt: bool = False) -> None:
    """Raise NotEntitled if a process that owns a tree of this store, or that started the owner in order to be asked,
    started this one, directly or not. `in_doubt`: also if an owner is no process that this one can see."""
    here, others = socket.gethostname(), [owner for owner in owners if _may_be_above(owner)]
    seen = [owner for owner in others if _is_seen(owner, here)]
    known = [owner for owner in others if owner in seen or owner.host == here]
    pids = {owner.pid: owner for owner in known}
    starters = {process: owner for owner in known for process in owner.started_by if process[0] != owner.pid}
    for pid in ancestors(_own_pid()) if pids else ():
        if pid in pids:
            raise NotEntitled(
                f"{what} was refused: {pids[pid]} runs sessions of this store and started this process, so a "
                "supervised call may have; decide from a shell of your own"
            )
        if starters and (found := identify(pid)) in starters:
            raise NotEntitled(
                f"{what} was refused: process {pid} started this process, and it asks for permissions through "
                f"{starters[found]}, so it may not decide itself; decide from a shell of your own"
            )
    unseen = next((owner for owner in others if owner not in seen), None)
    if in_doubt and unseen is not None:
        raise OwnerUnseen(
            f"{what} was refused: {unseen} runs sessions of this store, and this process cannot see it, as in another "
            "container, so it cannot know whether one of its calls started it; do it where that process runs, or "
            "through a server, with your token: --server URL --token-file FILE"
        )


def _may_be_above(owner: Owner) -> bool:
    """Return whether an owner is another process of this machine: one of another machine has started none here."""
    return owner.id not in OURS and owner.machine in ("", MACHINE)


def _is_seen(owner: Owner, here: str) -> bool:
    """Return whether an owner is a process that this one sees."""
    itself = next((process for process in owner.started_by if process[0] == owner.pid), None)
    if itself is None:  # an owner of an earlier version does not say when it started
        return owner.host == here and identify(owner.pid) is not None
    return identify(owner.pid) == itself


class Inside:
    """Whether the actions of this process on a store may count as a person's. `in_doubt`: see refuse_below_owner."""

    def __init__(self, store: Store, *, in_doubt: bool = False) -> None:
        self._store = store
        self._in_doubt = in_doubt
        self._has_no_owner_above = False
        """Checked once: a process that runs a call owns its tree before the call begins."""

    @property
    def needs_owners(self) -> bool:
        """Whether the next check looks at the owners of the store."""
        return not self._has_no_owner_above

    def refuse(self, what: str) -> None:
        """Raise NotEntitled if this process belongs to a supervised call."""
        if not self._store.is_durable:
            return
        refuse_inside_call(what)
        if not self._has_no_owner_above:
            try:
                refuse_below_owner(what, self._store.owners(), in_doubt=self._in_doubt)
            except OwnerUnseen:
                try:
                    refuse_below_owner(what, self._store.owners(), in_doubt=self._in_doubt)
                except OwnerUnseen as unseen:
                    raise NotEntitled(str(unseen)) from None
            self._has_no_owner_above = True


def ancestors(pid: int) -> Iterator[int]:
    """Iterate over the parents of a process, nearest first, as far as the system tells them."""
    seen = {pid}
    while (parent := _parent(pid)) is not None and parent > 0 and parent not in seen:
        yield parent
        seen.add(parent)
        pid = parent


def find_ancestors() -> frozenset[int]:
    """Return the pids of this process's ancestors, as far as it sees them."""
    return frozenset(ancestors(_own_pid()))


def _own_pid() -> int:
    """Return the pid under which /proc knows this process."""
    try:
        return int(os.readlink("/proc/self"))  # noqa: PTH115 # a text, not a path
    except (OSError, ValueError):
        return os.getpid()


def itself() -> Process | None:
    """Return this process, as it says in its lock file who it is."""
    found = identify(_own_pid())
    return None if found is None else (os.getpid(), found[1])


def guard_starter() -> None:
    """Let nothing decide that is below the program that started this process and talks to its standard input. Call it
    before a store is opened.

    A wrapper such as `sh -c` or `uv run` passes its own standard input on. So the ancestors that have the same one are
    wrappers, and the next ancestor is the program. Where the system does not show standard inputs, it is the parent.
    """
    mine = _stdin(_own_pid())
    for pid in ancestors(_own_pid()):
        if (process := identify(pid)) is not None:
            STARTED_BY.append(process)
        if mine is None or _stdin(pid) != mine:
            break


def identify(pid: int) -> Process | None:
    """Return a process that is alive, told from later ones with its pid by its start; None if there is none."""
    try:
        if sys.platform == "linux":
            return pid, _stat(pid)[19].decode()
        return pid, _ps("lstart=", pid)
    except (OSError, IndexError, subprocess.SubprocessError):
        return None


def _parent(pid: int) -> int | None:
    try:
        return int(_stat(pid)[1] if sys.platform == "linux" else _ps("ppid=", pid))
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def _stdin(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/fd/0").readlink())
    except OSError:
        return None


def _stat(pid: int) -> list[bytes]:
    """Return the fields of a process's stat after its name, which may contain any characters, parentheses too."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()


def _ps(field: str, pid: int) -> str:
    found = subprocess.run(["/bin/ps", "-o", field, "-p", str(pid)], capture_output=True, check=True, text=True)  # noqa: S603 # no shell, own pid
    return found.stdout.strip()
