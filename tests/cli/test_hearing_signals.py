"""Signals as `run_until_stopped` hears them (supervisor/wiring/stopping.py), in programs of their own."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, time
import anyio
from supervisor.wiring.stopping import run_until_stopped

async def body():
    {body}
    print("begun", flush=True)
    await anyio.sleep({seconds})
    print("ended", flush=True)

sys.exit(run_until_stopped(body, {backend!r}))
"""
FORK = """
    if not (child := os.fork()):
        time.sleep(60)
        os._exit(0)
    time.sleep(0.1)
    os.kill(child, signal.SIGTERM)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
"""


def start(backend, body="pass", seconds=60.0, **options):
    code = PROGRAM.format(backend=backend, body=body.strip(), seconds=seconds)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_signal_to_a_forked_child_is_that_childs_alone(backend):
    """Parent and child share the descriptors that the thread reads. The signal ends the child; the parent goes on."""
    process = start(backend, FORK, 0.5)
    assert process.communicate(timeout=60)[0] == "begun\nended\n"
    assert process.returncode == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_ends_with_the_code_of_its_signal(backend):
    """A program of a user behaves as the command line does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = start(backend)
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.communicate(timeout=60)[0] == ""
        assert process.returncode == 128 + number


FAILING = """
    async def fail_in_the_end():
        try:
            await anyio.sleep(60)
        finally:
            raise ConnectionError("not closed")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fail_in_the_end)
        await anyio.sleep(0.1)
        print("begun", flush=True)
        await anyio.sleep(60)
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_whose_task_fails_while_it_is_stopped_ends_with_the_code_of_its_signal(backend):
    """On trio the failure comes in one group with the cancellation. One line says that it was there."""
    process = start(backend, FAILING, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, "Traceback" in said, "not closed" in said) == (128 + signal.SIGTERM, False, True), said


def test_a_hangup_that_the_caller_has_ignored_stays_ignored():
    """`nohup` is for programs that outlive their terminal."""
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    process = start("asyncio", seconds=1.0, preexec_fn=ignore)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=60)[0] == "ended\n"
    assert process.returncode == 0
