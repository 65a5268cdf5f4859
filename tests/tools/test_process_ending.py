"""Real processes: deadline, cancellation, processes left behind and escapes. Each test checks that none is left."""

import os
import signal
import subprocess
import sys

import anyio
import pytest
from real_processes import (  # noqa: F401 - fixtures
    marked_env,
    new_marker,
    no_descriptor_left,
    process_state,
    processes_with,
    real_backend,
    run,
    run_past_deadline,
)

from supervisor.tools.descendants import find_process
from supervisor.tools.process import open_process

pytestmark = pytest.mark.anyio


async def test_a_command_that_exited_before_the_deadline_has_not_timed_out(env):
    """The command exited before the wait began; when the wait begins, all of its time is over."""
    with anyio.fail_after(60):
        async with open_process("echo hi", env=env) as process:
            await process.release()
            while process_state(process.pid) not in ("Z", None):
                await anyio.sleep(0.005)
            finished = await process.wait(0.0)
    assert (finished.exit_code, finished.timed_out, finished.was_ended) == (0, False, False)
    assert finished.output.text == "hi\n"


async def test_exit_and_deadline_in_one_instant_is_an_exit(env, tmp_path):
    """The warden, which was stopped meanwhile, learns of both at the same time, and checks the process first."""
    command = "touch ready; while [ ! -e go ]; do sleep 0.01; done; exit 3"
    with anyio.fail_after(60):
        async with open_process(command, env=env, cwd=tmp_path) as process, anyio.create_task_group() as group:
            await process.release()
            while not (tmp_path / "ready").exists():
                await anyio.sleep(0.005)
            warden = find_process(process.pid).parent
            os.kill(warden, signal.SIGSTOP)
            while process_state(warden) != "T":
                await anyio.sleep(0.005)
            (tmp_path / "go").touch()
            while process_state(process.pid) != "Z":
                await anyio.sleep(0.005)
            group.start_soon(process.wait, 0.0)
            while not process._is_concluding:
                await anyio.sleep(0.005)
            os.kill(warden, signal.SIGCONT)
    finished = process.finished
    assert (finished.exit_code, finished.timed_out, finished.was_ended) == (3, False, False)


async def test_an_exit_is_seen_when_the_release_wakes_the_warden_too(env):
    """T1: a warden that was stopped learns of release and death in one wake-up, and there is no second one."""
    with anyio.fail_after(20):
        async with open_process("sleep 1000", env=env) as process:
            warden = find_process(process.pid).parent
            os.kill(warden, signal.SIGSTOP)
            while process_state(warden) != "T":
                await anyio.sleep(0.005)
            os.kill(process.pid, signal.SIGKILL)
            while process_state(process.pid) != "Z":
                await anyio.sleep(0.005)
            await process.release()
            os.kill(warden, signal.SIGCONT)
            finished = await process.wait(1000.0)
    assert (finished.signal, finished.was_ended) == (9, False)


async def test_the_deadline_ends_a_command(env, tmp_path):
    """SIGTERM is enough for most commands; earlier output is kept."""
    finished = await run_past_deadline("echo begun; touch ready; sleep 1000", tmp_path, env=env)
    assert (finished.timed_out, finished.was_ended, finished.signal) == (True, True, 15)
    assert finished.output.text == "begun\n"
    assert finished.left_behind == ()


async def test_the_deadline_counts_from_the_release(env):
    """Time at the gate does not count, and a command is not ended before its time."""
    with anyio.fail_after(60):
        async with open_process("sleep 1000", env=env) as process:
            await anyio.sleep(0.2)
            released_at = anyio.current_time()
            await process.release()
            finished = await process.wait(0.3)
            assert anyio.current_time() - released_at >= 0.3
    assert finished.timed_out


async def test_a_command_that_ignores_sigterm_is_killed(env, tmp_path):
    """SIGKILL follows after the grace, for the whole group."""
    command = "trap '' TERM; sleep 1000 & touch ready; while :; do sleep 1; done"
    finished = await run_past_deadline(command, tmp_path, grace=0.2, env=env)
    assert (finished.timed_out, finished.signal, finished.refused_kills) == (True, 9, ())


async def test_output_of_a_command_while_it_ends_is_kept(env, tmp_path):
    """The command uses its grace: it writes more than a pipe holds, and then exits with a code of its own."""
    command = "trap 'head -c 300000 /dev/zero; echo bye; exit 3' TERM; touch ready; while :; do sleep 0.05; done"
    finished = await run_past_deadline(command, tmp_path, grace=10, env=env)
    assert (finished.timed_out, finished.exit_code) == (True, 3)
    assert finished.output.total >= 300_004
    assert finished.output.tail.endswith(b"\0bye\n")


