"""Event streams (server-sent events) that go on after a break: each event comes once, and none is left out.

Theory: an event has an id, which is a cursor of the store. A stream that breaks is asked for again from the id of the
last event that was handed out whole; the server goes on after it.

Rules
- A stream that is silent for longer than ANSWER_TIMEOUT_SECONDS is lost: the server says something every 15 s.
- It is asked for again after a pause that grows from 0.2 to 5 s. After `reconnect_timeout` without an answer it is
  given up with ServerUnavailable.
- `reset` says that the server does not know the cursor; `end` that there is nothing more to come.
- An event has LARGEST_EVENT_BYTES at most, with or without an end of a line. A server that sends more is no supervisor.
- Giving up waiting for an event (a cancelled `next`) loses nothing: the stream is asked for again.

The parser is our own: it is short, and beats, which are comments, must be seen.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import anyio
import httpx
import msgspec

from supervisor.client.connection import CLOSE_TIMEOUT_SECONDS, Connection, close
from supervisor.core.errors import CursorUnknown, ServerMismatch, ServerUnavailable, SupervisorError

LARGEST_EVENT_BYTES: Final = 32 * 2**20
"""Bytes; twice the largest result of a call."""
_BROKEN: Final = (httpx.TransportError, httpx.DecodingError, httpx.StreamError, ServerUnavailable)


class StreamEvent(NamedTuple):
    name: str
    id: str
    data: str


class Parser:
    """Bytes in any pieces to events. An event ends with an empty line; an incomplete one is ignored. `largest`: the
    most bytes of one event."""

    def __init__(self, largest: int = LARGEST_EVENT_BYTES) -> None:
        self._largest = largest
        self._rest: list[bytes] = []
        """The pieces of a line that has no end yet: joined once, so that a long line is not copied with each piece."""
        self._name = ""
        self._id = ""
        self._data: list[str] = []
        self._length = 0
        """Bytes since the end of the last event."""

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """Return the events that are whole with this piece. Raises UnicodeDecodeError, and OverflowError for an event
        that is too large."""
        first, *others = piece.split(b"\n")
        self._rest.append(first)
        found: list[StreamEvent] = []
        for following in others:
            line, self._rest = b"".join(self._rest), [following]
            self._length += len(line) + 1
            self._check_length()
            if (event := self._take(line.removesuffix(b"\r").decode())) is not None:
                found.append(event)
        self._check_length()
        return found

    def _check_length(self) -> None:
        if self._length + sum(map(len, self._rest)) > self._largest:
            raise OverflowError(f"an event has over {self._largest} bytes")

    def _take(self, line: str) -> StreamEvent | None:
        if not line:
            event = StreamEvent(self._name, self._id, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._length = "", [], 0
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "":
                return StreamEvent("beat", "", "")
            case "event":
                self._name = value
            case "id":
                self._id = value
            case "data":
                self._data.append(value)
        return None


class EventSource:
    """`after`: the cursor to begin after; None: where the server begins. `begins_again`: after a `reset` it goes on
    with what the server sends then, from the beginning."""

    def __init__(
        self,
        connection: Connection,
        path: str,
        query: Mapping[str, Any],
        after: str | None,
        *,
        begins_again: bool = False,
    ) -> None:
        self.cursor = after
        """The id of the last event that was handed out."""
        self._begins_again = begins_again
        self._connection = connection
        self._path = path
        self._query = query
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] = _nothing()
        self._parser = Parser()
        self._found: list[StreamEvent] = []
        self._pauses: Iterator[float] = self._connection.pauses()

    async def open(self) -> None:
        """Ask for the stream. Raises what the server's problem stands for; ServerUnavailable, ServerMismatch."""
        give_up_at = anyio.current_time() + self._connection.reconnect_timeout
        while True:
            try:
                await self.close()
                self._response = await self._connection.open(self._path, self._query, self.cursor)
                self._pieces, self._parser = self._response.aiter_bytes(), Parser()
                return
            except ServerUnavailable as error:
                pause = next(self._pauses)
                if anyio.current_time() + pause > give_up_at:
                    raise ServerUnavailable(str(error), maybe_done=False) from None
            await self._connection.rest(pause)

    async def next(self) -> Any:
        """Return the document of the next event. Raises StopAsyncIteration at the end, and when the supervisor is left;
        CursorUnknown; as `open` does."""
        while True:
            while self._found:
                event = self._found.pop(0)
                match event.name:
                    case "beat":
                        continue
                    case "end":
                        self._found.insert(0, event)  # it stays at its end
                        raise StopAsyncIteration
                    case "reset" if self._begins_again:
                        self.cursor = None
                        continue
                    case "reset":
                        raise CursorUnknown(f"{self._connection.where} does not know cursor {self.cursor}: begin again")
                self.cursor = event.id or self.cursor
                return self._decode(event.data)
            try:
                await self._read_on()
            except SupervisorError:
                if self._connection.is_left:
                    raise StopAsyncIteration from None
                raise

    def _decode(self, data: str) -> Any:
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError:
            raise ServerMismatch(f"{self._connection.where} sends an event that is no JSON") from None

    async def _read_on(self) -> None:
        """Read a piece, or ask for the stream again."""
        piece = None
        with suppress(*_BROKEN), self._connection.waiting():
            piece = await anext(self._pieces, None)
        if piece is None:
            await self._connection.rest(next(self._pauses))
            await self.open()
            return
        try:
            self._found = self._parser.feed(piece)
        except UnicodeDecodeError:
            raise ServerMismatch(f"{self._connection.where} sends a stream that is no text") from None
        except OverflowError as error:
            raise ServerMismatch(f"{self._connection.where} sends what no supervisor sends: {error}") from None
        if self._found:
            self._pauses = self._connection.pauses()

    async def close(self) -> None:
        """Close it; it may be opened again."""
        response, pieces = self._response, self._pieces
        self._response, self._pieces = None, _nothing()
        if response is not None:
            await close(response)
            with suppress(*_BROKEN), anyio.move_on_after(CLOSE_TIMEOUT_SECONDS, shield=True):
                async for _ in pieces:  # httpx's generators end when they find their connection closed, and not before
                    pass


async def _nothing() -> AsyncIterator[bytes]:
    """Give nothing."""
    return
    yield b""
