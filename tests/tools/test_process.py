"""Real processes: how they begin, end, are cut off, and what they leave behind. After each test nothing is left."""

import errno
import os
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from supervisor.tools.launcher import launcher_pid
from supervisor.tools.process import LaunchFailed, open_process

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """Both backends in real time: real processes know no other."""
    return request.param


def processes_with(marker):
    """Return the lines of `ps` that hold the marker, in the arguments or the environment."""
    listing = subprocess.run(["ps", "axeww"], capture_output=True, check=True).stdout
    return [line for line in listing.splitlines() if marker.encode() in line]


@pytest.fixture
def env():
    """An environment that marks whatever inherits it; at the end nothing may have it."""
    marker = f"marker-{uuid.uuid4().hex}"
    yield {"PATH": os.environ["PATH"], "MARKER": marker}
    assert processes_with(marker) == []


@pytest.fixture(autouse=True)
def no_descriptor_left():
    """No test leaves a descriptor open."""

    def count():
        return len(list(Path("/dev/fd").iterdir()))

    before = count()
    is_first = launcher_pid() is None  # whose socket stays
    yield
    assert count() <= before + is_first


async def run(command, timeout=20.0, **options):
    """Take a command from the gate to its end."""
    with anyio.fail_after(40):
        async with open_process(command, **options) as process:
            await process.release()
            return await process.wait(timeout)


async def run_past_deadline(command, folder, **options):
    """Run a command until it has made a file named `ready`, and let its time be over then."""
    with anyio.fail_after(40):
        async with open_process(command, cwd=folder, **options) as process:
            await process.release()
            while not (folder / "ready").exists():
                await anyio.sleep(0.005)
            return await process.wait(0.0)


async def test_a_string_is_run_by_a_shell(env):
    """Both streams, in the order written, and the exit code."""
    finished = await run("echo one; echo two >&2; echo three; exit 7", env=env)
    assert (finished.output.text, finished.exit_code, finished.signal) == ("one\ntwo\nthree\n", 7, None)
    assert (finished.was_ended, finished.timed_out, finished.left_behind, finished.trouble) == (False, False, (), None)


async def test_a_list_is_run_without_a_shell(env):
    """Arguments arrive as they are, the program is found in the PATH given."""
    finished = await run(["printf", "%s|", "$HOME", "a b", "*", ";"], env=env)
    assert finished.output.head == b"$HOME|a b|*|;|"


async def test_a_signal_is_no_exit_code(env):
    """A command that dies of a signal says which."""
    finished = await run("kill -9 $$", env=env)
    assert (finished.exit_code, finished.signal, finished.was_ended) == (None, 9, False)


async def test_the_environment_arrives_as_it_is(env):
    """Nothing added, nothing dropped, odd names included."""
    env |= {"odd.name": "kept", "EMPTY": ""}
    finished = await run(["env"], env=env)
    assert sorted(finished.output.text.splitlines()) == sorted(f"{name}={value}" for name, value in env.items())


async def test_nothing_of_the_gate_is_visible(env, tmp_path):
    """Three descriptors and an empty stdin, a session of its own, its folder, signals at their defaults."""
    program = (
        "import os, signal, sys\n"
        "inherited = [fd for fd in range(64) if os.path.exists(f'/dev/fd/{fd}') and os.get_inheritable(fd)]\n"
        "print(inherited, sys.stdin.read() == '', os.getcwd(), os.getsid(0) == os.getpid() == os.getpgrp())\n"
        "ignored = [s for s in (1, 2, 3, 15, 17) if signal.getsignal(s) == signal.SIG_IGN]\n"
        "print(ignored, signal.pthread_sigmask(0, ()))\n"
    )
    finished = await run([sys.executable, "-I", "-c", program], env=env, cwd=tmp_path)
    assert finished.output.text == f"[0, 1, 2] True {tmp_path.resolve()} True\n[] set()\n"


async def test_the_command_begins_only_at_its_release(env, tmp_path):
    """The process exists and is identified while the command has not begun."""
    with anyio.fail_after(30):
        async with open_process("echo done; touch ran", env=env, cwd=tmp_path) as process:
            os.kill(process.pid, 0)
            assert process.started_at is not None
            await anyio.sleep(0.05)
            assert not (tmp_path / "ran").exists()
            assert not process.is_released
            await process.release()
            finished = await process.wait(10)
    assert finished.exit_code == 0
    assert (tmp_path / "ran").exists()


