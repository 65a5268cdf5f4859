"""JSON messages over a process's standard streams, one a line: from bytes to messages of JSON-RPC, and back.

Rules
- A line may have 64 MiB. The bytes of a longer one are not kept, and no message can follow it: it raises.
- A program may print anything to its standard output. A line that is no message is logged and skipped; the first
  hundred of a process are logged, with their beginnings.
- A message is read although it holds what is not quite JSON: bytes that are not UTF-8, halves of surrogate pairs, NaN.
  They are replaced. Programs cut texts in the middle of a character, and the message may be a question to us.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import anyio
import msgspec

from supervisor.system.logs import FactLog
from supervisor.tools.finished import Finished

log = FactLog(__name__)

LONGEST_BYTES: Final = 64 * 2**20  # bytes of a line, without its end
LOGGED_LINES: Final = 100  # lines of a process that are no messages and are logged
SHOWN_CHARACTERS: Final = 200  # characters of each

Message = Mapping[str, Any]


class LineTooLong(Exception):
    """The process has written a line of more than 64 MiB."""


class Streams(Protocol):
    """Bytes to a peer and from it."""

    async def send(self, data: bytes) -> None: ...
    async def receive(self) -> bytes: ...


class Talking(Streams, Protocol):
    """A process with standard streams; `DuplexProcess` is one."""

    async def wait(self) -> Finished: ...
    def stderr_tail(self) -> str: ...


class Messages:
    """The messages in a stream of bytes, which comes in chunks of any size."""

    def __init__(self, longest: int = LONGEST_BYTES) -> None:
        self._longest = longest
        self._line = bytearray()
        """The beginning of a line whose end has not come."""
        self._skipped = 0

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Iterate over the messages that a chunk completes. Raises LineTooLong."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield from self._end_line(part)
        self._add(rest)

    def end(self) -> Iterator[Message]:
        """Iterate over the last message, if the stream ended without the end of its line."""
        return self._end_line(b"")

    def _add(self, part: bytes) -> None:
        if len(self._line) + len(part) > self._longest:
            self._line.clear()
            raise LineTooLong(f"it has written a line of more than {self._longest} bytes")
        self._line += part

    def _end_line(self, part: bytes) -> Iterator[Message]:
        self._add(part)
        line, self._line = self._line, bytearray()
        if (message := read_message(line)) is not None:
            yield message
        elif line.strip():
            self._skip(line)

    def _skip(self, line: bytearray) -> None:
        self._skipped += 1
        if self._skipped <= LOGGED_LINES:
            log.warning(
                "line.skipped", beginning=line[:SHOWN_CHARACTERS].decode("utf-8", "backslashreplace"), size=len(line)
            )
        if self._skipped == LOGGED_LINES:
            log.warning("lines.unlogged", reason=f"{LOGGED_LINES} lines were no messages; the next ones are not logged")


def read_message(line: bytes | bytearray) -> Message | None:
    """Return a line as a message: a request, a notification or an answer; None if it is something else."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = _read_leniently(line)
    except RecursionError:
        return None
    if not isinstance(found, dict):
        return None
    is_answer = "id" in found and ("result" in found or "error" in found)
    return found if is_answer or isinstance(found.get("method"), str) else None


def _read_leniently(line: bytes | bytearray) -> Any:
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        text = json.dumps(json.loads(line.decode("utf-8", "replace"), parse_constant=str), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None


class Wire:
    """Messages to a process and from it."""

    def __init__(self, process: Streams) -> None:
        self._process = process
        self._messages = Messages()
        self._ready: Iterator[Message] = iter(())
        self._is_over = False

    async def send(self, message: Message) -> None:
        """Write a message. Raises anyio.BrokenResourceError if the process takes no more."""
        await self._process.send(msgspec.json.encode(message) + b"\n")

    async def receive(self) -> Message:
        """Return the next message; for one task. Raises anyio.EndOfStream after the last one, and LineTooLong."""
        while (message := next(self._ready, None)) is None:
            if self._is_over:
                raise anyio.EndOfStream
            try:
                self._ready = self._messages.feed(await self._process.receive())
            except anyio.EndOfStream:
                self._is_over = True
                self._ready = self._messages.end()
        return message
