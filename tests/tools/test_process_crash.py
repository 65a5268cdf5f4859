"""What is left of a command when its owner, warden or launcher is killed: nothing, or it can be ended by its pid."""

import json
import os
import signal
import subprocess
import sys

import anyio
import pytest
from real_processes import new_marker, processes_with, real_backend  # noqa: F401 - fixtures

from supervisor.tools.descendants import find_process, started_at
from supervisor.tools.launcher import launcher_pid
from supervisor.tools.process import end_orphaned_process, open_process

pytestmark = pytest.mark.anyio

OWNER = """
import anyio, json, os, sys
from supervisor.tools.process import open_process
from supervisor.tools.descendants import find_process
async def main(backend, command, is_released, *_):
    async with open_process(command, grace=0.2) as process:
        if is_released == "released":
            await process.release()
            while not os.path.exists("ready"):
                await anyio.sleep(0.01)
        warden = find_process(process.pid).parent
        print(json.dumps([process.pid, process.started_at, warden]), flush=True)
        if is_released == "released":
            await process.wait(1000)
        await anyio.sleep(1000)
anyio.run(main, *sys.argv[1:], backend=sys.argv[1])
"""

# The same with a forked child, which keeps all that it inherited.
FORKING_OWNER = OWNER.replace(
    "        warden = ",
    """
        if (child := os.fork()) == 0:
            import time
            time.sleep(1000)
        with open("fork", "w") as file:
            file.write(str(child))
        warden = """,
)


async def nothing_left(word, pid=None, started=None):
    """Wait until no process has the word, and this pid is gone: a process that is exiting no longer shows its words."""
    with anyio.fail_after(60):
        while processes_with(word) or (pid is not None and started_at(pid) == started):
            await anyio.sleep(0.02)


def start_owner(backend, command, state, marker, folder, program=OWNER):
    """Start a process of ours that owns a command; return it with the command's pid, start and warden."""
    owner = subprocess.Popen(
        [sys.executable, "-c", program, backend, command, state],
        env=os.environ | {"MARKER": marker},
        cwd=folder,
        stdout=subprocess.PIPE,
    )
    with owner.stdout:
        return owner, json.loads(owner.stdout.readline())


async def test_a_kill_of_the_owner_before_the_release_runs_nothing(anyio_backend_name, marker, tmp_path):
    """The gate never opens after our death."""
    owner, (pid, started, _) = start_owner(anyio_backend_name, "touch ran", "gated", marker, tmp_path)
    assert started_at(pid) == started
    owner.kill()
    owner.wait()
    await nothing_left(marker, pid, started)
    assert not (tmp_path / "ran").exists()
    assert await end_orphaned_process(pid, started) in ("gone", "not ours")


async def test_a_kill_of_the_warden_before_the_release_runs_nothing(anyio_backend_name, marker, tmp_path):
    """The process at the gate waits for its warden, too: without it, it exits."""
    owner, (_, _, warden) = start_owner(anyio_backend_name, "touch ran", "gated", marker, tmp_path)
    os.kill(owner.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, owner.pid, os.WSTOPPED)
    os.kill(warden, signal.SIGKILL)
    owner.kill()
    owner.wait()
    await nothing_left(marker)
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")
async def test_a_kill_of_the_owner_ends_all_of_its_command(anyio_backend_name, marker, tmp_path):
    """The warden ends processes that ignore SIGTERM or left the session, without us."""
    command = "trap '' TERM; setsid sleep 1000 & sleep 1000 & touch ready; while :; do sleep 1; done"
    owner, (pid, started, _) = start_owner(anyio_backend_name, command, "released", marker, tmp_path)
    owner.kill()
    owner.wait()
    await nothing_left(marker, pid, started)
    assert await end_orphaned_process(pid, started) in ("gone", "not ours")


@pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")
async def test_a_kill_of_the_owner_ends_processes_that_outlive_the_command(anyio_backend_name, marker, tmp_path):
    """The command exits at once, with no owner to report to; the process that ignores SIGTERM is ended after it."""
    command = "setsid sh -c 'trap \"\" TERM; touch ready; while :; do sleep 0.1; done' & wait"
    owner, _ = start_owner(anyio_backend_name, command, "released", marker, tmp_path)
    owner.kill()
    owner.wait()
    await nothing_left(marker)


