"""Real processes: how they begin and run, and what is kept of their output. Each test checks that none is left."""

import errno
import os
import sys
from contextlib import suppress

import anyio
import pytest
from real_processes import marked_env, new_marker, no_descriptor_left, real_backend, run  # noqa: F401 - fixtures

from supervisor.tools.process import LaunchFailed, open_process

pytestmark = pytest.mark.anyio


async def test_a_string_is_run_by_a_shell(env):
    """Both streams arrive in the order written, with the exit code."""
    finished = await run("echo one; echo two >&2; echo three; exit 7", env=env)
    assert (finished.output.text, finished.exit_code, finished.signal) == ("one\ntwo\nthree\n", 7, None)
    assert (finished.was_ended, finished.timed_out, finished.left_behind, finished.trouble) == (False, False, (), None)


async def test_a_list_is_run_without_a_shell(env):
    """Arguments arrive unchanged, and the program is found in the given PATH."""
    finished = await run(["printf", "%s|", "$HOME", "a b", "*", ";"], env=env)
    assert finished.output.head == b"$HOME|a b|*|;|"


async def test_a_signal_is_no_exit_code(env):
    """For a command that dies of a signal, the result names the signal."""
    finished = await run("kill -9 $$", env=env)
    assert (finished.exit_code, finished.signal, finished.was_ended) == (None, 9, False)


async def test_the_environment_arrives_unchanged(env):
    """Nothing added, nothing dropped, odd names included."""
    env |= {"odd.name": "kept", "EMPTY": ""}
    finished = await run(["env"], env=env)
    assert sorted(finished.output.text.splitlines()) == sorted(f"{name}={value}" for name, value in env.items())


async def test_the_command_sees_nothing_of_the_gate(env, tmp_path):
    """It has three descriptors, an empty stdin, its own session, its folder, and default signal handlers."""
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
    """Before the release the process exists and is identified, and the command has not begun."""
    with anyio.fail_after(60):
        async with open_process("echo done; touch ran", env=env, cwd=tmp_path) as process:
            os.kill(process.pid, 0)
            assert process.started_at is not None
            await anyio.sleep(0.05)
            assert not (tmp_path / "ran").exists()
            assert not process.is_released
            await process.release()
            finished = await process.wait(30)
    assert finished.exit_code == 0
    assert (tmp_path / "ran").exists()


async def test_leaving_without_release_runs_nothing(env, tmp_path):
    """The gate stays shut, and the process that waited there is gone."""
    with anyio.fail_after(60):
        async with open_process("touch ran", env=env, cwd=tmp_path) as process:
            pid = process.pid
    assert process.finished is None
    assert not (tmp_path / "ran").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_leaving_after_release_ends_the_command(env):
    """An error in the body ends the command; `finished` has what it wrote."""
    with anyio.fail_after(60), suppress(KeyError):
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
async def test_a_launch_failure_differs_from_an_exit_code(env, tmp_path, monkeypatch, command, options, number):
    """A command that cannot be started raises, with the reason."""
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
    """A command may exit with the code that shells use for "not found": it ran."""
    assert (await run(f"exit {code}", env=env)).exit_code == code


async def test_endless_output_is_bounded(env):
    """`yes` does not fill the memory, and its deadline holds."""
    assert (await run("yes", timeout=0.2, env=env)).timed_out
    sizes = []
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        enough = lambda chunk: sizes.append(len(chunk)) or (sum(sizes) > 1_000_000 and scope.cancel())  # noqa: E731
        async with open_process("yes", output_limit=1000, env=env, on_output=enough) as process:
            await process.release()
            await process.wait(30)
    output = process.finished.output
    assert (output.head, len(output.tail)) == (b"y\n" * 250, 500)
    assert output.total == sum(sizes) > 1_000_000


async def test_a_hundred_mebibytes_are_counted_and_cut(env):
    """Head, tail and the exact count are kept."""
    command = "echo first; head -c 104857600 /dev/zero; echo last"
    finished = await run(command, output_limit=100, env=env)
    assert finished.exit_code == 0
    assert finished.output.total == 6 + 104857600 + 5
    assert finished.output.head == b"first\n" + b"\0" * 44
    assert finished.output.tail == b"\0" * 45 + b"last\n"


async def test_binary_output_is_kept(env):
    """The bytes are kept unchanged next to the text."""
    finished = await run(r"printf '\377\000\200abc\303\244'", env=env)
    assert finished.output.head == b"\xff\x00\x80abc\xc3\xa4"
    assert not finished.output.is_text
    assert finished.output.text == "\\xff\0\\x80abcä"


async def test_a_watcher_sees_output_as_it_comes(env):
    """Output is a sign of life, and does not move the deadline."""
    seen = []
    finished = await run("while :; do echo tick; sleep 0.02; done", timeout=0.5, on_output=seen.append, env=env)
    assert finished.timed_out
    assert b"".join(seen) == finished.output.head


async def test_a_second_wait_gives_the_same_answer(env):
    """The end does not change."""
    with anyio.fail_after(60):
        async with open_process("exit 3", env=env) as process:
            with pytest.raises(RuntimeError):
                await process.wait(1)
            await process.release()
            with pytest.raises(RuntimeError):
                await process.release()
            first = await process.wait(30)
            assert await process.wait(30) is first


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
