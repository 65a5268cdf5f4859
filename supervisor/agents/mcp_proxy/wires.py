"""The two ends of a proxy: our own standard streams for the client, and a server that is a process or an address.

Rules
- A server that is a process runs under a warden: it ends with us, however we end. Its standard error is ours.
- It gets the environment that the client gave us for it, also what channels of ours would read there: a server for
  Slack needs a token, too. Only the variables of this package are left out. None is logged or journaled.
- What it runs cannot decide (A4).
- A line that has begun is written to its end, unless the client reads no more.
"""

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio

from supervisor.agents.acp.json_lines import LineTooLong, Message, Wire
from supervisor.agents.own_streams import OwnStreams, own_streams
from supervisor.system.logs import FactLog
from supervisor.tools.duplex import LaunchFailed, open_duplex

__all__ = ["LaunchFailed", "client_wire", "open_process"]

log = FactLog(__name__)

OURS: Final = "SUPERVISOR_"  # the beginning of our variables
END_OF_INPUT_SECONDS: Final = 2.0  # seconds that a server has to exit when its input has ended


class _Whole(OwnStreams):
    async def _write(self, left: memoryview) -> None:
        with anyio.CancelScope(shield=True):
            await super()._write(left)


class Lines(Wire):
    """Messages, a line each. A line that is too long ends them."""

    async def receive(self) -> Message:
        try:
            return await super().receive()
        except LineTooLong as error:
            log.error("connection.ended", reason=str(error))
            raise anyio.EndOfStream from None


@contextmanager
def client_wire(reads: int = 0, writes: int = 1) -> Iterator[Lines]:
    """Give the messages of the client that has started us. `reads`, `writes`: descriptors."""
    with own_streams(_Whole, reads, writes) as streams:
        yield Lines(streams)


@asynccontextmanager
async def open_process(command: Sequence[str], folder: str, mark: str) -> AsyncIterator[Lines]:
    """Start a server, and give its messages. Raises LaunchFailed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    async with open_duplex(
        command, cwd=folder, env=env, mark=mark, stop_timeout=END_OF_INPUT_SECONDS, errors=2
    ) as process:
        yield Lines(process)
