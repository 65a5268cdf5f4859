"""Event streams: each event once and none left out, whatever breaks between."""

from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given, strategies as st
from wires import Request, problem, stream, wired

from supervisor.client.addresses import read_address
from supervisor.client.connection import Connection
from supervisor.client.streams import LARGEST_EVENT_BYTES, EventSource, Parser, StreamEvent
from supervisor.core.errors import CursorUnknown, NotAuthenticated, ServerMismatch

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_pauses")]


def event(number: int) -> str:
    return f"event: journal\nid: s.{number}\ndata: {number}\n\n"


EVENTS = "retry: 1000\n\n" + event(1) + ": still here\n\n" + event(2) + "event: end\ndata: {}\n\n"


@given(st.data())
def test_events_are_the_same_in_whatever_pieces_they_come(data):
    """Lines may end as the standard allows for servers: LF or CRLF."""
    wire = EVENTS.replace("\n", data.draw(st.sampled_from(["\n", "\r\n"]))).encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(wire) - 1))))
    parser = Parser()
    found = [each for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True) for each in parser.feed(wire[a:b])]
    beat = StreamEvent("beat", "", "")
    one, two = (StreamEvent("journal", f"s.{number}", str(number)) for number in (1, 2))
    assert [each._replace(id="") if each.name == "end" else each for each in found] == [
        *(one, beat, two, StreamEvent("end", "", "{}"))
    ]


def test_an_event_ends_with_an_empty_line():
    """It was cut, and comes again."""
    assert Parser().feed(event(1)[:-1].encode()) == []


@pytest.mark.parametrize("block", [b"x", b"data: x\n", b"id: x\n", b": x\n"])
def test_an_event_without_end_is_not_kept(block):
    """In one line, or in as many lines as you like: a hostile server does not fill the memory."""
    parser, piece = Parser(largest=2**16), block * (2**14 // len(block))
    with pytest.raises(OverflowError):
        parser.feed(piece * 5)
    assert LARGEST_EVENT_BYTES == 32 * 2**20


def serving(text: str, cut: int):
    """Serve events after Last-Event-ID; the first answer ends after so many bytes."""
    cuts = [cut]

    def handle(request: Request) -> bytes:
        seen = request.headers.get("last-event-id")
        rest = text if seen is None else text[text.index(f"id: {seen}\n") :].partition("\n\n")[2]
        whole = stream(rest)
        return whole[: cuts.pop()] if cuts else whole

    return handle


@asynccontextmanager
async def reading(wire, after: str | None = None, patience: float = 5.0, **options):
    connection = Connection(read_address(wire.url), "token", patience)
    source = EventSource(connection, "/events", {}, after, **options)
    try:
        await connection.greet()
        await source.open()
        yield source
    finally:
        await source.close()
        await connection.leave()


async def all_of(source: EventSource) -> list[int]:
    found = []
    while True:
        try:
            found.append(await source.next())
        except StopAsyncIteration:
            return found


@pytest.mark.slow
async def test_a_stream_that_is_cut_anywhere_gives_each_event_once():
    """Every byte position of the answer, its head included."""
    for cut in range(len(stream(EVENTS)) + 1):
        async with wired(serving(EVENTS, cut)) as wire, reading(wire) as source:
            assert await all_of(source) == [1, 2], cut


async def test_a_stream_goes_on_after_the_cursor_that_it_is_given():
    """And `cursor` is the last event that was handed out."""
    async with wired(serving(EVENTS, 10_000)) as wire, reading(wire, after="s.1") as source:
        assert await source.next() == 2
        assert source.cursor == "s.2"


async def test_giving_up_a_wait_for_an_event_loses_nothing():
    """Also in the middle of one."""
    pieces = [stream(event(1), event(2)[:9])]

    def handle(request: Request) -> bytes:
        return pieces.pop() if pieces else serving(EVENTS, 10_000)(request)

    async with wired(handle) as wire, reading(wire) as source:
        assert await source.next() == 1
        with anyio.move_on_after(0):
            await source.next()
        assert await all_of(source) == [2]


async def test_an_unknown_cursor_is_said_and_a_watch_that_had_none_begins_again():
    """`reset` is an event, since browsers do not come back after an error."""
    reset = "event: reset\nid: s.0\ndata: {}\n\n"
    async with wired(lambda request: stream(reset, EVENTS)) as wire:
        async with reading(wire, after="old.9") as source:
            with pytest.raises(CursorUnknown):
                await source.next()
        async with reading(wire, begins_again=True) as source:
            assert await all_of(source) == [1, 2]


@pytest.mark.parametrize(
    ("given_up", "kind"),
    [
        (problem(401, "not_authenticated"), NotAuthenticated),
        (b"HTTP/1.1 302 F\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n", ServerMismatch),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n", ServerMismatch),
        (stream("event: journal\nid: 1\ndata: {\n\n"), ServerMismatch),
        (stream("event: journal\nid: 1\ndata: ") + b"\xff\n\n", ServerMismatch),
    ],
)
async def test_a_stream_that_is_refused_when_it_comes_back_says_why(given_up, kind):
    """A token that was revoked meanwhile, a login page, what is no stream."""
    answers = [stream(event(1))]
    async with wired(lambda request: answers.pop() if answers else given_up) as wire, reading(wire) as source:
        assert await source.next() == 1
        with pytest.raises(kind):
            await source.next()


async def test_leaving_ends_a_stream():
    """As a local one: without an error."""
    async with wired(lambda request: stream(event(1))) as wire, reading(wire) as source:
        assert await source.next() == 1
        await source._connection.leave()
        assert await all_of(source) == []
