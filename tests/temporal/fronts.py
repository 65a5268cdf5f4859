"""What may stand before a Temporal server: TLS, and a server that knows keys. Both run in this process, on loopback."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import anyio
from anyio.streams.tls import TLSListener
from certificates import Authority
from cryptography import x509
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived


def make_certificates(folder: Path) -> Path:
    """Make those of a server, of a client, and of another authority that is not known: other/ca."""
    authority = Authority(folder)
    authority.make("server", x509.DNSName("temporal.test"), x509.IPAddress(ip_address("127.0.0.1")))
    authority.make("client")
    (folder / "other").mkdir()
    Authority(folder / "other").make("client")
    return folder


@asynccontextmanager
async def tls_front(target: str, certificates: Path, *, wants_client: bool = False) -> AsyncIterator[str]:
    """Speak TLS before a server. Yield the address."""
    host, port = target.split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.set_alpn_protocols(["h2"])
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates / "ca.pem")

    async def serve(near) -> None:
        async with near, await anyio.connect_tcp(host, int(port)) as far, anyio.create_task_group() as tasks:

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
