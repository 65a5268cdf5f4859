"""Runs hypercorn in this process, on asyncio or trio, as a task of our own task group.

Rules
- hypercorn is never cancelled, since on asyncio a cancellation breaks it. We tell it to stop, and shield it until it
  has stopped.
- We bind the socket first, so that a port in use is reported at once. The programs that we run do not inherit the
  socket.
- The log of hypercorn is dropped: the border logs requests that fail.
- The server speaks only HTTP/1.1. By default hypercorn switches to HTTP/2 or a websocket if a client asks for it, and
  then a connection without requests could stay open for ever.
- After a request, a connection may stay idle for longer than proxies keep their connections (60 s is common). If we
  closed it first, the proxy's next request would be lost, and a chat platform does not repeat a press. A connection
  without any request is closed soon.
"""

import socket
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

import anyio
import sniffio
from hypercorn.config import Config, Sockets
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.utils import wrap_app
from starlette.types import ASGIApp, Receive, Scope, Send

from supervisor.core.errors import InvalidInput, SupervisorError

BACKLOG: Final = 512
STUCK_SECONDS: Final = 60.0
"""Seconds after which the kernel drops a client that does not read. Connections inherit this from the listening socket.
Without it, a connection that we have closed would stay until its client reads the rest."""
GRACE_SECONDS: Final = 3.0
"""Seconds that requests under way may take to end when the server stops."""
FIRST_WORDS_SECONDS: Final = 5.0
"""Seconds after which a connection without any request is closed."""
KEEP_ALIVE_SECONDS: Final = 75.0
"""Seconds that a connection may stay idle after an answer."""
_has_asked: ContextVar[bool] = ContextVar("_has_asked", default=False)
"""Whether this is the context of a request. hypercorn starts the idle time of a connection in the context of the
request that it has just answered."""


class _Config(Config):
    @property
    def keep_alive_timeout(self) -> float:  # type: ignore[override] # each connection reads it when it becomes idle
        return KEEP_ALIVE_SECONDS if _has_asked.get() else FIRST_WORDS_SECONDS


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound and listens. Raises InvalidInput, naming the address."""
    if not 0 <= port <= 65535:  # getaddrinfo would cut it to 16 bits
        raise InvalidInput(f"a port is 0 to 65535, not {port}")
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sys.platform == "linux":
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(STUCK_SECONDS * 1000))
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        raise InvalidInput(f"cannot listen on {host} port {port}: {error.strerror}; choose another --port") from None
    listener.setblocking(False)
    return listener


async def serve_http(app: ASGIApp, listener: socket.socket, stop: Callable[[], Awaitable[object]]) -> None:
    """Serve until `stop` returns, then wait for running requests, for GRACE seconds at most."""
    config = _Config()
    config.include_server_header = False
    config.errorlog = config.accesslog = None
    config.graceful_timeout = GRACE_SECONDS
    config.backlog = BACKLOG
    sockets = Sockets([], [listener], [])
    _stay_with_http_1()

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        _has_asked.set(True)
        await app(scope, receive, send)

    wrapped = wrap_app(asked, config.wsgi_max_body_size, "asgi")  # type: ignore[arg-type] # the same protocol, typed twice

    async def stopped() -> None:
        await stop()

    with anyio.CancelScope(shield=True):
        if sniffio.current_async_library() == "trio":
            from hypercorn.trio.run import worker_serve as serve_on_trio

            await serve_on_trio(wrapped, config, sockets=sockets, shutdown_trigger=stopped)
        else:
            from hypercorn.asyncio.run import worker_serve as serve_on_asyncio

            await serve_on_asyncio(wrapped, config, sockets=sockets, shutdown_trigger=stopped)


def _stay_with_http_1() -> None:
    """Keep hypercorn from changing protocols: it has no setting for that. Raises SupervisorError for a version of
    hypercorn in which this does not work."""
    if not hasattr(H11Protocol, "_check_protocol"):
        raise SupervisorError(
            "this version of hypercorn is not known here; install subagent-supervisor's own choice of it"
        )
    H11Protocol._check_protocol = _stay  # type: ignore[assignment, method-assign] # noqa: SLF001 # there is no setting for it


async def _stay(protocol: H11Protocol, request: Any) -> None:
    """Answer a request as if it had not asked for another protocol."""
    object.__setattr__(request, "headers", [each for each in request.headers if each[0] != b"upgrade"])
