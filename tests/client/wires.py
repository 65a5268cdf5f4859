"""A server of HTTP made by hand: each request gets the bytes that the test says."""

from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple

import anyio
import msgspec

GREETING = {"api": 1, "version": "0.1.0", "store": "s" * 10, "person": "olga", "roles": ["operator"], "cursor": "c.0"}


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def answer(document, status: int = 200, media_type: str = "application/json", **headers: str) -> bytes:
    """Return an answer as it stands on the wire; `document`: bytes as they are, or a value for JSON."""
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def problem(status: int, code: str, **members) -> bytes:
    document = {"title": "t", "status": status, "code": code, "detail": f"detail of {code}", **members}
    return answer(document, status, "application/problem+json")


def greeting(**changed) -> bytes:
    return answer({**GREETING, "now": datetime.now(UTC).isoformat(), **changed})


def stream(*blocks: str) -> bytes:
    """Return an event stream that ends with its connection."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + "".join(blocks).encode()


class Wire:
    """`said`: all requests but greetings. `handle` returns the answer's bytes; none at all cuts the connection, and so
    does an answer that has no length."""

    def __init__(self, handle: Callable[[Request], bytes]) -> None:
        self.handle = handle
        self.greets: Callable[[Request], bytes] = lambda request: greeting()
        self.said: list[Request] = []
        self.connections = 0
        self.url = ""

    async def serve(self, client: anyio.abc.SocketStream) -> None:
        self.connections += 1
        async with client:
            rest = b""
            while True:
                while b"\r\n\r\n" not in rest:
                    try:
                        rest += await client.receive()
                    except (anyio.EndOfStream, anyio.BrokenResourceError):
                        return
                head, _, rest = rest.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}
                method, path, _ = first.split()
                while len(rest) < int(headers.get("content-length", 0)):
                    rest += await client.receive()
                length = int(headers.get("content-length", 0))
                request, rest = Request(method, path, headers, rest[:length]), rest[length:]
                if path == "/api":
                    given = self.greets(request)
                else:
                    self.said.append(request)
                    given = self.handle(request)
                await client.send(given)
                if not given or b"content-length" not in given:
                    return


@asynccontextmanager
async def wired(handle: Callable[[Request], bytes] = lambda request: answer({})):
    """Serve on a loopback address."""
    wire = Wire(handle)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        wire.url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        tasks.start_soon(listener.serve, wire.serve)
        with anyio.fail_after(30):
            yield wire
        tasks.cancel_scope.cancel()