async def test_a_stopped_command_is_ended(env, tmp_path):
    """With SIGTERM alone, it would wait for SIGCONT."""
    finished = await run_past_deadline("touch ready; kill -STOP $$", tmp_path, grace=10, env=env)
    assert (finished.timed_out, finished.signal) == (True, 15)


async def test_a_command_that_closes_its_output_is_waited_for(env):
    """The end of the pipe is not the end of the process."""
    finished = await run("echo hi; exec >&- 2>&-; sleep 0.2; exit 5", env=env)
    assert (finished.exit_code, finished.output.text) == (5, "hi\n")
    assert finished.duration >= 0.2


async def test_a_process_that_a_command_leaves_behind_is_ended_and_named(env):
    """A background process that holds the pipe does not hang us."""
    finished = await run("sleep 1000 & echo $!", env=env)
    (left,) = finished.left_behind
    assert (finished.exit_code, finished.was_ended) == (0, False)
    assert left.pid == int(finished.output.text)
    assert "sleep 1000" in left.command
    assert (left.has_escaped, left.how) == (False, "terminated")


async def test_a_process_left_behind_may_finish_its_output(env):
    """As with the `tee` of a pipe for which the shell does not wait: its output still counts."""
    finished = await run("trap '' TERM; (sleep 0.02; echo late) & echo early", grace=20, env=env)
    assert finished.output.text == "early\nlate\n"


needs_a_subreaper = pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")

DAEMON = (
    "import os, signal, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "open('pid', 'w').write(str(os.getpid()))\n"
    "os.rename('pid', 'ready')\n"
    "time.sleep(1000)\n"
)


@needs_a_subreaper
async def test_an_escaped_process_is_ended_when_its_command_has_exited(env, tmp_path):
    """Processes that left the session are named as escaped."""
    command = "setsid sh -c 'touch ready; exec sleep 1000' & while [ ! -e ready ]; do sleep 0.01; done; echo hi"
    finished = await run(command, env=env, cwd=tmp_path)
    (left,) = [each for each in finished.left_behind if each.has_escaped]
    assert (finished.exit_code, finished.was_ended, finished.output.text) == (0, False, "hi\n")
    assert (left.how, finished.left_behind_count) == ("terminated", 1)


@needs_a_subreaper
async def test_an_escaped_process_is_ended_at_the_deadline(env, tmp_path):
    """setsid does not help it to escape."""
    command = "setsid sh -c 'touch ready; exec sleep 1000' & sleep 1000"
    finished = await run_past_deadline(command, tmp_path, env=env)
    assert [left.how for left in finished.left_behind if left.has_escaped] == ["terminated"]
    assert (finished.timed_out, finished.signal) == (True, 15)


