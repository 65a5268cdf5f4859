"""JSON-RPC with real processes: requests in both directions, in any order, until the process is gone."""

import sys
from contextlib import asynccontextmanager

import anyio
import pytest

from supervisor.agents.acp.json_rpc import Disconnected, Peer, RemoteError
from supervisor.tools.duplex import open_duplex
from supervisor.tools.finished import Finished
from supervisor.tools.output import Output

pytestmark = pytest.mark.anyio

# The other side: `read()` returns a message, `write(**message)` sends one.
SIDE = """
import json, os, sys, time
def read(): return json.loads(sys.stdin.readline() or "null")
def write(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n"); sys.stdout.flush()
def answer(message): write(id=message["id"], result=message["params"])
"""
ECHO = "\nwhile (message := read()) is not None: answer(message)\n"


class Heard(list):
    """What a peer was told: requests and notifications."""

    def on_request(self, number, method, params):
        self.append((number, method, params))

    def on_notification(self, method, params):
        self.append((method, params))


@pytest.fixture
def connect(tmp_path):
    """Start a program and talk with it; the peer's `heard` lists what it says of its own accord."""

    @asynccontextmanager
    async def connect(program, *, carries=True, exits_within=2.0):
        heard = Heard()
        argv = [sys.executable, "-c", SIDE + program]
        with anyio.fail_after(60):
            async with open_duplex(argv, cwd=str(tmp_path), env={}, mark="s", stop_timeout=0, grace=0.1) as process:
                peer = Peer(process, on_request=heard.on_request, on_notification=heard.on_notification)
                peer.heard, peer.process, peer.exits_within = heard, process, exits_within
                async with anyio.create_task_group() as tasks:
                    if carries:
                        tasks.start_soon(peer.carry)
                    yield peer
                    tasks.cancel_scope.cancel()

    return connect


async def until(condition):
    while not condition():
        await anyio.sleep(0.01)


async def results_of(peer, count):
    """Make requests at once, each with its own number as its only word; return what became of each."""
    found = {}

    async def one(number):
        try:
            found[number] = await peer.request("echo", number)
        except (RemoteError, Disconnected) as error:
            found[number] = error

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    return found


async def test_answers_in_reverse_find_their_requests(connect):
    async with connect("\nfor message in [read() for _ in range(20)][::-1]: answer(message)\nread()") as peer:
        assert await results_of(peer, 20) == {number: number for number in range(20)}


async def test_an_error_becomes_an_exception_with_code_and_message(connect):
    """Other requests get their results; an error that is not as it should be is an error, too."""
    program = """
for error in ({"code": -32000, "message": "no login", "data": {"how": "log in"}}, "broken"):
    write(id=read()["id"], error=error)
"""
    async with connect(program + ECHO) as peer:
        with pytest.raises(RemoteError) as caught:
            await peer.request("session/new", {})
        assert (caught.value.code, caught.value.message) == (-32000, "no login")
        assert caught.value.data == {"how": "log in"}
        with pytest.raises(RemoteError) as caught:
            await peer.request("session/new", {})
        assert caught.value.code is None
        assert await peer.request("echo", 1) == 1


async def test_a_request_that_is_given_up_leaves_the_others_alone(connect, tmp_path):
    """The other side gets it whole, and its late answer is dropped."""
    async with (
        connect("\nwhile not os.path.exists('go'): time.sleep(0.01)" + ECHO) as peer,
        anyio.create_task_group() as tasks,
    ):
        found = []

        async def keep():
            found.append(await peer.request("echo", "kept"))

        tasks.start_soon(keep)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as others:
                others.start_soon(peer.request, "echo", "x" * 10**6)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        (tmp_path / "go").touch()
        assert await peer.request("echo", "next") == "next"
        await until(lambda: not peer._waiting)
    assert found == ["kept"]


async def test_the_other_side_makes_requests_too(connect):
    """Their ids are its own; answers and refusals reach it, in whichever order we make them."""
    program = """
for number in ("a", 7, None): write(id=number, method="ask", params={"n": number})
write(method="note")
got = [read(), read(), read()]
write(method="got", params=got)
read()
"""
    async with connect(program) as peer:
        await until(lambda: len(peer.heard) == 4)
        assert peer.heard == [(number, "ask", {"n": number}) for number in ("a", 7, None)] + [("note", None)]
        peer.answer(None, [1])
        peer.refuse(7, -32601, "no such method")
        peer.answer("a", None)
        await until(lambda: len(peer.heard) == 5)
        _, got = peer.heard[4]
    assert [(each["id"], each.get("result"), each.get("error")) for each in got] == [
        (None, [1], None),
        (7, None, {"code": -32601, "message": "no such method"}),
        ("a", None, None),
    ]


