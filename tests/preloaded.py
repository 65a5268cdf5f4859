"""Pythons that begin at once: an interpreter has imported the package, and forks a process for each command.

`preloaded.Popen` takes the place of `subprocess.Popen` for commands that begin with `sys.executable`. What it starts
is a process of its own, with its own pid, exit code, streams, folder and environment. It shares only the imports, which
take longer than most commands.

    test           -> interpreter: one byte, and five descriptors: the command as JSON, stdin, stdout, stderr, status
    minder         -> test, over status: "pid 7", "stopped 19", "exit -9", a line each

Rules
- The interpreter has one thread and no store, so that a fork begins without work of another thread.
- Each command has a minder, a fork that is its parent and does nothing but wait for it.
- What the interpreter itself does (closed streams, options, import times, PYTHON* in the environment) is tested with
  `subprocess.Popen`.

Run as a program it is the interpreter; imported it is the side of the tests.
"""

import atexit
import fcntl
import gc
import importlib
import inspect
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

# -- the interpreter ---------------------------------------------------------------------------------------------------


def serve(commands: socket.socket) -> dict[str, Any]:
    """Fork a process for each command until no client can send one. Returns in those processes, with a job."""
    preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # minders are not waited for
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the client ends this process
    while True:
        message, descriptors, *_ = socket.recv_fds(commands, 1, 5)
        if not message:
            os._exit(0)
        assert threading.active_count() == 1, "a fork would begin without these threads, and with their locks"
        if os.fork() == 0:
            commands.detach()
            return mind(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


NOT_PRELOADED = {"__init__", "__main__", "demo", "warden", "pytest_plugin"}
"""Programs, and what is for tests."""
FRAMEWORKS = ("langgraph", "openai", "pydantic")
"""What begins with these takes seconds to import, and few commands use it: those import it themselves."""


def preload() -> None:
    """Import what commands import, the package too, and keep it out of the collector's way."""
    import supervisor

    root = Path(supervisor.__file__).parent
    for file in root.rglob("*.py"):
        parts = file.relative_to(root).with_suffix("").parts
        if parts[0] == "testing" or parts[-1] in NOT_PRELOADED:
            continue
        if parts[0] == "agents" and parts[-1].startswith(FRAMEWORKS):
            continue
        module = importlib.import_module(".".join(("supervisor", *parts)))
        agents = [name for name, value in vars(module).items() if isinstance(value, supervisor.AgentSpec)]
        assert not agents, "a process goes on with the runs of agents that it has imported"
    for name in ("anyio._backends._asyncio", "anyio._backends._trio", "rich.live", "rich.table", "structlog"):
        importlib.import_module(name)
    assert "pytest" not in sys.modules, "libraries behave in another way inside tests"
    gc.collect()
    gc.freeze()


def mind(descriptors: list[int]) -> dict[str, Any]:
    """Fork once more, and tell how that process is until it has ended. Returns in that process only."""
    *given, status = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        os.close(status)
        return become(given)
    for descriptor in (*given, 0, 1, 2):
        os.close(descriptor)
    os.write(status, f"pid {pid}\n".encode())
    while os.WIFSTOPPED(state := os.waitpid(pid, os.WUNTRACED)[1]):
        os.write(status, f"stopped {os.WSTOPSIG(state)}\n".encode())
    os.write(status, f"exit {os.waitstatus_to_exitcode(state)}\n".encode())
    os._exit(0)


def become(given: list[int]) -> dict[str, Any]:
    """Make this process what a new interpreter would be that was started with these; returns its job."""
    with os.fdopen(given[0]) as file:
        job: dict[str, Any] = json.load(file)
    for number, descriptor in enumerate(given[1:]):
        os.dup2(descriptor, number)
    os.closerange(3, 256)
    gc.unfreeze()  # in a new interpreter nothing is frozen
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(job["umask"])
    if job["start_new_session"]:
        os.setsid()
    if job["is_on_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    os.chdir(job["cwd"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = reopen(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.modules["trio._core._run"]._r.seed()  # else all would shuffle their tasks in the same way
    return job


def reopen(number: int, old: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return a standard stream as an interpreter makes it, whose options (PYTHONUNBUFFERED) the old one knows."""
    buffering = 0 if old.write_through else -1
    raw = os.fdopen(number, "wb" if number else "rb", buffering=buffering, closefd=False)
    return io.TextIOWrapper(
        raw,
        old.encoding,
        old.errors,
        newline="\n" if number else None,
        line_buffering=old.line_buffering or (number > 0 and raw.isatty()),
        write_through=old.write_through,
    )


def execute(job: dict[str, Any]) -> None:
    """Run what the command line says: -m MODULE, -c CODE, or a FILE."""
    option, *rest = job["arguments"]
    path = [entry for entry in job["env"].get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:1] = [{"-m": job["cwd"], "-c": ""}.get(option, str(Path(option).resolve().parent)), *path]
    if option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = ModuleType("__main__")
    if option == "-c":
        code, sys.argv = rest[0], ["-c", *rest[1:]]
    else:
        main.__file__, code, sys.argv = option, Path(option).read_text(), [option, *rest]
    exec(compile(code, getattr(main, "__file__", "<string>"), "exec"), vars(main))


def end_after(job: dict[str, Any]) -> None:
    """Run a job, and end as an interpreter does. It leaves its modules in one piece: that saves most of its time."""
    code, is_interrupted = 1, False
    try:
        execute(job)
        code = 0
    except SystemExit as left:
        if isinstance(left.code, int | None):
            code = left.code or 0
        else:
            print(left.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        is_interrupted = isinstance(error, KeyboardInterrupt)
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120
    finally:
        if is_interrupted:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code)


# -- the side of the tests ---------------------------------------------------------------------------------------------


@cache
def _interpreter() -> tuple["subprocess.Popen[bytes]", socket.socket]:
    ours, its = socket.socketpair()
    with its:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, __file__, str(its.fileno())]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()], env=env), ours


_asking = threading.Lock()


def begin() -> None:
    """Start the interpreter, for this process and those that it forks."""
    _interpreter()


def has_begun() -> bool:
    """Whether the interpreter has been started."""
    return _interpreter.cache_info().currsize > 0


def close() -> None:
    """End the interpreter; commands that still run go on."""
    if has_begun():
        process, commands = _interpreter()
        commands.close()
        process.wait()
        _interpreter.cache_clear()


class Popen(subprocess.Popen[Any]):
    """A command that begins with `sys.executable`; `is_on_terminal` makes its stdin its session's terminal."""

    def __init__(self, args: Any, *, is_on_terminal: bool = False, **options: Any) -> None:
        self._is_on_terminal = is_on_terminal
        self._status = -1
        self._told = b""
        super().__init__(args, **options)

    def stops(self) -> bool:
        """Wait until it has stopped (SIGSTOP), or ended without that."""
        word, value = self._hear()
        if word == "exit":
            self._end(value)
        return word == "stopped"

    # What is below has the place of the methods by which `subprocess.Popen` starts processes and waits for them.

    def _execute_child(self, *given: Any) -> None:
        asked = inspect.signature(super()._execute_child).bind(*given).arguments
        first, *arguments = (os.fsdecode(word) for word in asked["args"])
        assert first == sys.executable
        assert not any(asked[option] for option in ("preexec_fn", "pass_fds", "shell", "executable"))
        job = {
            "arguments": arguments,
            "cwd": os.fsdecode(asked["cwd"] or Path.cwd()),
            "env": {os.fsdecode(k): os.fsdecode(v) for k, v in (asked["env"] or os.environ).items()},
            "start_new_session": asked["start_new_session"],
            "is_on_terminal": self._is_on_terminal,
        }
        streams = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        given = [stream if stream >= 0 else number for number, stream in enumerate(streams)]
        self._status, status = os.pipe()
        with _asking, tempfile.TemporaryFile("w+") as file:
            os.umask(mask := os.umask(0o077))
            json.dump({**job, "umask": mask}, file)
            file.seek(0)
            socket.send_fds(_interpreter()[1], [b"."], [file.fileno(), *given, status])
        os.close(status)
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in pipes))
        self._child_created = True
        self.pid = self._hear()[1]

    def _hear(self) -> tuple[str, int]:
        """Wait for what the minder says next."""
        while b"\n" not in self._told:
            more = os.read(self._status, 4096)
            assert more, "the interpreter has died"
            self._told += more
        line, _, self._told = self._told.partition(b"\n")
        word, value = line.decode().split()
        return word, int(value)

    def _end(self, code: int) -> None:
        self.returncode = code
        os.close(self._status)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._wait(0)

    def _wait(self, timeout: float | None) -> int | None:
        give_up_at = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            if not self._told and give_up_at is not None:
                left = max(0.0, give_up_at - time.monotonic())
                if not select.select([self._status], [], [], left)[0]:
                    if timeout:
                        raise subprocess.TimeoutExpired(self.args, timeout)
                    return None
            word, value = self._hear()
            if word == "exit":
                self._end(value)
        return self.returncode


def run(args: Any, *, timeout: float | None = None, **options: Any) -> "subprocess.CompletedProcess[Any]":
    """What `subprocess.run` does, for such a command."""
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


if __name__ == "__main__":
    end_after(serve(socket.socket(fileno=int(sys.argv[1]))))
