"""Messages in a stream of bytes: however it is cut, and whatever stands between them."""

import json
import logging
import tracemalloc

import anyio
import msgspec
import pytest
from hypothesis import example, given, strategies as st

from supervisor.agents.acp.json_lines import LOGGED_LINES, LONGEST_BYTES, LineTooLong, Messages, read_message
from supervisor.agents.acp.json_rpc import Disconnected, Peer, RemoteError
from supervisor.tools.finished import Finished
from supervisor.tools.output import Output

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ids = st.integers() | st.text() | st.none()
messages = st.one_of(
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "method": st.text(), "params": values}, optional={"id": ids}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": ids, "result": values}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": ids, "error": values}),
)
garbage = st.one_of(
    st.binary().map(lambda raw: raw.replace(b"\n", b" ").replace(b"{", b"(")),
    values.filter(lambda value: not isinstance(value, dict)).map(lambda value: json.dumps(value).encode()),
    messages.map(lambda message: json.dumps(message).encode()[:-1]),
    st.just(b'{"method": 7}'),
)
lines = st.lists(st.tuples(st.booleans(), messages, garbage), max_size=8)


def stream_of(lines, encode):
    """Return the bytes of a stream of messages and garbage, and its messages."""
    parts = [encode(message) if is_message else other for is_message, message, other in lines]
    return b"".join(part + b"\n" for part in parts), [message for is_message, message, _ in lines if is_message]


def read(chunks, messages=None):
    messages = Messages() if messages is None else messages
    found = [message for chunk in chunks for message in messages.feed(chunk)]
    return [*found, *messages.end()]


@given(lines, st.data())
def test_the_cuts_of_a_stream_change_nothing(lines, data):
    """Chunks end at any byte, also within a character; garbage between messages is skipped."""
    raw, expected = stream_of(lines, lambda message: json.dumps(message, ensure_ascii=False).encode("utf-8"))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)))))
    chunks = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert read(chunks) == expected


@given(lines)
@example([(True, {"jsonrpc": "2.0", "id": 1, "result": "é\0\u2028"}, b"")])
def test_single_bytes_are_a_stream_too(lines):
    """Lines may end in a carriage return, and the last one without a newline."""
    raw, expected = stream_of(lines, lambda message: msgspec.json.encode(message) + b"\r")
    assert read(bytes([byte]) for byte in raw.removesuffix(b"\n")) == expected


@pytest.mark.parametrize(
    ("raw", "result"),
    [
        (b'{"id":1,"result":"cut \\ud83d"}', "cut \ufffd"),
        (b'{"id":1,"result":"cut \xf0\x9f"}', "cut \ufffd"),
        (b'{"id":1,"result":NaN}', "NaN"),
    ],
)
def test_a_message_with_what_is_not_quite_json_is_read(raw, result):
    """A question to us may hold it, and an agent that gets no answer waits for ever."""
    assert read_message(raw) == {"id": 1, "result": result}


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"method":' * 100_000, b"[]", b"7", b"{}", b'{"id": 1}'])
def test_other_lines_are_skipped(raw):
    assert read_message(raw) is None


def test_a_line_may_have_64_mib_and_no_more():
    """The memory for a longer one is bounded by that."""
    frame = b'{"method":"", "params":""}'
    fits = frame[:-2] + b"x" * (LONGEST_BYTES - len(frame)) + frame[-2:]
    (message,) = read(fits[start : start + 65536] for start in range(0, len(fits), 65536))
    assert len(message["params"]) == LONGEST_BYTES - len(frame)
    too_long = Messages(longest=2**20)
    tracemalloc.start()
    with pytest.raises(LineTooLong):
        read((b"x" * 65536 for _ in range(1000)), too_long)
    assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    tracemalloc.stop()


def test_a_flood_of_garbage_does_not_flood_the_log(caplog):
    with caplog.at_level(logging.WARNING):
        assert read([b"garbage\n" * 100_000]) == []
    assert len(caplog.records) == LOGGED_LINES + 1


class Scripted:
    """A process in memory: once it has got as many lines as it waits for, its output comes in these chunks."""

    def __init__(self, expects, chunks):
        self._expects = expects
        self._chunks = iter(chunks)
        self._has_all = anyio.Event()

    async def send(self, data):
        self._expects -= data.count(b"\n")
        if self._expects == 0:
            self._has_all.set()

    async def receive(self):
        await self._has_all.wait()
        await anyio.lowlevel.checkpoint()
        if (chunk := next(self._chunks, None)) is None:
            raise anyio.EndOfStream
        return chunk

    async def wait(self):
        return Finished(exit_code=4, signal=None, duration=0, was_ended=False, timed_out=False, output=Output())

    def stderr_tail(self):
        return "last words"


@given(st.sampled_from(["asyncio", "trio"]), st.integers(1, 6), st.data())
def test_each_request_gets_its_own_answer_or_the_one_end(backend, count, data):
    """Answers in any order, errors among them, some missing, some twice (the first counts), among garbage and cuts."""
    answered = data.draw(st.lists(st.integers(1, count), max_size=2 * count))
    fails = {number: data.draw(st.booleans()) for number in range(1, count + 1)}
    parts = []
    for place, number in enumerate(answered):
        body = {"error": {"code": place, "message": "no"}} if fails[number] else {"result": place}
        parts += [data.draw(garbage), json.dumps({"jsonrpc": "2.0", "id": number, **body}).encode()]
    raw = b"".join(part + b"\n" for part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)))))
    chunks = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    found = {}

    async def main():
        heard = []
        peer = Peer(Scripted(count, chunks), on_request=heard.append, on_notification=heard.append)

        async def one(number):
            try:
                found[number] = await peer.request("echo", None)
            except (RemoteError, Disconnected) as error:
                found[number] = getattr(error, "code", "gone"), getattr(error, "exit_code", None)

        async with anyio.create_task_group() as tasks:
            for number in range(1, count + 1):
                tasks.start_soon(one, number)
                await anyio.wait_all_tasks_blocked()  # the tasks begin in this order, so that the ids are known
            await peer.carry()
        assert heard == []

    anyio.run(main, backend=backend)
    for number, result in found.items():
        place = answered.index(number) if number in answered else None
        assert result == (("gone", 4) if place is None else (place, None) if fails[number] else place)
