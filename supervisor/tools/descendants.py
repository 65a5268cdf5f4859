"""Finds processes and their descendants, and signals exactly the process that was meant.

Theory: the kernel gives a pid out again; a pid together with its start time is one process. So a process is looked up
once more, start time included, before it is signalled.

Rules:
- Linux: we read all of /proc (`children` files are optional in the kernel and unreliable by their own manual). A
  signal goes through a pidfd where the kernel has one, so nothing can happen between the check and the signal.
- Elsewhere: one `ps`. Start times have a resolution of one second, and check and signal are two steps; these platforms
  offer nothing better.
- Only the standard library, and little of it: the launcher imports this module without the rest of the package.
"""

import os
import signal
import sys
import zlib
from typing import Literal, NamedTuple

PROC = sys.platform.startswith("linux")
COMMAND_LIMIT_CHARACTERS = 300  # characters of a command line that people are shown


class Seen(NamedTuple):
    """A process as it was found: `pid` and `started_at` identify it, the rest may change."""

    pid: int
    started_at: float
    parent: int
    group: int
    session: int
    is_zombie: bool
    is_stopped: bool = False

    @property
    def identity(self) -> tuple[int, float]:
        """The pair that identifies this process for as long as it lives, and no other process."""
        return self.pid, self.started_at


def started_at(pid: int) -> float | None:
    """Return the start time of a process; None if there is no such process, or it cannot be read.

    An opaque number: compare it for equality only, and only with values of this function. On Linux it counts clock
    ticks since the boot, and differs between boots, too (wall time would jump with the clock, and ticks alone repeat
    after a reboot). Elsewhere it is the Unix time in whole seconds.
    """
    seen = find_process(pid)
    return None if seen is None else seen.started_at


def find_process(pid: int) -> Seen | None:
    """Return the process that has this pid now, or None."""
    return _read_stat(pid) if PROC else _ask_ps(["-p", str(pid)]).get(pid)


def is_alive(pid: int, started_at: float | None) -> bool:
    """Return whether this very process lives; False for another process that has its pid by now."""
    seen = find_process(pid)
    return seen is not None and started_at is not None and seen.started_at == started_at and not seen.is_zombie


def process_table() -> dict[int, Seen]:
    """Return all visible processes by pid. Takes some milliseconds: do not call it in an event loop."""
    if not PROC:
        return _ask_ps(["-ax"])
    found = (_read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - pathlib is a slow import
    return {seen.pid: seen for seen in found if seen is not None}


def processes_below(processes: dict[int, Seen], root: int) -> dict[int, Seen]:
    """Return the descendants of `root`, without `root`."""
    children: dict[int, list[Seen]] = {}
    for seen in processes.values():
        children.setdefault(seen.parent, []).append(seen)
    found: dict[int, Seen] = {}
    pending = [root]
    while pending:
        for child in children.get(pending.pop(), ()):
            if child.pid not in found and child.pid != root:
                found[child.pid] = child
                pending.append(child.pid)
    return found


def send_signal(identity: tuple[int, float | None], signum: int) -> Literal["sent", "gone", "refused"]:
    """Signal this very process; leave another process that has its pid by now alone. `identity`: pid and start time."""
    pid, began = identity
    try:
        handle = os.pidfd_open(pid) if PROC and hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return "gone"
    except OSError:
        handle = None  # a kernel before 5.3, or a sandbox: we check, then signal
    try:
        if began is None or started_at(pid) != began:
            return "gone"
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, signum)
        else:
            os.kill(pid, signum)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return "refused"
    finally:
        if handle is not None:
            os.close(handle)
    return "sent"


def command_of(pid: int) -> str:
    """Return a process's command line for people, cut to `COMMAND_LIMIT_CHARACTERS`; empty if the process is gone."""
    if not PROC:
        return _run_ps(["-o", "command=", "-p", str(pid)]).strip()[:COMMAND_LIMIT_CHARACTERS]
    raw = _read(f"/proc/{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ") or _read(f"/proc/{pid}/comm").strip()
    return raw.decode("utf-8", "backslashreplace")[:COMMAND_LIMIT_CHARACTERS]


def _read(path: str) -> bytes:
    # Without a file object, which would be most of the work: a warden reads what the kernel gives in one piece.
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 65536)
    except OSError:
        return b""  # the process has just ended
    finally:
        os.close(file)


def _read_stat(pid: int) -> Seen | None:
    # The name, in brackets, may itself contain blanks and brackets: the fields begin after the last bracket.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    parent, group, session, ticks = (int(fields[index]) for index in (1, 2, 3, 19))
    return Seen(
        pid, float(_boot() + ticks), parent, group, session, fields[0] in (b"Z", b"X"), fields[0] in (b"T", b"t")
    )


_boots: list[int] = []


def _boot() -> int:
    """Return a number for this boot, to add to a count of ticks: the sum is exact in a float."""
    if not _boots:
        _boots.append((zlib.crc32(_read("/proc/sys/kernel/random/boot_id")) & 0x1FFFFF) << 32)
    return _boots[0]


def _run_ps(arguments: list[str]) -> str:
    import subprocess  # a slow import, which Linux does not need

    environment = {"LC_ALL": "C", "PATH": "/bin:/usr/bin", "TZ": "UTC"}
    run = subprocess.run(  # noqa: S603 - our own arguments
        ["/bin/ps", *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return run.stdout.decode("utf-8", "backslashreplace")


def _ask_ps(selection: list[str]) -> dict[int, Seen]:
    import calendar
    import time

    found: dict[int, Seen] = {}
    for line in _run_ps([*selection, "-o", "pid=,ppid=,pgid=,state=,lstart="]).splitlines():
        pid, parent, group, state, *start = line.split()
        began = calendar.timegm(time.strptime(" ".join(start), "%a %b %d %H:%M:%S %Y"))
        session = _session_of(int(pid), int(group))
        found[int(pid)] = Seen(
            int(pid), float(began), int(parent), int(group), session, state.startswith("Z"), state.startswith("T")
        )
    return found


def _session_of(pid: int, otherwise: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return otherwise  # gone, or we may not ask
