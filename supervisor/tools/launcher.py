"""The launcher as its owner sees it: one small process that forks the wardens (see `warden`).

Rules:
- It starts with the first command, serves every event loop and thread of this process, and ends with this process,
  however that ends: it reads from a socket of ours, and watches our pid. It stays our child, so that a command finds us
  among its ancestors.
- There is one launcher per process and identity: after a fork, or after this process has dropped privileges, a command
  never runs under the earlier launcher. Umask, limits and namespaces are those of the launcher's start.
- If the launcher was killed, the next command starts another.
"""

import array
import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

# The launcher does not run the package's own __init__ files: it needs two modules, not the library.
_BOOTSTRAP = """
import sys, types
for name in ("supervisor", "supervisor.tools"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["supervisor.tools"].__path__ = [sys.argv[1]]
from supervisor.tools import warden
warden.main()
"""

# What an interpreter may need to find its own shared library. Everything else, above all secrets, stays out.
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class _Launcher(NamedTuple):
    requests: socket.socket
    process: subprocess.Popen[bytes]
    identity: tuple[object, ...]

    def close(self) -> None:
        self.requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=1.0)  # it exits at the end of the socket; the bound is for a stopped launcher


_lock = threading.Lock()
_launchers: list[_Launcher] = []  # none or one


def fork_warden(wire: socket.socket, streams: list[int]) -> None:
    """Have a warden forked that holds its own copies of `wire` (its end) and of the command's `streams`: one for both
    outputs, with /dev/null as input; or three, for input, output and errors.

    Does not wait for the warden: it answers on the wire, or the wire ends. Raises BlockingIOError while the launcher is
    overloaded, or another OSError.
    """
    with _lock:
        try:
            _send(_current(), wire, streams)
        except (BrokenPipeError, ConnectionResetError):
            _drop()
            _send(_current(), wire, streams)


def launcher_pid() -> int | None:
    """Return the pid of this process's launcher; None if there is none."""
    return _launchers[0].process.pid if _launchers else None


def _send(launcher: _Launcher, wire: socket.socket, streams: list[int]) -> None:
    fds = array.array("i", [wire.fileno(), *streams])
    launcher.requests.sendmsg([b"w"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])


def _current() -> _Launcher:
    identity = os.getpid(), os.getuid(), os.geteuid(), os.getgid(), os.getegid(), tuple(os.getgroups())
    if _launchers and _launchers[0].identity != identity:
        _drop()
    if not _launchers:
        _launchers.append(_start(identity))
    return _launchers[0]


def _start(identity: tuple[object, ...]) -> _Launcher:
    ours, theirs = socket.socketpair()
    with theirs:
        environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        argv = [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, str(Path(__file__).parent), str(os.getpid())]
        try:
            # We do not wait for it: the socket keeps what we send meanwhile.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                argv,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
            )
        except BaseException:
            ours.close()
            raise
    ours.setblocking(False)  # with a launcher that reads nothing, launching fails at once instead of waiting
    return _Launcher(ours, process, identity)


def _drop() -> None:
    launcher = _launchers.pop()
    if launcher.identity[0] == os.getpid():
        launcher.close()
    else:
        launcher.requests.close()  # it belongs to the process that forked us, and is not ours to wait for
        launcher.process.returncode = 0


def _renew_lock() -> None:
    global _lock  # a thread that this fork does not have may hold the old lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


@atexit.register
def _close_at_exit() -> None:
    with _lock:
        if _launchers:
            _drop()
