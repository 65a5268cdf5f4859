"""Event streams and time, on the virtual clock: what is silent is lost, what stays away is given up."""

import anyio
import httpx
import pytest
from wires import GREETING

from supervisor.client.addresses import read_address
from supervisor.client.connection import Connection
from supervisor.client.streams import EventSource
from supervisor.core.errors import ServerUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


def event(number: int) -> bytes:
    return f"event: journal\nid: s.{number}\ndata: {number}\n\n".encode()


class Silent(httpx.AsyncBaseTransport):
    """A server whose streams say nothing after a while, and which is then away, on whatever clock runs."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.asked: list[float] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api":
            return httpx.Response(200, json={**GREETING, "now": "2026-01-01T00:00:00Z"})
        self.asked.append(anyio.current_time())
        said = self.answers.pop(0) if self.answers else None
        if said is None:
            raise httpx.ConnectError("nobody is there")

        async def body():
            yield said
            await anyio.sleep_forever()

        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body())


async def test_a_stream_without_a_beat_is_asked_for_again_after_40_seconds():
    """And one that stays away is given up after `reconnect_timeout`, with growing pauses until then."""
    silent = Silent(event(1), event(2))
    connection = Connection(read_address("http://127.0.0.1:1"), "token", 60.0, silent)
    source = EventSource(connection, "/events", {}, None)
    await source.open()
    began = anyio.current_time()
    assert [await source.next(), await source.next()] == [1, 2]
    assert 40 < anyio.current_time() - began < 41
    with pytest.raises(ServerUnavailable) as gone:
        await source.next()
    assert not gone.value.maybe_done
    assert 80 + 55 < anyio.current_time() - began < 80 + 70
    await connection.leave()