@pytest.mark.skipif(sys.platform != "linux", reason="the platform has no pidfd")
async def test_a_fork_with_our_sockets_keeps_no_command_alive(marker, tmp_path):
    """A forked child (multiprocessing makes them) has copies of our sockets: our death itself is watched."""
    command = "touch ready; sleep 1000"
    owner, (pid, _, warden) = start_owner("asyncio", command, "released", marker, tmp_path, FORKING_OWNER)
    owner.kill()
    owner.wait()
    with anyio.fail_after(60):
        while find_process(pid) or find_process(warden):
            await anyio.sleep(0.02)
    os.kill(int((tmp_path / "fork").read_text()), signal.SIGKILL)
    await nothing_left(marker)


async def test_an_orphaned_process_is_ended_by_pid_and_start_time(anyio_backend_name, marker, tmp_path):
    """Owner, launcher and warden are dead: the journaled pid is enough, but only with its start time."""
    command = "trap '' TERM; sleep 1000 & touch ready; while :; do sleep 1; done"
    owner, (pid, started, warden) = start_owner(anyio_backend_name, command, "released", marker, tmp_path)
    os.kill(owner.pid, signal.SIGSTOP)  # else the owner would end the command itself
    os.waitid(os.P_PID, owner.pid, os.WSTOPPED)  # a signal that was sent may not have stopped the process yet
    for each in (find_process(warden).parent, warden):  # the launcher would end what the warden leaves
        os.kill(each, signal.SIGKILL)
    owner.kill()
    owner.wait()
    assert await end_orphaned_process(pid, started - 1, 0.1) == "not ours"
    assert await end_orphaned_process(pid, None, 0.1) == "not ours"
    assert find_process(pid) is not None
    assert await end_orphaned_process(pid, started, 0.1) == "ended"
    await nothing_left(marker, pid, started)
    assert await end_orphaned_process(pid, started, 0.1) in ("gone", "not ours")


async def test_a_command_whose_warden_is_killed_is_ended_by_its_owner(marker):
    """The result says what is not known: no exit code, no signal, and why."""
    with anyio.fail_after(60):
        async with open_process("sleep 1000", env=os.environ | {"MARKER": marker}) as process:
            await process.release()
            os.kill(find_process(process.pid).parent, signal.SIGKILL)
            finished = await process.wait(30)
    assert (finished.exit_code, finished.signal, finished.timed_out) == (None, None, False)
    assert finished.trouble


async def test_a_stopped_warden_does_not_hang_its_owner(marker):
    """The wait for a report is bounded, and the command is ended without it."""
    with anyio.fail_after(60):
        async with open_process("sleep 1000", env=os.environ | {"MARKER": marker}, grace=0.1) as process:
            process.margin = 0.0
            await process.release()
            warden = find_process(process.pid).parent
            os.kill(warden, signal.SIGSTOP)
            finished = await process.wait(0.1)
    assert finished.trouble
    assert find_process(warden) is None
    await nothing_left(marker)


@pytest.mark.slow
async def test_a_killed_launcher_is_replaced(marker):
    """Earlier commands go on, and another launcher serves the next one."""
    env = os.environ | {"MARKER": marker}
    with anyio.fail_after(60):
        async with open_process("sleep 0.2; echo first", env=env) as first:
            await first.release()
            before = launcher_pid()
            os.kill(before, signal.SIGKILL)
            async with open_process("echo second", env=env) as second:
                await second.release()
                assert (await second.wait(30)).output.text == "second\n"
            finished = await first.wait(30)
            assert (finished.output.text, finished.exit_code, finished.trouble) == ("first\n", 0, None)
    assert launcher_pid() != before


async def test_a_fork_of_ours_has_a_launcher_of_its_own():
    """A forked child does not share its parent's socket, and its end does not end the parent's launcher."""
    async with open_process(["true"]) as process:
        await process.release()
        await process.wait(30)
    program = (
        "import anyio, os\n"
        "from supervisor.tools.process import open_process\n"
        "from supervisor.tools.launcher import launcher_pid\n"
        "async def main():\n"
        "    async with open_process(['true']) as process:\n"
        "        await process.release()\n"
        "        await process.wait(30)\n"
        "    return launcher_pid()\n"
        "first = anyio.run(main)\n"
        "if os.fork() == 0:\n"
        "    raise SystemExit(anyio.run(main) == first)\n"
        "assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\n"
        "assert anyio.run(main) == first\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