async def test_leaving_without_release_runs_nothing(env, tmp_path):
    """The gate stays shut, and the process behind it is gone."""
    with anyio.fail_after(30):
        async with open_process("touch ran", env=env, cwd=tmp_path) as process:
            pid = process.pid
    assert process.finished is None
    assert not (tmp_path / "ran").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_leaving_after_release_ends_the_command(env):
    """An error in the body ends the command, and what there was of it can be read."""
    with anyio.fail_after(30), suppress(KeyError):
        async with open_process("sleep 1000", env=env) as process:
            await process.release()
            raise KeyError
    assert process.finished.was_ended
    assert not process.finished.timed_out


@pytest.mark.parametrize(
    ("command", "options", "number"),
    [
        (["no-such-program"], {}, errno.ENOENT),
        (["./folder/missing"], {}, errno.ENOENT),
        (["./plain"], {}, errno.EACCES),
        (["./orphan-script"], {}, errno.ENOENT),
        (["true"], {"cwd": "gone"}, errno.ENOENT),
        ("true", {"cwd": "plain"}, errno.ENOTDIR),
        (["true", "x" * 200_000], {}, errno.E2BIG),
        ("true " + "x" * 200_000, {}, errno.E2BIG),
        (["true"] + ["x" * 1000] * 9000, {}, errno.E2BIG),
        (["true", "\0"], {}, errno.EINVAL),
        (["true", "\ud800"], {}, errno.EINVAL),
        ([], {}, errno.EINVAL),
    ],
    ids=range(12),  # pytest exports a test's name, and these arguments are too long for an environment
)
async def test_a_launch_failure_is_told_from_an_exit_code(env, tmp_path, monkeypatch, command, options, number):
    """What cannot be started raises, with the reason."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("")
    (tmp_path / "orphan-script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "orphan-script").chmod(0o755)
    with pytest.raises(LaunchFailed) as raised:
        await run(command, env=env, **options)
    assert raised.value.errno == number


@pytest.mark.parametrize("bad", [{"A=B": "x"}, {"": "x"}, {"A": "\0"}])
async def test_an_impossible_environment_is_a_launch_failure(env, bad):
    """It is refused before anything is started."""
    with pytest.raises(LaunchFailed) as raised:
        await run(["true"], env=env | bad)
    assert raised.value.errno == errno.EINVAL


@pytest.mark.parametrize("code", [125, 126, 127])
async def test_the_exit_codes_of_shells_are_the_commands_own(env, code):
    """A command may exit as shells do when they find nothing: it ran."""
    assert (await run(f"exit {code}", env=env)).exit_code == code


async def test_a_command_that_exits_at_the_deadline_has_not_timed_out(env):
    """Exit and deadline in one instant: the process is asked first."""
    with anyio.fail_after(30):
        async with open_process("echo hi", env=env) as process:
            await process.release()
            while process_state(process.pid) not in ("Z", None):
                await anyio.sleep(0.005)
            finished = await process.wait(0.0)
    assert (finished.exit_code, finished.timed_out, finished.was_ended) == (0, False, False)
    assert finished.output.text == "hi\n"


def process_state(pid):
    """Return the state letter of a process, None if it is gone."""
    listing = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listing.stdout.strip()[:1] or None


async def test_the_deadline_ends_a_command(env, tmp_path):
    """SIGTERM is enough for most; what was written before is kept."""
    finished = await run_past_deadline("echo begun; touch ready; sleep 1000", tmp_path, env=env)
    assert (finished.timed_out, finished.was_ended, finished.signal) == (True, True, 15)
    assert finished.output.text == "begun\n"
    assert finished.left_behind == ()


async def test_the_deadline_counts_from_the_release(env):
    """Time at the gate is not the command's; a command is not ended before its time."""
    with anyio.fail_after(30):
        async with open_process("sleep 1000", env=env) as process:
            await anyio.sleep(0.2)
            released_at = anyio.current_time()
            await process.release()
            finished = await process.wait(0.3)
            assert anyio.current_time() - released_at >= 0.3
    assert finished.timed_out


