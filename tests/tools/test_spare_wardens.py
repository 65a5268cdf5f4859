"""A warden whose command has left nothing guards the next one, which gets nothing of the command before."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from real_processes import (  # noqa: F401 - fixtures
    marked_env,
    new_marker,
    no_descriptor_left,
    processes_with,
    real_backend,
    run,
)

from supervisor.tools.descendants import find_process, process_table, processes_below, started_at
from supervisor.tools.launcher import launcher_pid
from supervisor.tools.process import open_process

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")]


def wardens():
    """Return the launcher's wardens that live."""
    return {pid for pid, seen in process_table().items() if seen.parent == launcher_pid() and not seen.is_zombie}


async def find_spare(env):
    """Run commands one after the other until no other warden is left; return the spare, once it waits."""
    with anyio.fail_after(60):
        await run("true", env=env)
        while len(wardens()) != 1:
            await anyio.sleep(0.01)
        (spare,) = wardens()
        while not [each for each in processes_below(process_table(), spare).values() if each.session == each.pid]:
            await anyio.sleep(0.01)  # its process for the next command has not begun yet
        return spare


def descriptors_of(pid):
    return sorted(int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir())


async def test_a_warden_guards_one_command_after_the_other(env):
    spare = await find_spare(env)
    async with open_process(["true"], env=env) as process:
        assert find_process(process.pid).parent == spare
        await process.release()
        assert (await process.wait(60)).exit_code == 0
    assert await find_spare(env) == spare


async def test_a_command_gets_nothing_of_the_one_before(env, tmp_path):
    """Not its folder, environment, mask or descriptors; and the warden keeps no descriptor of it."""
    spare = await find_spare(env)
    held = descriptors_of(spare)
    leave = "umask 7; export LEFT=1; exec 7</dev/null; cd /usr; printf out; printf err >&2"
    say = "pwd; umask; echo ${LEFT-nothing}; ls /proc/$$/fd; :"
    before = (await run(say, env=env, cwd=tmp_path)).output.text.splitlines()
    assert (before[0], before[2:]) == (str(tmp_path), ["nothing", "0", "1", "2"])
    for _ in range(3):
        assert (await run(leave, env=env, cwd=tmp_path)).output.text == "outerr"
        assert (await run(say, env=env, cwd=tmp_path)).output.text.splitlines() == before
    assert await find_spare(env) == spare
    assert descriptors_of(spare) == held
    assert Path(f"/proc/{spare}/cwd").readlink() == Path("/")


async def test_at_most_one_warden_waits(env):
    """Those that became free next to it have ended."""
    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(lambda: run("true", env=env))
    await find_spare(env)


@pytest.mark.parametrize("whom", ["spare", "process for the command"])
async def test_a_killed_spare_fails_no_command(env, whom):
    """The next command is given to another warden, and does not know of it."""
    for _ in range(5):
        spare = await find_spare(env)
        (waiting,) = processes_below(process_table(), spare)
        os.kill(spare if whom == "spare" else waiting, signal.SIGKILL)
        finished = await run("echo whole", env=env)
        assert (finished.output.text, finished.exit_code, finished.trouble) == ("whole\n", 0, None)


async def test_a_spare_is_no_orphan_of_a_killed_warden(env, marker):
    """The launcher ends what the killed warden left, and no other process."""
    async with open_process("sleep 1000", env=env) as process:
        await process.release()
        spare = await find_other_spare(find_process(process.pid).parent, env)
        os.kill(find_process(process.pid).parent, signal.SIGKILL)
        assert (await process.wait(60)).trouble
    assert find_process(spare) is not None
    assert (await run("true", env=env)).exit_code == 0


async def find_other_spare(busy, env):
    """Return the spare that waits while another warden is busy."""
    with anyio.fail_after(60):
        await run("true", env=env)
        while len(wardens() - {busy}) != 1:
            await anyio.sleep(0.01)
        return (wardens() - {busy}).pop()


# It runs a command, says its launcher and its spare, and does nothing more.
OWNER = """
import anyio, json, time
from supervisor.tools.descendants import process_table, processes_below
from supervisor.tools.launcher import launcher_pid
from supervisor.tools.process import open_process
async def main():
    async with open_process(["true"]) as process:
        await process.release()
        await process.wait(60)
anyio.run(main)
def find():
    return processes_below(process_table(), launcher_pid())
while len(found := find()) != 2 or any(each.is_zombie for each in found.values()):
    time.sleep(0.01)
print(json.dumps([[launcher_pid(), None], *[each.identity for each in found.values()]]), flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["owner killed", "launcher killed", "owner interrupted"])
def test_a_spare_ends_with_its_owner_and_with_its_launcher(how):
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as owner:
        (launcher, _), *waiting = json.loads(owner.stdout.readline())
        if how == "launcher killed":
            os.kill(launcher, signal.SIGKILL)
        else:
            owner.send_signal(signal.SIGKILL if how == "owner killed" else signal.SIGINT)
        give_up_at = time.monotonic() + 60
        while any(started_at(pid) == start for pid, start in waiting):
            assert time.monotonic() < give_up_at
            time.sleep(0.02)
        owner.kill()
