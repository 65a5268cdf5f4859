"""What the tests with real processes share: a marked environment, a check that no such process is left, ways to run."""

import os
import socket
import stat
import subprocess
import uuid
from pathlib import Path

import anyio
import preloaded
import pytest

from supervisor.tools.launcher import launcher_pid
from supervisor.tools.process import open_process


@pytest.fixture(name="anyio_backend", params=["asyncio", "trio"])
def real_backend(request):
    """Both backends in real time: real processes do not follow a virtual clock."""
    return request.param


def processes_with(word):
    """Return the lines of `ps` that hold the word, in the arguments or the environment."""
    listing = subprocess.run(["ps", "axeww"], capture_output=True, check=True).stdout
    return [line for line in listing.splitlines() if word.encode() in line]


def process_state(pid):
    """Return the state letter of a process; None if the process is gone."""
    listing = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listing.stdout.strip()[:1] or None


@pytest.fixture(name="marker")
def new_marker():
    """A word for the environment or the arguments of all that a test starts; at the end no process may have it."""
    word = f"marker-{uuid.uuid4().hex}"
    yield word
    assert processes_with(word) == []


@pytest.fixture(name="env")
def marked_env(marker):
    """An environment with the marker, and little else."""
    return {"PATH": os.environ["PATH"], "MARKER": marker}


def is_of_a_network(descriptor):
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as same:
            return same.family in (socket.AF_INET, socket.AF_INET6)
    except OSError:  # it was closed meanwhile
        return False


@pytest.fixture(autouse=True)
def no_descriptor_left():
    """No test leaves a descriptor open. The sockets to the launcher and to the preloaded interpreter stay; clients of
    Temporal, of tests before, open others and close them."""

    def count():
        mine = [each for each in Path("/dev/fd").iterdir() if not is_of_a_network(int(each.name))]
        return len(mine) - (launcher_pid() is not None) - preloaded.has_begun()

    before = count()
    yield
    assert count() <= before


async def run(command, timeout=30.0, **options):
    """Run a command from the gate to its end."""
    with anyio.fail_after(60):
        async with open_process(command, **options) as process:
            await process.release()
            return await process.wait(timeout)


async def run_past_deadline(command, folder, **options):
    """Run a command until it has created a file named `ready`; its deadline passes then."""
    with anyio.fail_after(60):
        async with open_process(command, cwd=folder, **options) as process:
            await process.release()
            while not (folder / "ready").exists():
                await anyio.sleep(0.005)
            return await process.wait(0.0)
