"""Our own death while a process to talk with runs: nothing of it is left, and a later process can make sure."""

import json
import os
import signal
import subprocess
import sys

import anyio
import msgspec
import pytest
from real_processes import new_marker, processes_with, real_backend  # noqa: F401 - fixtures

from supervisor.tools.descendants import find_process, is_alive
from supervisor.tools.duplex import ProcessIdentity, end_former_process

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")]

OWNER = """
import anyio, msgspec, os, sys
from supervisor.tools.duplex import open_duplex
async def main(backend, command, marker):
    argv = ["/bin/sh", "-c", command]
    async with open_duplex(argv, cwd=".", env={"MARKER": marker}, mark="s", stop_timeout=1000) as it:
        while not os.path.exists("ready"):
            await anyio.sleep(0.01)
        print(msgspec.json.encode(it.identity).decode(), flush=True)
        await it.wait()
anyio.run(main, *sys.argv[1:], backend=sys.argv[1])
"""

# Deaf to the end of its input and to SIGTERM, with a process in a session of its own that is deaf, too.
DEAF = "trap '' TERM; setsid sh -c 'trap \"\" TERM; touch ready; while :; do sleep 1; done' & while :; do sleep 1; done"


@pytest.fixture(params=[DEAF], ids=["deaf"])
def owner(request, anyio_backend_name, marker, tmp_path):
    """A process of ours that talks with another one, and the identity of that."""
    argv = [sys.executable, "-c", OWNER, anyio_backend_name, request.param, marker]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE) as started:
        yield started, msgspec.json.decode(started.stdout.readline(), type=ProcessIdentity)
        started.kill()


async def test_a_kill_of_the_owner_ends_all_at_once(owner, marker):
    """The warden does not wait for the time that a block gives on leaving. A later process finds nothing left."""
    started, identity = owner
    assert find_process(identity.pid)
    started.kill()
    with anyio.fail_after(60):
        assert await end_former_process(identity) in ("gone", "not ours")
    assert processes_with(marker) == []


TIDY = "exec 2>/dev/null; trap 'sleep 0.2; touch saved; exit' TERM; touch ready; while :; do sleep 0.01; done"


@pytest.mark.parametrize("owner", [TIDY], ids=["tidy"], indirect=True)
async def test_the_next_process_lets_the_former_one_tidy_up(owner, tmp_path):
    """It waits for the warden, which sends SIGTERM first."""
    started, identity = owner
    started.kill()
    with anyio.fail_after(60):
        await end_former_process(identity)
    assert (tmp_path / "saved").exists()


async def test_a_process_without_owner_launcher_and_warden_is_ended_by_the_next(owner, marker):
    """The identity that was kept is enough, and another process with that pid is left alone."""
    started, identity = owner
    launcher = find_process(identity.guard).parent
    for pid in (started.pid, launcher, identity.guard):
        os.kill(pid, signal.SIGSTOP)
    for pid in (launcher, identity.guard, started.pid):
        os.kill(pid, signal.SIGKILL)
    started.wait()
    assert find_process(identity.pid)
    with anyio.fail_after(60):
        another = msgspec.structs.replace(identity, started_at=identity.started_at - 1)
        assert await end_former_process(another) == "not ours"
        elsewhere = msgspec.structs.replace(identity, host="elsewhere")
        assert await end_former_process(elsewhere) == "not ours"
        assert find_process(identity.pid)
        assert await end_former_process(identity) == "ended"
    for line in processes_with(marker):  # what had left its session, and lost all its guards
        os.kill(int(line.split()[0]), signal.SIGKILL)
    with anyio.fail_after(60):
        while processes_with(marker):
            await anyio.sleep(0.02)


async def test_a_stopped_warden_is_ended_with_all_it_guards(owner, marker):
    """The next process does not wait for it for ever."""
    started, identity = owner
    os.kill(identity.guard, signal.SIGSTOP)
    started.kill()
    with anyio.fail_after(60):
        await end_former_process(identity, margin=-3.9)
        assert not is_alive(identity.guard, identity.guard_started_at)
        while processes_with(marker):
            await anyio.sleep(0.02)


def test_an_identity_is_plain_json():
    identity = ProcessIdentity("here", 1, 2.0, 3, None)
    assert msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(identity))), ProcessIdentity) == identity
