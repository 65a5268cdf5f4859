"""Whether a process may still be writing a session.

Theory: a call without a result is dangling only if no program is working on it. No maker says so in the file, so we
look for living processes, and name them:

1. a lock file next to the session (`<file>.lock`, as OpenClaw writes it) whose process is alive;
2. a process that has the file open for writing (Codex does);
3. for makers that open, append and close (pi, Claude Code): one of their programs that runs in the session's folder.

We cannot see processes of other users or machines, or in containers. `repair --watch` therefore also waits for a quiet
period; a single repair trusts the person who asked for it, and checks again just before it replaces the file.

Rules:
- A lock is stale if its process is gone, or if its pid belongs to a younger process. A lock that names no process is
  honoured until a person removes it.
- A program that only reads (`tail -f`, an editor, a backup) does not count.
- A person may say that the programs of rule 3 do not use the session; locks and open files are never overruled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

_PROC = Path("/proc")
_PROGRAMS = {
    "pi": ("pi", "pi-coding-agent", "openclaw", "openclaw-gateway"),
    "Claude Code": ("claude", "claude-code"),
}


class Process(NamedTuple):
    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})" if self.name else f"pid {self.pid}"


class Lock(NamedTuple):
    """The content of a lock file; `pid` is None if it names no process."""

    path: Path
    pid: int | None
    starttime: int | None


def lock_path(file: Path) -> Path:
    return file.with_name(file.name + ".lock")


def read_lock(path: Path) -> Lock | None:
    """Read a lock file, OpenClaw's JSON or a bare pid; return None if there is none."""
    try:
        raw = path.read_bytes()[:4096]
    except FileNotFoundError:
        return None
    said: Any = None
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # then it names no process
        said = msgspec.json.decode(raw)
    pid = said.get("pid") if isinstance(said, dict) else said
    starttime = said.get("starttime") if isinstance(said, dict) else None
    return Lock(
        path,
        pid if type(pid) is int and 0 < pid < 2**31 else None,
        starttime if type(starttime) is int else None,
    )


def is_stale(lock: Lock) -> bool:
    return lock.pid is not None and not is_alive(lock.pid, lock.starttime)


def is_alive(pid: int, starttime: int | None = None) -> bool:
    """Return whether a process is alive, and started at that time if both times are known."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, and another user's
    state, started = _stat(pid)
    if state in ("Z", "X"):
        return False
    return starttime is None or started is None or started == starttime


def own_starttime() -> int | None:
    return _stat(os.getpid())[1]


def _stat(pid: int) -> tuple[str, int | None]:
    """Return a process's state and its start in clock ticks since boot; None on a platform without them."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, IndexError, ValueError):
        return "", None


