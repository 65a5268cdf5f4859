"""Our own standard streams, on which the program that started us talks to us.

Rules
- They are read and written only when a descriptor is ready: no thread that a cancellation cannot end waits in a read.
- stdout has the protocol alone. Descriptor 1 leads to stderr meanwhile, so that a stray print breaks no line.
- One text is written after the other.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import anyio

CHUNK_BYTES: Final = 64 * 1024  # bytes of one read
PIECE_BYTES: Final = 512  # bytes that a descriptor takes at once when it is ready (POSIX)


class OwnStreams:
    def __init__(self, reads: int, writes: int) -> None:
        self._reads = reads
        self._writes = writes
        self._lock = anyio.Lock()

    async def send(self, data: bytes) -> None:
        """Write a text whole. Raises BrokenResourceError if the program reads no more."""
        async with self._lock:
            try:
                await self._write(memoryview(data))
            except (BrokenPipeError, ConnectionError):
                raise anyio.BrokenResourceError from None

    async def _write(self, left: memoryview) -> None:
        while left:
            await anyio.wait_writable(self._writes)
            left = left[os.write(self._writes, left[:PIECE_BYTES]) :]

    async def receive(self) -> bytes:
        """Return what comes next. Raises EndOfStream."""
        await anyio.wait_readable(self._reads)
        if not (chunk := os.read(self._reads, CHUNK_BYTES)):
            raise anyio.EndOfStream
        return chunk


S = TypeVar("S", bound=OwnStreams)


@contextmanager
def own_streams(kind: type[S], reads: int = 0, writes: int = 1) -> Iterator[S]:
    """Give our streams. `reads`, `writes`: their descriptors."""
    wire = os.dup(writes)
    os.dup2(2, writes)
    try:
        yield kind(reads, wire)
    finally:
        os.dup2(wire, writes)
        os.close(wire)
