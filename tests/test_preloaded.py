"""A command that a preloaded interpreter forks is what an interpreter of its own would be."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest

FACTS = """
import json, os, signal, sys
streams = (sys.stdin, sys.stdout, sys.stderr)
print(json.dumps({
    "words": (__name__, getattr(sys.modules["__main__"], "__file__", None), sys.argv, sys.path[:2]),
    "place": (os.getcwd(), dict(os.environ), os.umask(0), os.getpgrp(), os.getsid(0)),
    "open": [name for name in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{name}")],
    "signals": [str(signal.getsignal(number)) for number in (2, 13, 15, 17)] + [str(signal.pthread_sigmask(0, []))],
    "streams": [(s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines, s.isatty()) for s in streams],
}))
"""
STARTERS = pytest.mark.parametrize("run", [preloaded.run, subprocess.run], ids=["forked", "real"])


@pytest.mark.parametrize("by_file", [True, False], ids=["file", "code"])
def test_a_fork_finds_what_a_new_interpreter_finds(tmp_path: Path, by_file):
    """Words, folder, environment, mask, group, descriptors, signals and streams; words that are no text as well."""
    file = tmp_path / "facts.py"
    file.write_text(FACTS)
    command = [sys.executable, *([str(file)] if by_file else ["-c", FACTS]), "a", "\udcff"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "modules"), "OTHER": "é"}
    options = {"cwd": tmp_path, "env": env, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    forked, real = (run(command, **options) for run in (preloaded.run, subprocess.run))
    assert (forked.returncode, forked.stderr) == (0, "")
    assert json.loads(forked.stdout) == json.loads(real.stdout)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(3)", (3, "", "")),
        ("import sys; sys.exit('no')", (1, "", "no")),
        ("print('x'); 1/0", (1, "x\n", "ZeroDivisionError: division by zero")),
        ("raise KeyboardInterrupt", (-signal.SIGINT, "", "KeyboardInterrupt")),
        ("import os; os.kill(os.getpid(), 9)", (-signal.SIGKILL, "", "")),
        ("import atexit; atexit.register(print, 'bye'); print('x')", (0, "x\nbye\n", "")),
        ("import threading; threading.Timer(0.05, print, 'x').start()", (0, "x\n", "")),
        ("print(input())", (0, "told\n", "")),
    ],
)
@STARTERS
def test_a_fork_ends_as_an_interpreter_ends(run, code, expected):
    """By its code, by a signal, with an error, and not before its threads and its last functions."""
    with (preloaded.Popen if run is preloaded.run else subprocess.Popen)(
        [sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=-1, text=True
    ) as process:
        out, err = process.communicate("told\n", timeout=60)
    assert (process.returncode, out, "".join(err.splitlines()[-1:])) == expected


def test_a_fork_can_be_interrupted_where_the_tests_cannot(monkeypatch):
    """A shell starts what it does not wait for with SIGINT ignored; a new interpreter would inherit that."""
    command = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with preloaded.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout.readline() == "begun\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_fork_that_stops_says_so_and_goes_on():
    """So that a test can hold a process at one point."""
    command = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"]
    with preloaded.Popen(command) as process:
        assert process.stops()
        process.send_signal(signal.SIGCONT)
        assert not process.stops()
        assert process.returncode == 0


def test_forks_are_apart(tmp_path: Path):
    """Two run at once, each with ids, random numbers and a trio of its own; the interpreter has seen nothing of it."""
    code = "import random, trio; print(random.random(), trio._core._run._r.random()); input()"
    commands = [preloaded.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) for _ in range(2)]
    numbers = {number for command in commands for number in command.stdout.readline().split()}
    assert len(numbers) == 4
    assert commands[0].pid != commands[1].pid
    for command in commands:
        command.communicate("\n", timeout=60)
