"""HTTP requests to other services: what is read of an answer, what a log has, and how often a body can be sent."""

import gc
import logging
import socket
import ssl
import threading
from contextlib import contextmanager, suppress

import anyio
import httpx
import pytest

from supervisor.channels.discord.rest import DiscordRest
from supervisor.channels.notices import Hook, Ntfy
from supervisor.channels.telegram.bot_api import BotApi
from supervisor.client.addresses import read_address
from supervisor.client.connection import Connection
from supervisor.system.http_requests import Body, HttpClient
from supervisor.system.logs import write_log

pytestmark = pytest.mark.anyio


class Stuck(httpx.AsyncBaseTransport):
    """Takes the first part of a body, and then waits."""

    async def handle_async_request(self, request):
        async for _ in request.stream:
            await anyio.sleep_forever()
        raise AssertionError("a request without a body")


def made(transport):
    """Iterate over everything here that sends a body."""
    client = HttpClient("https://h", timeout=9.0, transport=transport)
    yield lambda: client.request("POST", "/", b"{}")
    yield lambda: DiscordRest("token", transport=transport).call("POST", "/x", {})
    yield lambda: BotApi("token", transport=transport).call("sendMessage", text="x")
    hook = Hook(url="https://h/x?key=k", secret="whsec_", transport=transport)
    yield lambda: hook._send("POST", "", {}, b"{}")
    connection = Connection(read_address("http://127.0.0.1:1"), "token", 1.0, transport)
    yield lambda: connection._client.send(connection._request("POST", "/x", body={}))


async def test_a_cancelled_request_leaves_no_body_unfinished():
    """trio warns of an asynchronous generator that is collected while it is suspended, and a warning is an error."""
    for request in made(Stuck()):
        with anyio.move_on_after(0.02) as scope:
            await request()
        assert scope.cancelled_caught
    gc.collect()


async def test_a_body_is_sent_again_from_its_beginning():
    body = Body(b"{}")
    assert [[part async for part in body] for _ in range(2)] == [[b"{}"], [b"{}"]]


@contextmanager
def endless():
    """Serve an answer without an end, once; the result has True when the client has closed the connection."""
    listener, is_over = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        connection, _ = listener.accept()
        with connection, suppress(ConnectionError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            while True:
                connection.sendall(b"2710\r\n" + bytes(10000) + b"\r\n")
        is_over.append(True)

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", is_over
        thread.join(60)


@pytest.mark.parametrize("kind", ["client", "hook", "ntfy"])
async def test_an_answer_is_read_up_to_its_bound(kind):
    """It is cut there, and the connection is closed. A notice is taken when its status says so: 1 MiB of it is read."""
    with endless() as (url, is_over):
        match kind:
            case "client":
                client = HttpClient(url, timeout=9.0, largest=25_000)
                reply = await client.request("POST", "/", b"{}")
            case "hook":
                reply = await Hook(url=url, secret="whsec_")._send("POST", "", {}, b"{}")
            case _:
                reply = await Ntfy(topic="alerts", server=url)._send("GET", "/alerts", {})
    assert (len(reply.content), reply.is_whole) == (25_000 if kind == "client" else 1024 * 1024, False)
    assert is_over


async def test_no_log_has_the_path_of_an_address(caplog):
    """A hook's key, a bot's token, a topic: neither in a program that logs everything, nor in a daemon's log."""
    seen = []
    there = httpx.MockTransport(lambda request: seen.append(str(request.url)) or httpx.Response(500))
    with caplog.at_level(logging.DEBUG, "httpx"):
        requests = list(made(there))
        for request in requests[1:4]:
            with pytest.raises(OSError):
                await request()
    assert "HTTP Request: POST https://h" in caplog.text
    assert seen[-2:] == ["https://api.telegram.org/bottoken/sendMessage", "https://h/x?key=k"]
    assert not any(secret in caplog.text for secret in ("key=k", "bottoken"))


async def test_a_daemons_log_has_no_requests(monkeypatch):
    """httpx would write a line for each of them."""
    import structlog

    logger = logging.getLogger("httpx")
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    monkeypatch.setattr(logging.getLogger("supervisor"), "level", logging.NOTSET)
    monkeypatch.setattr(structlog, "configure", lambda **_: None)
    write_log("text")
    assert logger.level == logging.WARNING


@pytest.mark.parametrize(
    ("url", "verifies"),
    [
        ("https://site.example", ssl.CERT_REQUIRED),
        ("HTTPS://site.example", ssl.CERT_REQUIRED),
        ("http://x", ssl.CERT_NONE),
    ],
)
def test_certificates_are_loaded_for_every_service_but_those_of_plain_http(url, verifies):
    transport = HttpClient(url, timeout=1)._client._transport
    assert transport._inner._pool._ssl_context.verify_mode == verifies
