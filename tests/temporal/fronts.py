"""What may stand before a Temporal server: TLS, a server that knows keys, and a network that loses an answer; and an
error of its own.

All of them run in this process, on loopback.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSAttribute, TLSListener
from certificates import Authority
from cryptography import x509
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from hpack import Decoder
from temporalio.api.common.v1 import GrpcStatus
from temporalio.service import RPCError, RPCStatusCode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS = 0, 1
"""Kinds of frames of HTTP/2."""


def make_authority(folder: Path) -> Authority:
    """Make its certificate, those of a server, and of a client."""
    authority = Authority(folder)
    authority.make("server", x509.DNSName("temporal.test"), x509.IPAddress(ip_address("127.0.0.1")))
    authority.make("client")
    return authority


def make_certificates(folder: Path) -> Path:
    """Make those of an authority, and of another one that is not known: other/ca."""
    make_authority(folder)
    (folder / "other").mkdir()
    Authority(folder / "other").make("client")
    return folder


@asynccontextmanager
async def tls_front(
    target: str,
    certificates: Path,
    *,
    wants_client: bool = False,
    seen: dict[str, list[anyio.CancelScope]] | None = None,
) -> AsyncIterator[str]:
    """Speak TLS before a server. Yield the address. `seen`: by the serial number of a client's certificate, what
    cuts its connections off."""
    host, port = target.split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.set_alpn_protocols(["h2"])
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates / "ca.pem")

    async def serve(near) -> None:
        async with near, await anyio.connect_tcp(host, int(port)) as far, anyio.create_task_group() as tasks:
            if seen is not None:
                seen.setdefault(near.extra(TLSAttribute.peer_certificate)["serialNumber"], []).append(
                    tasks.cancel_scope
                )

            async def pump(source, sink) -> None:
                try:
                    while True:
                        await sink.send(await source.receive())
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    tasks.cancel_scope.cancel()

            tasks.start_soon(pump, near, far)
            await pump(far, near)

    plain = await anyio.create_tcp_listener(local_host="127.0.0.1")
    listener = TLSListener(plain, context, standard_compatible=False)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"127.0.0.1:{plain.extra(anyio.abc.SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def refusing_front(status: int, seen: list[dict[str, str]]) -> AsyncIterator[str]:
    """A server that answers every request with a status of gRPC, and keeps its headers. Yield the address."""

    async def serve(stream) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        async with stream:
            try:
                while True:
                    await stream.send(connection.data_to_send())
                    for event in connection.receive_data(await stream.receive()):
                        if isinstance(event, RequestReceived):
                            seen.append(dict(event.headers))
                            answer = [(":status", "200"), ("content-type", "application/grpc")]
                            answer += [("grpc-status", str(status)), ("grpc-message", "no")]
                            connection.send_headers(event.stream_id, answer, end_stream=True)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


def missing(message: str, failure) -> RPCError:
    """Return the error of a server that has not found something."""
    status = GrpcStatus(code=RPCStatusCode.NOT_FOUND, message=message)
    if failure is not None:
        status.details.add().Pack(failure)
    return RPCError(message, RPCStatusCode.NOT_FOUND, status.SerializeToString())


class LosingFront:
    """Stands before a server, and loses the first answer to a request: the server has done it, and then it is gone.
    `is_back`: new connections come through again at once. `seen`: the names of all requests, in their order."""

    def __init__(self, request: str, *, is_back: bool) -> None:
        self._path = f"/{request}"
        self.is_back = is_back
        self.seen: list[str] = []
        self.has_lost = False

    @asynccontextmanager
    async def serving(self, target: str) -> AsyncIterator[str]:
        """Serve before a server. Yield the address."""
        self._target = target.split(":")
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
            tasks.cancel_scope.cancel()

    async def _serve(self, near) -> None:
        async with near:
            if self.has_lost and not self.is_back:
                return
            async with await anyio.connect_tcp(*self._target) as far, anyio.create_task_group() as tasks:
                asked: set[int] = set()
                tasks.start_soon(self._forward, near, far, asked, tasks.cancel_scope)
                with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                    source = BufferedByteReceiveStream(far)
                    while True:
                        kind, stream, whole, _ = await _frame(source)
                        if kind in (DATA, HEADERS) and stream in asked and not self.has_lost:
                            self.has_lost = True
                            break
                        await near.send(whole)
                tasks.cancel_scope.cancel()

    async def _forward(self, near, far, asked: set[int], scope: anyio.CancelScope) -> None:
        """Forward requests, and note the streams of those that lose their answers."""
        source, decoder = BufferedByteReceiveStream(near), Decoder()
        with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            await far.send(await source.receive_exactly(len(PREFACE)))
            while True:
                kind, stream, whole, content = await _frame(source)
                if kind == HEADERS:
                    path = dict(decoder.decode(content))[":path"]
                    self.seen.append(path.rpartition("/")[2])
                    if path.endswith(self._path):
                        asked.add(stream)
                await far.send(whole)
        scope.cancel()


async def _frame(source: BufferedByteReceiveStream) -> tuple[int, int, bytes, bytes]:
    """Return the kind and the stream of a frame of HTTP/2, all of it, and its content."""
    head = await source.receive_exactly(9)
    content = await source.receive_exactly(int.from_bytes(head[:3]))
    return head[3], int.from_bytes(head[5:]), head + content, content
