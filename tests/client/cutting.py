"""A proxy that cuts the connection after so many bytes, in whichever direction they go."""

import ssl
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener


class Proxy:
    """Passes everything on until it is told to cut; then the connection of that byte ends on both sides, and later
    ones are whole. `passed`: bytes since then."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._left: int | None = None
        self.passed = 0
        self.url = ""

    def cut_after(self, count: int | None) -> None:
        self._left, self.passed = count, 0

    async def serve(self, client: anyio.abc.SocketStream) -> None:
        server = await anyio.connect_tcp("127.0.0.1", self._port)
        async with client, server, anyio.create_task_group() as tasks:

            async def pass_on(source: ByteStream, sink: ByteStream) -> None:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    while await self._pass_one(source, sink):
                        pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(pass_on, client, server)
            tasks.start_soon(pass_on, server, client)

    async def _pass_one(self, source: ByteStream, sink: ByteStream) -> bool:
        """Pass on what comes next; return whether the connection goes on."""
        try:
            piece = await source.receive()
        except anyio.EndOfStream:
            return False
        self.passed += len(piece)
        if self._left is not None and len(piece) > self._left:
            left, self._left = self._left, None
            if left:
                await sink.send(piece[:left])
            return False
        if self._left is not None:
            self._left -= len(piece)
        await sink.send(piece)
        return True


@asynccontextmanager
async def proxied(url: str, certificate: Path | None = None):
    """Stand before a server; with a certificate it speaks https."""
    proxy = Proxy(int(url.rpartition(":")[2]))
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    address = f"127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
    proxy.url = f"http://{address}"
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        listener, proxy.url = TLSListener(listener, context, standard_compatible=False), f"https://{address}"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.serve)
        yield proxy
        tasks.cancel_scope.cancel()