async def test_a_command_that_ignores_sigterm_is_killed(env, tmp_path):
    """After the grace comes SIGKILL, for the whole group."""
    command = "trap '' TERM; sleep 1000 & touch ready; while :; do sleep 1; done"
    finished = await run_past_deadline(command, tmp_path, grace=0.2, env=env)
    assert (finished.timed_out, finished.signal, finished.refused_kills) == (True, 9, ())


async def test_what_a_command_writes_while_it_ends_is_kept(env, tmp_path):
    """The grace is there to be used: more than a pipe holds, then an exit code of its own."""
    command = "trap 'head -c 300000 /dev/zero; echo bye; exit 3' TERM; touch ready; while :; do sleep 0.05; done"
    finished = await run_past_deadline(command, tmp_path, grace=10, env=env)
    assert (finished.timed_out, finished.exit_code) == (True, 3)
    assert finished.output.total >= 300_004
    assert finished.output.tail.endswith(b"\0bye\n")


async def test_a_stopped_command_is_ended(env, tmp_path):
    """SIGTERM alone would wait for SIGCONT."""
    finished = await run_past_deadline("touch ready; kill -STOP $$", tmp_path, grace=10, env=env)
    assert (finished.timed_out, finished.signal) == (True, 15)


async def test_a_command_that_closes_its_output_is_waited_for(env):
    """The end of the pipe is not the end of the process."""
    finished = await run("echo hi; exec >&- 2>&-; sleep 0.2; exit 5", env=env)
    assert (finished.exit_code, finished.output.text) == (5, "hi\n")
    assert finished.duration >= 0.2


async def test_what_a_command_leaves_behind_is_ended_and_named(env):
    """A background process that holds the pipe hangs nobody."""
    finished = await run("sleep 1000 & echo $!", env=env)
    (left,) = finished.left_behind
    assert (finished.exit_code, finished.was_ended) == (0, False)
    assert left.pid == int(finished.output.text)
    assert "sleep 1000" in left.command
    assert (left.has_escaped, left.how) == (False, "terminated")


async def test_who_is_left_behind_may_finish_its_words(env):
    """The `tee` of a pipe that the shell does not wait for: its output still counts."""
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
async def test_what_left_the_session_is_ended_when_its_command_has_exited(env, tmp_path):
    """Escaped processes are named as such."""
    command = "setsid sh -c 'touch ready; exec sleep 1000' & while [ ! -e ready ]; do sleep 0.01; done; echo hi"
    finished = await run(command, env=env, cwd=tmp_path)
    (left,) = finished.escaped
    assert (finished.exit_code, finished.was_ended, finished.output.text) == (0, False, "hi\n")
    assert (left.how, finished.left_behind_count) == ("terminated", 1)


@needs_a_subreaper
async def test_what_left_the_session_is_ended_at_the_deadline(env, tmp_path):
    """setsid is no way out."""
    command = "setsid sh -c 'touch ready; exec sleep 1000' & sleep 1000"
    finished = await run_past_deadline(command, tmp_path, env=env)
    assert [left.how for left in finished.escaped] == ["terminated"]
    assert (finished.timed_out, finished.signal) == (True, 15)


