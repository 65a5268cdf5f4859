"""Processes to talk with: three streams, back-pressure, errors drained, and an end that leaves nothing."""

import json
import os
import signal
import sys
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint
from real_processes import (  # noqa: F401 - fixtures
    new_marker,
    no_descriptor_left,
    process_state,
    processes_with,
    real_backend,
)

from supervisor.core.marker import CALL_MARKER
from supervisor.tools.descendants import find_process, process_table, processes_below
from supervisor.tools.duplex import InputClosed, LaunchFailed, open_duplex
from supervisor.tools.launcher import launcher_pid

pytestmark = pytest.mark.anyio

MIB = 2**20


@pytest.fixture
def talk(marker, tmp_path):
    """Open a process in the test's folder: a shell command, or a sequence. A block that hangs fails."""

    @asynccontextmanager
    async def open_one(command, **options):
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        options = {"cwd": str(tmp_path), "env": {"MARKER": marker}, "mark": "s"} | options
        with anyio.fail_after(60):
            async with open_duplex(argv, **options) as process:
                yield process

    return open_one


async def all_of(process):
    """Return what is left of a process's output."""
    received = bytearray()
    try:
        while True:
            received += await process.receive()
    except anyio.EndOfStream:
        return bytes(received)


async def exists(path):
    while not path.exists():
        await anyio.sleep(0.01)


async def test_input_output_and_errors_are_three_streams(talk):
    async with talk("read line; echo $line; echo oops >&2; exit 3") as process:
        await process.send(b"hello\n")
        assert await all_of(process) == b"hello\n"
        finished = await process.wait()
        assert process.stderr_tail() == "oops\n"
    assert (finished.exit_code, finished.was_ended) == (3, False)
    assert process.finished == finished


async def test_the_end_by_a_signal_is_told(talk):
    async with talk("kill -9 $$") as process:
        assert (await process.wait()).signal == 9


async def test_a_flood_of_errors_blocks_nothing_and_its_end_is_kept(talk):
    """The process writes all of it before its answer; bytes that are no text are replaced."""
    command = "head -c 30000000 /dev/zero >&2; printf 'last \\377 words' >&2; echo done"
    async with talk(command) as process:
        assert await all_of(process) == b"done\n"
        await process.wait()
        assert len(process.stderr_tail()) == 65536
        assert process.stderr_tail().endswith("\0last \ufffd words")


async def test_64_mib_without_a_newline_arrive_whole(talk):
    async with talk([sys.executable, "-c", "import sys; sys.stdout.write('x' * 2**26)"]) as process:
        assert await all_of(process) == b"x" * 64 * MIB
        assert (await process.wait()).exit_code == 0


async def test_a_sender_waits_for_a_process_that_does_not_read(talk, tmp_path):
    """Nor does a second send mix with the first."""
    sent = []
    async with talk("while [ ! -e go ]; do sleep 0.01; done; cat") as process, anyio.create_task_group() as group:

        async def send(letter):
            await process.send(letter * MIB)
            sent.append(letter)

        group.start_soon(send, b"a")
        await wait_all_tasks_blocked()
        group.start_soon(send, b"b")
        await wait_all_tasks_blocked()
        assert sent == []
        (tmp_path / "go").touch()
        received = bytearray()
        while len(received) < 2 * MIB:
            received += await process.receive()
    assert received == b"a" * MIB + b"b" * MIB
    assert sent == [b"a", b"b"]


async def test_a_receiver_is_cancelled_also_while_output_is_there(talk):
    async with talk("yes", stop_timeout=0) as process:
        with anyio.CancelScope() as scope:
            await process.receive()
            scope.cancel()
            await process.receive()
    assert scope.cancelled_caught


async def test_a_process_that_exits_before_it_reads_takes_no_input(talk):
    async with talk("exit 4") as process:
        with pytest.raises(InputClosed):  # the pipe takes less than that
            await process.send(b"x" * MIB)
        assert (await process.wait()).exit_code == 4


async def test_a_blocked_sender_hears_of_the_death(talk):
    async with talk("touch ready; sleep 1000") as process, anyio.create_task_group() as group:

        async def send():
            with pytest.raises(InputClosed):
                await process.send(b"x" * MIB)

        group.start_soon(send)
        await wait_all_tasks_blocked()
        os.kill(process.pid, signal.SIGKILL)


async def test_a_process_that_closes_its_output_lives_until_the_block_is_left(talk):
    async with talk("trap '' TERM; exec >&-; while :; do sleep 0.1; done", stop_timeout=0, grace=0.1) as process:
        with pytest.raises(anyio.EndOfStream):
            await process.receive()
        assert process_state(process.pid) not in ("Z", None)
    assert (process.finished.signal, process.finished.was_ended) == (9, True)