class Processes:
    """This machine's processes at one moment, for many sessions: reading them costs the same for one or a thousand.

    A process that was found is checked again, and may be gone. A process that started later is not found, so a caller
    that is about to write uses a new object.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[int, int], list[tuple[int, str]]] = {}
        self._folders: dict[str, list[int]] = {}
        self._is_read = False

    def writers(self, real: Path) -> Iterator[Process]:
        """Yield the processes that have a file open for writing."""
        if not _has_proc():
            yield from _lsof_writers(real)
            return
        self._read()
        found = real.stat()
        for pid, fd in self._files.get((found.st_dev, found.st_ino), ()):
            with suppress(OSError):  # it ended meanwhile
                if _file_of(pid, fd) == (found.st_dev, found.st_ino) and _is_for_writing(pid, fd):
                    yield Process(pid, _name(pid))

    def programs(self, maker: str, cwd: str) -> Iterator[Process]:
        """Yield the processes of a maker's programs that run in a folder."""
        names = next((names for known, names in _PROGRAMS.items() if maker.startswith(known)), ())
        if not names:
            return
        if not _has_proc():
            yield from _lsof_programs(names, cwd)
            return
        self._read()
        for pid in self._folders.get(cwd, ()):
            try:
                if _folder_of(pid) != cwd:
                    continue
                arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[:3]
            except OSError:
                continue
            said = {_name(pid), *(_program(os.fsdecode(argument)) for argument in arguments)}
            for name in names:
                if name in said:
                    yield Process(pid, name)
                    break

    def _read(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        for pid in _pids():
            with suppress(OSError):  # it ended meanwhile, or belongs to another user: see the theory
                self._folders.setdefault(_folder_of(pid), []).append(pid)
            with suppress(OSError):
                for fd in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 # a path object for each would take most of the time
                    with suppress(OSError):  # this one was closed meanwhile; go on with the next one
                        self._files.setdefault(_file_of(pid, fd), []).append((pid, fd))


def find_holder(
    path: Path,
    real: Path,
    maker: str,
    cwd: str | None,
    *,
    vouched: bool = False,
    own_lock: bool = False,
    processes: Processes | None = None,
) -> str | None:
    """Return text that names a process that may be writing this session, or None.

    `maker` is the format's name, `cwd` the folder in which the session says that it works. `vouched`: a person says
    that the maker's programs in that folder do not use this session. `own_lock`: the caller holds the session's lock.
    `processes` are those of an earlier look, which is good enough for a caller that does not write.
    """
    processes = processes or Processes()
    for lock in filter(None, (read_lock(lock_path(file)) for file in dict.fromkeys((path, real)))):
        if lock.pid is None:
            return f"locked by {lock.path}, which names no process; delete it if nothing uses the session"
        if not is_stale(lock) and not (own_lock and lock.pid == os.getpid()):
            return f"locked by {Process(lock.pid, _name(lock.pid))}"
    for process in processes.writers(real):
        return f"held open by {process}"
    if cwd and not vouched:
        try:
            folder = os.path.realpath(cwd)
        except ValueError:
            return None  # no folder can have this name, so no program runs in it
        for process in processes.programs(maker, folder):
            return f"{process} is running in {cwd}; end it, or pass --not-running if it uses another session"
    return None


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _pids() -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 # as above
        if name.isdigit() and int(name) != os.getpid():
            yield int(name)


def _has_proc() -> bool:
    return sys.platform.startswith("linux")


def _file_of(pid: int, fd: str) -> tuple[int, int]:
    found = os.stat(f"/proc/{pid}/fd/{fd}")  # noqa: PTH116 # as above
    return found.st_dev, found.st_ino


def _folder_of(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 # as above


def _is_for_writing(pid: int, fd: str) -> bool:
    flags = (_PROC / str(pid) / "fdinfo" / fd).read_text().partition("flags:")[2].split()[0]
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _program(argument: str) -> str:
    """Return the name of the program that an argument names: a path into a package, or a script."""
    parts = Path(argument).parts
    packages = [part for part in parts if part in ("pi-coding-agent", "claude-code", "openclaw")]
    return packages[0] if packages else Path(argument).name.removesuffix(".js").removesuffix(".mjs")


def _lsof(*arguments: str) -> Iterator[tuple[Process, str, str]]:
    """Yield the process, the access and the name of each open file that lsof lists; nothing without lsof."""
    lsof = shutil.which("lsof")
    if lsof is None:
        return
    asked = [lsof, "-w", "-F", "pcan", *arguments]
    listed = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    pid, name, access = 0, "", ""
    for line in listed.stdout.splitlines():
        field, value = line[:1], line[1:]
        if field == "p":
            pid, name = int(value), ""
        elif field == "c":
            name = value
        elif field == "a":
            access = value
        elif field == "n" and pid != os.getpid():
            yield Process(pid, name), access, value


def _lsof_writers(real: Path) -> Iterator[Process]:
    for process, access, _ in _lsof("--", str(real)):
        if access in ("w", "u"):
            yield process


def _lsof_programs(names: tuple[str, ...], cwd: str) -> Iterator[Process]:
    for process, _, folder in _lsof("-a", "-d", "cwd", *(part for name in names for part in ("-c", name))):
        if folder == cwd and process.name in names:
            yield process