@needs_a_subreaper
@pytest.mark.parametrize("then", ["while [ ! -e ready ]; do sleep 0.01; done", "sleep 1000"])
async def test_a_process_that_daemonizes_twice_is_ended(env, tmp_path, then):
    """A daemon in its own session, without a living parent, that ignores SIGTERM and has an empty environment."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    command = f"env -i {sys.executable} -I daemon.py {env['MARKER']}; {then}"
    finished = await run_past_deadline(command, tmp_path, grace=0.2, env=env)
    (left,) = [each for each in finished.left_behind if each.has_escaped]
    assert (left.pid, left.how) == (int((tmp_path / "ready").read_text()), "killed")


@needs_a_subreaper
async def test_each_of_many_commands_ends_its_own_and_no_other(env, tmp_path):
    """Each orphan is a child of its command's warden; the user's own children are left alone."""
    answers = {}

    async def one(number):
        ready = f"while [ ! -e {number} ]; do sleep 0.02; done"
        command = f"setsid sh -c 'touch {number}; exec sleep 1000' & echo $!; {ready}; exit {number}"
        answers[number] = await run(command, env=env, cwd=tmp_path)

    with subprocess.Popen(["sleep", "1000"], env=env) as own:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number)
        assert own.poll() is None
        own.kill()
        assert own.wait() == -9
    for number, finished in answers.items():
        assert [left.pid for left in finished.left_behind if left.has_escaped] == [int(finished.output.text)]
        assert finished.exit_code == number


async def test_a_watcher_that_fails_ends_the_command(env):
    """`wait` raises its error unchanged, once no process is left."""

    def fail(chunk):
        raise KeyError(chunk)

    with pytest.raises(KeyError):
        await run("echo hi; sleep 1000", on_output=fail, env=env)


async def test_a_cancelled_wait_ends_the_command_and_keeps_its_output(env):
    """The cancellation is re-raised, and the partial result can be read."""
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        async with open_process("echo partial; sleep 1000", env=env, on_output=lambda _: scope.cancel()) as process:
            await process.release()
            try:
                await process.wait(30)
            finally:
                finished = process.finished
    assert scope.cancelled_caught
    assert (finished.was_ended, finished.timed_out, finished.signal) == (True, False, 15)
    assert finished.output.text == "partial\n"


async def test_a_cancelled_release_runs_nothing(env, tmp_path):
    """After a cancel between the commit and the effect, the gate stays shut."""
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        async with open_process("touch ran", env=env, cwd=tmp_path) as process:
            scope.cancel()
            await process.release()
    assert scope.cancelled_caught
    assert not process.is_released
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 5, 8, 13, 30])
async def test_a_cancel_during_the_start_leaves_no_process(env, tmp_path, milliseconds):
    """T7: the cancel may arrive at any point between the fork and the first moments of the command."""
    with anyio.fail_after(60), anyio.move_on_after(milliseconds / 1000):
        async with open_process("echo hi; sleep 1000", env=env, cwd=tmp_path) as process:
            await process.release()
            await process.wait(30)
    assert processes_with(env["MARKER"]) == []


# A warden that has just been told to end its command, when the command exits by itself.
EXITED_MEANWHILE = """
import os, socket, sys, threading
from supervisor.tools.guarded import encode_request
from supervisor.tools.warden import GO, Place, Warden, unpack

ours, theirs = socket.socketpair()
ours.sendall(encode_request(sys.argv[1], "/", os.environ, 0.1))
wakeup, _ = os.pipe()
warden = Warden(Place((os.getpid(), None), wakeup, None, None, is_subreaper=False))
assert warden.take(theirs, [os.open(os.devnull, os.O_WRONLY)])
threading.Thread(target=lambda: ours.recv(65536) and ours.send(GO)).start()  # as soon as it has started
assert warden._open_gate()
os.waitid(os.P_PID, warden._leader, os.WEXITED | os.WNOWAIT)
warden._end(is_ended=True)
warden.report()
received = bytearray(ours.makefile("rb").read())
while (message := unpack(received)) is not None:
    if message[0] == "exited":
        print(message[1], message[3])
"""


@pytest.mark.parametrize("command", ["exit 3", "sleep 1000 & exit 3"])
def test_an_exit_before_the_first_signal_was_not_caused_by_it(command, env):
    """T3: the exit counts as the command's own, whether or not it left a process behind."""
    told = subprocess.run(
        [sys.executable, "-c", EXITED_MEANWHILE, command], env=env, capture_output=True, text=True, check=True
    )
    assert told.stdout == "3 False\n"


# A warden whose command has exited: which messages are in the first piece of what it sends.
REPORTING = """
import os, socket, sys, threading
from supervisor.tools.guarded import encode_request
from supervisor.tools.warden import GO, Place, Warden, unpack

ours, theirs = socket.socketpair()
ours.sendall(encode_request(sys.argv[1], "/", os.environ, 0.1))
wakeup, _ = os.pipe()
warden = Warden(Place((os.getpid(), None), wakeup, None, None, is_subreaper=False))
assert warden.take(theirs, [os.open(os.devnull, os.O_WRONLY)])
threading.Thread(target=lambda: ours.recv(65536) and ours.send(GO)).start()  # as soon as it has started
assert warden._open_gate()
os.waitid(os.P_PID, warden._leader, os.WEXITED | os.WNOWAIT)
assert warden._has_exited()
sent = []
warden._wire = type("Wire", (), {"sendall": lambda self, piece: sent.append(bytearray(piece))})()
warden._end(is_ended=False)
warden._send_reports()
while (message := unpack(sent[0])) is not None:
    print(message[0])
"""


@pytest.mark.parametrize(("command", "told"), [("true", "exited\ndone\n"), ("sleep 1000 & true", "exited\n")])
def test_the_exit_is_told_at_once_and_together_with_the_end_if_nothing_is_left(command, told, env):
    """The owner waits once for a command that leaves no process, and never for the ending of one that does."""
    said = subprocess.run(
        [sys.executable, "-c", REPORTING, command], env=env, capture_output=True, text=True, check=True
    )
    assert said.stdout == told
