"""Processes that a command daemonized are ended when its warden is killed or stopped, and the owner is told."""

import os
import signal
import sys
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

from supervisor.tools.background import BackgroundProcess, make_job_folder
from supervisor.tools.descendants import find_process
from supervisor.tools.launcher import launcher_pid
from supervisor.tools.process import open_process

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")]

DAEMON = "setsid -f sh -c 'trap \"\" TERM; touch ready; sleep 1000'; while [ ! -e ready ]; do sleep 0.01; done; "


async def test_a_killed_warden_frees_nothing(env, tmp_path):
    """Processes that left the session and ignore SIGTERM are ended and named, as with a warden; the command, too."""
    finished = await run(DAEMON + "kill -9 $PPID; sleep 1000", env=env, cwd=tmp_path)
    assert (finished.exit_code, finished.signal, finished.timed_out) == (None, None, False)
    assert finished.trouble
    assert "killed" in {each.how for each in finished.left_behind if each.has_escaped}


async def test_a_stopped_warden_is_killed_and_frees_nothing(env, tmp_path):
    """Neither it nor what it guarded stays, and the owner does not wait for the margin of a busy machine."""
    with anyio.fail_after(60):
        async with open_process(DAEMON + "sleep 1000", env=env, cwd=tmp_path, grace=0.1) as process:
            process.margin = 1000.0
            await process.release()
            while not (tmp_path / "ready").exists():
                await anyio.sleep(0.01)
            warden = find_process(process.pid).parent
            os.kill(warden, signal.SIGSTOP)
            finished = await process.wait(0.1)
    assert finished.timed_out
    assert "killed" in {each.how for each in finished.left_behind if each.has_escaped}
    assert find_process(warden) is None


async def test_a_stopped_warden_of_a_command_that_never_began_is_killed(env, tmp_path):
    """The gate stays shut."""
    with anyio.fail_after(60):
        async with open_process("touch ran", env=env, cwd=tmp_path, grace=0.1) as process:
            warden = find_process(process.pid).parent
            os.kill(warden, signal.SIGSTOP)
    assert find_process(warden) is None
    assert not (tmp_path / "ran").exists()


async def test_a_killed_warden_takes_no_other_command_along(env, tmp_path):
    """The children of other wardens are left alone."""
    with anyio.fail_after(60):
        async with open_process("setsid -f sleep 1; sleep 1; echo whole", env=env) as other:
            await other.release()
            assert (await run(DAEMON + "kill -9 $PPID; sleep 1000", env=env, cwd=tmp_path)).trouble
            finished = await other.wait(30)
    assert (finished.exit_code, finished.output.text, finished.trouble) == (0, "whole\n", None)


@pytest.mark.slow
async def test_the_result_says_that_a_killed_launcher_and_warden_free_daemons(env, marker, tmp_path):
    """No process is left that could find them; the owner does not claim that all is ended."""
    command = "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); " + DAEMON + "kill -9 $PPID; sleep 1000"
    finished = await run(command, env=env, cwd=tmp_path)
    assert "may still run" in finished.trouble
    for pid in map(int, (line.split()[0] for line in processes_with(marker))):
        os.kill(pid, signal.SIGKILL)
    with anyio.fail_after(60):
        while processes_with(marker):
            await anyio.sleep(0.02)


async def test_a_job_whose_warden_is_killed_ends_with_it(env, marker, tmp_path):
    """No process could bound its log, or write how it ended; the job is lost."""
    _, folder = make_job_folder(str(tmp_path / "jobs"), "s")
    with anyio.fail_after(60):
        async with BackgroundProcess(DAEMON + "sleep 1000", folder, cwd=str(tmp_path), env=env) as process:
            assert await process.begin()
        while not (tmp_path / "ready").exists():
            await anyio.sleep(0.01)
        os.kill(process.guard, signal.SIGKILL)
        while processes_with(marker):
            await anyio.sleep(0.02)
    assert not (Path(folder) / "end").exists()


async def test_the_launcher_keeps_no_wire_of_a_command_that_is_over(env, marker, tmp_path):
    """The same for a job that has begun: its descriptors do not grow with the number of commands that it served."""

    def held():
        return len(list(Path(f"/proc/{launcher_pid()}/fd").iterdir()))

    await run("true", env=env)
    before = held()
    for number in range(20):
        await run("true", env=env)
        _, folder = make_job_folder(str(tmp_path), str(number))
        async with BackgroundProcess("sleep 1", folder, cwd=str(tmp_path), env=env) as process:
            assert await process.begin()
    with anyio.fail_after(60):
        while held() > before:
            await anyio.sleep(0.02)
        while processes_with(marker):
            await anyio.sleep(0.02)
