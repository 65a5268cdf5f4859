"""Workers of pytest that begin with all tests imported: one process collects the tests, and forks each worker.

Theory: to import the tests and what they need takes a core eight seconds; to make a list of what is imported takes one.
xdist starts each worker as `PYTHON -u -c CODE`. Where that Python is `client` of this module, the process that has
collected forks one that runs the code on the client's standard streams. For pytest and xdist it is a worker as always,
which collects by itself; only its imports are there already.

    pytest -n 6 -> server: the folder's door, and its stdin, whose end ends it
    client      -> server: the code, and three descriptors; the connection's end says that the worker has ended

Rules
- The server has one thread, so a fork begins without work of another one. Linux only: elsewhere libraries have some.
- A worker has its own random numbers, signals and streams. All share one interpreter of `preloaded`.
- Modules of tests are imported once, before there are workers: what depends on the worker is asked in a function.

Run as a program it is the server, or the client; imported it is the side of pytest.
"""

import socket
import sys

# -- what xdist starts: it imports little ------------------------------------------------------------------------------


def client(door: str, code: str) -> None:
    """Let the server fork a worker that has our streams, and end with it."""
    import os
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the worker decides
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(door)
        socket.send_fds(server, [code.encode()], [0, 1, 2])
        os.close(0)
        os.close(1)
        server.recv(1)


# -- the process that collects -----------------------------------------------------------------------------------------


def serve(door: socket.socket, tests: list[str]) -> None:
    """Import the tests, and fork workers until stdin ends. Returns in those, when they have ended."""
    import gc
    import os
    import select
    import signal
    import threading
    from pathlib import Path

    import pytest

    sys.path[0] = ""
    quiet, heard = os.open(os.devnull, os.O_WRONLY), os.dup(1)
    os.dup2(quiet, 1)
    pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *tests])  # what fails, fails in each worker again
    os.dup2(heard, 1)
    if is_whole_run(tests):
        import preloaded

        preloaded.begin()
    task = Path("/proc/self/task")
    assert threading.active_count() == len(list(task.iterdir())) == 1, "a fork would begin without these threads"
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers are not waited for
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    while door in select.select([door, 0], [], [])[0]:
        asking, _ = door.accept()
        code, streams, *_ = socket.recv_fds(asking, 2**16, 3)
        if os.fork() == 0:
            door.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, interrupted)
            work(code.decode(), streams)
            return
        asking.close()
        for stream in streams:
            os.close(stream)


def work(code: str, streams: list[int]) -> None:
    """Be what `python -c CODE` would be on these streams; the connection stays open until the end."""
    import os
    from types import ModuleType

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.argv = ["-c"]
    main = sys.modules["__main__"] = ModuleType("__main__")
    sys.modules["trio._core._run"]._r.seed()  # else all would shuffle their tasks in the same way
    exec(code, vars(main))


# -- the side of pytest ------------------------------------------------------------------------------------------------

_servers = []


def is_whole_run(tests: list[str]) -> bool:
    """Whether pytest was given all tests, and not some of their files."""
    from pathlib import Path

    return [Path(named).resolve() for named in tests] == [Path(__file__).parent]


def begin(specs, tests: list[str], folder: str) -> None:
    """Let the workers of these specs be forked by a server that collects tests; its door is in a new folder."""
    import shlex
    import subprocess

    if sys.platform != "linux" or len(specs) < 2 or any(not spec.popen or spec.python for spec in specs):
        return
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{folder}/door")
        door.listen(len(specs))
        command = [sys.executable, __file__, "serve", str(door.fileno()), *tests]
        _servers.append(subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[door.fileno()]))
    for spec in specs:
        spec.python = shlex.join([sys.executable, "-I", "-S", __file__, "client", f"{folder}/door"])


def end() -> None:
    """End the server; workers that still run go on."""
    for server in _servers:
        server.communicate()
    _servers.clear()


if __name__ == "__main__":
    if sys.argv[1] == "client":
        client(sys.argv[2], sys.argv[-1])
    else:
        serve(socket.socket(fileno=int(sys.argv[2])), sys.argv[3:])
