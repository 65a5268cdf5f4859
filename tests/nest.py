"""Processes that begin at once: a nest has imported a module, and forks a process (a life) for each job.

    python nest.py MODULE [MORE...]      it is the nest; imported, it is the tests' side

A life has fresh stores and event loops; only the imports are shared. One line of JSON is one message:

    to the nest      {"folder": ..., ...}               a job: the argument of MODULE.main, which returns the exit code
    to the test      {"pid": 7}  {"said": ...}  {"stopped": true}  {"exit": -9}
    to the life      messages of the test while it listens

Rules
- A nest has one life at a time, so that its pipes belong to that life.
- An alarm ends a life that hangs, so nothing here waits without end. Before that, the life writes where each of its
  tasks waits. What a life writes to stderr is in `log`.
"""

import faulthandler
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import preloaded

HANGS = 60  # seconds after which a life is ended by its alarm, which fails its test


def serve(*modules: str) -> None:
    main, *_ = [importlib.import_module(name) for name in modules]
    with os.fdopen(0, "rb", buffering=0, closefd=False) as jobs:
        while line := jobs.readline():
            _fork(main.main, json.loads(line))


def _fork(main: Any, job: dict[str, Any]) -> None:
    if (pid := os.fork()) == 0:
        _live(main, job)
    tell(pid=pid)
    status = os.waitpid(pid, os.WUNTRACED)[1]
    while os.WIFSTOPPED(status):
        tell(stopped=True)
        status = os.waitpid(pid, os.WUNTRACED)[1]
    tell(exit=os.waitstatus_to_exitcode(status))


def _live(main: Any, job: dict[str, Any]) -> None:
    code = 70
    signal.signal(signal.SIGALRM, _hangs)
    signal.setitimer(signal.ITIMER_REAL, HANGS, 5)
    faulthandler.dump_traceback_later(HANGS + 10, exit=True)  # where not even a signal handler runs
    try:
        with open(f"{job['folder']}/log", "a") as log:  # noqa: PTH123 # a life begins with as little as can be
            os.dup2(log.fileno(), 2)
        code = main(job)
    except BaseException:  # a fork must not go on as its parent
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _hangs(*_: Any) -> None:
    """Write where each task waits. The next alarm ends the process."""
    import anyio

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for task in anyio.get_running_tasks():
        print(f"{task.name} waits", *_places(task.coro), sep="\n    ", file=sys.stderr, flush=True)


def _places(waiting: Any) -> Iterator[str]:
    """Yield the places at which a coroutine waits, the outermost first."""
    while waiting is not None:
        kind = next((each for each in ("cr", "gi", "ag") if hasattr(waiting, f"{each}_frame")), None)
        if kind is None:
            return
        if (frame := getattr(waiting, f"{kind}_frame")) is not None:
            yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


def tell(**message: Any) -> None:
    """Write one message to the test. It is short enough to be written at once."""
    os.write(1, json.dumps(message).encode() + b"\n")


class Life:
    """A process of a story, as its test sees it."""

    def __init__(self, nest: "subprocess.Popen[bytes]", idle: "SimpleQueue[subprocess.Popen[bytes]]", job: Any) -> None:
        self._nest, self._idle = nest, idle
        self._code: int | None = None
        self.tell(job)
        self.pid: int = self._hear("pid")

    def _next(self) -> dict[str, Any]:
        assert self._nest.stdout is not None
        message: dict[str, Any] = json.loads(self._nest.stdout.readline())
        return message

    def _hear(self, key: str) -> Any:
        message = self._next()
        assert key in message, f"expected {key}, got {message}"
        return message[key]

    def tell(self, message: Any) -> None:
        assert self._nest.stdin is not None
        self._nest.stdin.write(json.dumps(message).encode() + b"\n")

    def hear(self) -> Any:
        """Return the next message of the process."""
        return self._hear("said")

    def stops(self) -> bool:
        """Wait until the process has stopped itself (SIGSTOP), or has ended without that."""
        message = self._next()
        self._code = message.get("exit")
        return "stopped" in message

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self) -> int:
        """Wait for its end. Return the exit code, negative for a signal."""
        code = self._code if self._code is not None else self._hear("exit")
        self._idle.put(self._nest)
        return int(code)


class Nests:
    """As many nests of a module as there are processes at the same time. They import `more`, too."""

    def __init__(self, module: Path, *more: str) -> None:
        self._folder, self._modules = module.parent, (module.stem, *more)
        self._all: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

    def begin(self, do: str, folder: Path, **job: Any) -> Life:
        """Start a process that does a job in a folder."""
        try:
            nest = self._idle.get_nowait()
        except Empty:
            command = [sys.executable, __file__, *self._modules]
            env = os.environ | {"PYTHONPATH": str(self._folder)}
            nest = preloaded.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
            self._all.append(nest)
        return Life(nest, self._idle, {"do": do, "folder": str(folder), **job})

    def live(self, do: str, folder: Path, **job: Any) -> int:
        """Let a process begin and end. Return its exit code."""
        return self.begin(do, folder, **job).end()

    def close(self) -> None:
        for nest in self._all:
            nest.kill()  # its life, if a test has failed and left one, dies by its alarm
            nest.communicate()


if __name__ == "__main__":
    serve(*sys.argv[1:])
