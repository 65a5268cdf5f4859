"""What a worker answers over HTTP to the machinery that runs it, if it is given an address.

    /live       200 as long as the process answers
    /ready      200 while it takes work; 503 once it was told to stop, while what runs may end
    /metrics    those of temporalio (telemetry.py), for Prometheus

There is no secret in it, and no change can be asked for. A request that is slow or long is cut off.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from supervisor.core.errors import InvalidInput

PATIENCE_SECONDS: Final = 5.0
"""Seconds that a request may take."""
LONGEST_BYTES: Final = 8192
"""Bytes of the head of a request."""
_STATUS: Final = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


def address_of(text: str) -> tuple[str, int]:
    """Return the host and the port of HOST:PORT. Raises InvalidInput."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidInput(f"probes are answered at HOST:PORT, as in 127.0.0.1:9464, not {text!r:.80}")
    return host.strip("[]"), int(port)


@asynccontextmanager
async def answering(
    address: tuple[str, int], is_ready: Callable[[], bool], metrics: Callable[[], Iterable[str]]
) -> AsyncIterator[None]:
    """Answer probes. Raises InvalidInput if the address cannot be had."""

    def answer(path: str) -> tuple[int, str]:
        match path:
            case "/live":
                return 200, "live\n"
            case "/ready":
                return (200, "ready\n") if is_ready() else (503, "leaving\n")
            case "/metrics":
                return 200, "\n".join([*metrics(), ""])
            case _:
                return 404, "there are /live, /ready and /metrics\n"

    async def serve(stream: SocketStream) -> None:
        with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError):
            async with stream:
                with anyio.move_on_after(PATIENCE_SECONDS):
                    head = await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n", LONGEST_BYTES)
                    target = [*head.split(), b"", b""][1].decode("latin-1").partition("?")[0]
                    status, text = answer(target)
                    body = text.encode()
                    await stream.send(
                        f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: text/plain; version=0.0.4\r\n"
                        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                        + body
                    )

    host, port = address
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        raise InvalidInput(f"probes cannot be answered at {host}:{port}: {error}") from None
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield
        tasks.cancel_scope.cancel()