async def test_notifications_are_heard_before_the_answer_that_follows_them(connect):
    async with connect(
        "\nmessage = read()\nwrite(method='before')\nanswer(message)\nwrite(method='after')\nread()"
    ) as peer:
        order = []
        peer._on_notification = lambda method, params: order.append(method)
        await peer.request("echo", 1, on_answer=lambda: order.append("answer"))
        await until(lambda: len(order) == 3)
    assert order == ["before", "answer", "after"]


async def test_a_death_ends_all_that_waits_with_one_error(connect):
    """It says how the process ended, and its last words; a later request gets the same error."""
    program = "\nfor _ in range(5): read()\nsys.stderr.write('out of cheese\\n')\nos._exit(3)"
    async with connect(program) as peer:
        found = await results_of(peer, 5)
        with pytest.raises(Disconnected) as caught:
            await peer.request("echo", 1)
    assert set(found.values()) == {caught.value}
    assert (caught.value.exit_code, caught.value.signal) == (3, None)
    assert caught.value.last_words == "out of cheese"


async def test_a_signal_is_told(connect):
    async with connect("\nread()\nos.kill(os.getpid(), 9)") as peer:
        with pytest.raises(Disconnected) as caught:
            await peer.request("echo", 1)
    assert (caught.value.exit_code, caught.value.signal) == (None, 9)


class Ended:
    """A process in memory that has ended, and has written an answer before."""

    def __init__(self):
        self._chunks = [b'{"id": 1, "result": "done"}\n']
        self._is_refused = anyio.Event()

    async def send(self, data):
        self._is_refused.set()
        raise anyio.BrokenResourceError

    async def receive(self):
        await self._is_refused.wait()
        await anyio.wait_all_tasks_blocked()
        if not self._chunks:
            raise anyio.EndOfStream
        return self._chunks.pop()

    async def wait(self):
        return Finished(exit_code=0, signal=None, duration=0, was_ended=False, timed_out=False, output=Output())

    def stderr_tail(self):
        return ""


async def test_the_output_of_a_process_before_its_end_counts():
    """It ended while we still sent."""
    peer = Peer(Ended(), on_request=pytest.fail, on_notification=pytest.fail)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(peer.carry)
        assert await peer.request("echo", None) == "done"


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
async def test_a_process_that_closes_a_stream_and_lives_is_disconnected(connect, stream):
    """It cannot answer."""
    program = f"\nread()\nos.close({0 if stream == 'stdin' else 1})\ntime.sleep(1000)"
    async with connect(program, exits_within=0.1) as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(send_on, peer)
        with pytest.raises(Disconnected) as caught:
            await peer.request("echo", 1)
        tasks.cancel_scope.cancel()
    assert (caught.value.exit_code, caught.value.signal) == (None, None)


async def send_on(peer):
    while True:
        peer.notify("note", None)
        await anyio.sleep(0.01)


async def test_a_process_that_reads_nothing_is_disconnected(connect):
    """What waits for it is bounded, and does not hold the reading."""
    async with connect(
        "\nfor n in range(11000): write(id=n, method='ask' * 30)\ntime.sleep(1000)", exits_within=0.1
    ) as peer:
        peer._on_request = lambda number, method, params: peer.refuse(number, -32601, method)
        with pytest.raises(Disconnected):
            await peer.request("echo", 1)


async def test_a_line_that_is_too_long_ends_the_conversation(connect):
    async with connect(
        "\nsys.stdout.write('x' * (2**26 + 1))\nsys.stdout.flush()\ntime.sleep(1000)", exits_within=0.1
    ) as peer:
        with pytest.raises(Disconnected):
            await peer.request("echo", 1)


async def test_64_mib_and_garbage_are_no_trouble(connect):
    program = "\nanswer(read())\nprint('garbage {')\nwrite(method='note', params='x' * (2**26 - 100))" + ECHO
    async with connect(program) as peer:
        assert await peer.request("echo", "ready") == "ready"
        assert await peer.request("echo", "y" * 2**20) == "y" * 2**20
        ((_, params),) = peer.heard
    assert len(params) == 2**26 - 100


async def test_a_cancelled_carrier_leaves_no_request_waiting(connect):
    """Leaving ends the waits that are left."""
    async with connect(ECHO, carries=False) as peer, anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await peer.carry()
        with pytest.raises(Disconnected):
            await peer.request("echo", 1)
        tasks.cancel_scope.cancel()