@needs_a_subreaper
@pytest.mark.parametrize("then", ["while [ ! -e ready ]; do sleep 0.01; done", "sleep 1000"])
async def test_daemonizing_twice_is_no_way_out(env, tmp_path, then):
    """A daemon in a session of its own, without a living parent, deaf to SIGTERM, its environment wiped."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    command = f"env -i {sys.executable} -I daemon.py {env['MARKER']}; {then}"
    finished = await run_past_deadline(command, tmp_path, grace=0.2, env=env)
    (left,) = finished.escaped
    assert (left.pid, left.how) == (int((tmp_path / "ready").read_text()), "killed")


@needs_a_subreaper
async def test_each_of_many_commands_ends_its_own_and_no_other(env, tmp_path):
    """Orphans are told apart by the warden they fall to; the user's own children are nobody's business."""
    own = subprocess.Popen(["sleep", "1000"])
    answers = {}

    async def one(number):
        ready = f"while [ ! -e {number} ]; do sleep 0.02; done"
        command = f"setsid sh -c 'touch {number}; exec sleep 1000' & echo $!; {ready}; exit {number}"
        answers[number] = await run(command, env=env, cwd=tmp_path)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(one, number)
    for number, finished in answers.items():
        assert [left.pid for left in finished.escaped] == [int(finished.output.text)]
        assert finished.exit_code == number
    assert own.poll() is None
    own.kill()
    assert own.wait() == -9


async def test_endless_output_is_bounded(env):
    """`yes` fills no memory, and its deadline holds."""
    assert (await run("yes", timeout=0.2, env=env)).timed_out
    sizes = []
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        enough = lambda chunk: sizes.append(len(chunk)) or (sum(sizes) > 1_000_000 and scope.cancel())  # noqa: E731
        async with open_process("yes", output_limit=1000, env=env, on_output=enough) as process:
            await process.release()
            await process.wait(20)
    output = process.finished.output
    assert (output.head, len(output.tail)) == (b"y\n" * 250, 500)
    assert output.total == sum(sizes) > 1_000_000


async def test_a_hundred_mebibytes_are_counted_and_cut(env):
    """Head, tail and the true count."""
    command = "echo first; head -c 104857600 /dev/zero; echo last"
    finished = await run(command, output_limit=100, env=env)
    assert finished.exit_code == 0
    assert finished.output.total == 6 + 104857600 + 5
    assert finished.output.head == b"first\n" + b"\0" * 44
    assert finished.output.tail == b"\0" * 45 + b"last\n"


async def test_binary_output_survives(env):
    """Bytes are kept as they are beside the text."""
    finished = await run(r"printf '\377\000\200abc\303\244'", env=env)
    assert finished.output.head == b"\xff\x00\x80abc\xc3\xa4"
    assert not finished.output.is_text
    assert finished.output.text == "\\xff\0\\x80abcä"


async def test_a_watcher_sees_output_as_it_comes(env):
    """Signs of life, which do not move the deadline."""
    seen = []
    finished = await run("while :; do echo tick; sleep 0.02; done", timeout=0.5, on_output=seen.append, env=env)
    assert finished.timed_out
    assert b"".join(seen) == finished.output.head


async def test_a_watcher_that_fails_ends_the_command(env):
    """Its error is raised as it is, once nothing is left."""

    def fail(chunk):
        raise KeyError(chunk)

    with pytest.raises(KeyError):
        await run("echo hi; sleep 1000", on_output=fail, env=env)


async def test_a_cancelled_wait_ends_the_command_and_keeps_its_output(env):
    """The cancellation goes on, the partial result can be read."""
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with open_process("echo partial; sleep 1000", env=env, on_output=lambda _: scope.cancel()) as process:
            await process.release()
            try:
                await process.wait(20)
            finally:
                finished = process.finished
    assert scope.cancelled_caught
    assert (finished.was_ended, finished.timed_out, finished.signal) == (True, False, 15)
    assert finished.output.text == "partial\n"


async def test_a_cancelled_release_runs_nothing(env, tmp_path):
    """A cancel between the commit and the effect: the gate stays shut."""
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with open_process("touch ran", env=env, cwd=tmp_path) as process:
            scope.cancel()
            await process.release()
    assert scope.cancelled_caught
    assert not process.is_released
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 5, 8, 13, 30])
async def test_a_cancel_during_the_start_leaves_no_process(env, tmp_path, milliseconds):
    """Wherever it lands between the fork and the first moments of the command."""
    with anyio.fail_after(30), anyio.move_on_after(milliseconds / 1000):
        async with open_process("echo hi; sleep 1000", env=env, cwd=tmp_path) as process:
            await process.release()
            await process.wait(20)
    assert processes_with(env["MARKER"]) == []


async def test_a_second_wait_gives_the_same_answer(env):
    """What has ended has ended."""
    with anyio.fail_after(30):
        async with open_process("exit 3", env=env) as process:
            with pytest.raises(RuntimeError):
                await process.wait(1)
            await process.release()
            with pytest.raises(RuntimeError):
                await process.release()
            first = await process.wait(10)
            assert await process.wait(10) is first


async def test_hundreds_at_once_are_all_served(env):
    """More starts in one instant than the launcher's socket holds."""
    codes = []

    async def one():
        async with open_process(["true"], env=env) as process:
            await process.release()
            codes.append((await process.wait(60)).exit_code)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            for _ in range(300):
                group.start_soon(one)
    assert codes == [0] * 300