async def test_leaving_lets_a_process_finish_its_work(talk, tmp_path):
    """Its input ends, and what it still writes is read on, more than a pipe holds."""
    async with talk("cat > got; head -c 300000 /dev/zero; echo bye > last; exit 5", stop_timeout=50) as process:
        await process.send(b"whole")
    assert (process.finished.exit_code, process.finished.was_ended) == (5, False)
    assert ((tmp_path / "got").read_text(), (tmp_path / "last").read_text()) == ("whole", "bye\n")


DEAF = "trap '' TERM; setsid sh -c 'trap \"\" TERM; touch ready; while :; do sleep 1; done' & while :; do sleep 1; done"


async def test_leaving_ends_a_deaf_process_and_all_it_started(talk, tmp_path, marker):
    """Also what runs in a session of its own. The end of the input and SIGTERM change nothing."""
    async with talk(DEAF, stop_timeout=0.05, grace=0.1) as process:
        await exists(tmp_path / "ready")
    assert (process.finished.signal, process.finished.was_ended) == (9, True)
    assert processes_with(marker) == []


@pytest.mark.parametrize("stop_timeout", [0, 0.05])
async def test_a_cancelled_block_ends_its_process(talk, tmp_path, marker, stop_timeout):
    """The clean-up is shielded, and the cancellation goes on."""
    with anyio.CancelScope() as scope:
        async with talk(DEAF, stop_timeout=stop_timeout, grace=0.1):
            await exists(tmp_path / "ready")
            scope.cancel()
            await checkpoint()
    assert scope.cancelled_caught
    assert processes_with(marker) == []


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 5, 8, 13, 30])
async def test_a_cancel_during_the_start_leaves_no_process(talk, marker, milliseconds):
    with anyio.move_on_after(milliseconds / 1000):
        async with talk("cat", stop_timeout=0) as process:
            await process.wait()
    assert processes_with(marker) == []


async def test_an_error_of_the_block_stays_as_it_is(talk):
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        async with talk("cat"):
            raise error
    assert caught.value is error


async def test_a_command_that_cannot_be_executed_is_named(talk, tmp_path):
    """So is a folder that is not there."""
    (tmp_path / "plain").touch()
    for command, options, name in (
        (["no-such-agent"], {}, "no-such-agent"),
        (["./plain"], {}, "./plain"),
        (["cat"], {"cwd": str(tmp_path / "gone")}, str(tmp_path / "gone")),
    ):
        with pytest.raises(LaunchFailed) as caught:
            async with talk(command, **options):
                pytest.fail("it has begun")
        assert name in str(caught.value)


async def test_its_environment_has_the_mark_and_none_of_our_secrets(talk, monkeypatch):
    """A4: a deciding command below it refuses."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", "secret")
    monkeypatch.setenv("OURS", "kept")
    async with talk([sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]) as process:
        seen = json.loads(await all_of(process))
    assert (seen[CALL_MARKER], seen["OURS"]) == ("s", "kept")
    assert "SLACK_BOT_TOKEN" not in seen


async def test_a_process_is_identified_before_its_command_begins(talk, tmp_path):
    """If its identity cannot be kept, nothing runs."""
    kept = []

    async def keep(identity):
        assert find_process(identity.pid).started_at == identity.started_at
        assert not (tmp_path / "ran").exists()
        kept.append(identity)

    async with talk("touch ran", at_gate=keep) as process:
        assert [process.identity] == kept
        await process.wait()
    (tmp_path / "ran").unlink()

    async def fail(identity):
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        async with talk("touch ran", at_gate=fail):
            pytest.fail("it has begun")
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")
async def test_a_killed_warden_takes_the_process_along(talk, tmp_path, marker):
    """All waits of the owner end."""
    async with talk(DEAF, stop_timeout=0) as process:
        await exists(tmp_path / "ready")
        os.kill(find_process(process.pid).parent, signal.SIGKILL)
        assert await all_of(process) == b""
        finished = await process.wait()
    assert (finished.exit_code, finished.signal) == (None, None)
    assert finished.trouble
    assert processes_with(marker) == []


async def test_processes_come_and_go_and_leave_no_zombie(talk):
    async with anyio.create_task_group() as group:

        async def one():
            async with talk("cat") as process:
                await process.send(b"x")
                assert await process.receive() == b"x"

        for _ in range(10):
            group.start_soon(one)
    with anyio.fail_after(60):  # a spare warden of other commands, with one process, may stay
        while len(left := processes_below(process_table(), launcher_pid())) > 2 or any(
            each.is_zombie for each in left.values()
        ):
            await anyio.sleep(0.01)
