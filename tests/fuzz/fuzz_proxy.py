"""A proxy between the processes of a case and the server, which cuts connections, also in the midst of a COMMIT.

cut         breaks all connections
before      breaks the next connection that sends COMMIT, before it reaches the server
after       the same when it has reached the server, so that its answer is lost
"""

import asyncio
import os
import re
import signal
from typing import Any

_COMMIT = re.compile(rb"(piece[0-9]+)\x00COMMIT\x00")
"""The name under which the store has prepared it."""


class Proxy:
    """A process of its own, since the others are forks of one that runs no thread."""

    def __init__(self, port: int, log: str) -> None:
        hear, self._tell = os.pipe()
        told, tell = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
                asyncio.run(_serve(port, hear, tell))
            finally:
                os._exit(0)
        os.close(hear)
        os.close(tell)
        self.port = int(os.read(told, 10))
        os.close(told)

    def do(self, what: str) -> None:
        os.write(self._tell, f"{what}\n".encode())

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._tell)


async def _serve(port: int, hear: int, tell: int) -> None:
    open_ones: set[asyncio.StreamWriter] = set()
    armed: list[str] = []

    def obey() -> None:
        for what in os.read(hear, 1000).decode().split():
            if what == "cut":
                for each in list(open_ones):
                    each.transport.abort()
            else:
                armed.append(what)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        both, deaf = (writer, to_writer), asyncio.Event()
        open_ones.update(both)
        await asyncio.gather(_pump(reader, to_writer, both, deaf, armed), _pump(to_reader, writer, both, deaf, None))
        open_ones.difference_update(both)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    asyncio.get_running_loop().add_reader(hear, obey)
    os.write(tell, str(server.sockets[0].getsockname()[1]).encode())
    await server.serve_forever()


async def _pump(reader: Any, writer: Any, both: Any, deaf: asyncio.Event, armed: list[str] | None) -> None:
    """Pass on what comes. `deaf`: the client hears no answer any more."""
    prepared: bytes | None = None
    try:
        while data := await reader.read(65536):
            if found := _COMMIT.search(data):
                prepared = found[1]
            commits = b"\0COMMIT\0" in data or (prepared is not None and b"\0" + prepared + b"\0" in data)
            how = armed.pop() if armed and commits else None
            if how is not None:
                deaf.set()
            if how != "before" and not (armed is None and deaf.is_set()):
                writer.write(data)
                await writer.drain()
            if how is not None:
                await asyncio.sleep(0.02)
                break
    except OSError:
        pass
    for each in both:
        each.transport.abort()
