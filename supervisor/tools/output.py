"""The output of a process: its beginning and its end, and how many bytes there were in all.

Rules: memory is bounded, however much is written; counts are exact; bytes stay bytes until a caller asks for text; a
cut never splits a character.
"""

import msgspec


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Captured output, stdout and stderr in the order written.

    `head` and `tail` are raw bytes; `total` counts all bytes that were written. If nothing was cut, all is in `head`.
    """

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def omitted(self) -> int:
        """Bytes that were written and are in neither `head` nor `tail`."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def is_truncated(self) -> bool:
        """Whether something is omitted."""
        return self.omitted > 0

    @property
    def is_text(self) -> bool:
        """Whether the bytes that were kept are UTF-8 without NUL; if not, keep the raw bytes next to the text."""
        try:
            self.head.decode()
            self.tail.decode()
        except UnicodeDecodeError:
            return False
        return b"\0" not in self.head and b"\0" not in self.tail

    @property
    def text(self) -> str:
        r"""The output as text: UTF-8, other bytes as `\xNN`, and a line that says how much was left out."""
        head = self.head.decode("utf-8", "backslashreplace")
        if not self.is_truncated:
            return head
        tail = self.tail.decode("utf-8", "backslashreplace")
        return f"{head}\n[... {self.omitted} of {self.total} bytes left out ...]\n{tail}"


class HeadAndTail:
    """Keeps at most `limit` bytes of a stream: `head` of them (default: half) from its start, the rest from its end."""

    def __init__(self, limit: int, head: int | None = None) -> None:
        if limit < 0:
            raise ValueError(f"an output limit is a number of bytes, not {limit}")
        self._head_limit = limit // 2 if head is None else head
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self._total += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        # We cut seldom: else each small write of a long stream would move the whole tail.
        if len(self._tail) > 2 * self._tail_limit:
            self._cut_tail()

    def output(self) -> Output:
        """Return what is kept so far."""
        self._cut_tail()
        head, tail = bytes(self._head), bytes(self._tail)
        if len(head) + len(tail) == self._total:
            return Output(head=head + tail, total=self._total)
        return Output(head=without_split_end(head), tail=without_split_start(tail), total=self._total)

    def _cut_tail(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_limit)]


def without_split_end(raw: bytes) -> bytes:
    """Return the bytes without an incomplete character at their end."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 == 0x80:
            continue  # inside a character: its first byte is further left
        width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return raw[:-back] if width > back else raw
    return raw  # no character at all: binary


def without_split_start(raw: bytes) -> bytes:
    """Return the bytes without the rest of a character at their start."""
    for start in range(min(4, len(raw))):
        if raw[start] & 0xC0 != 0x80:
            return raw[start:]
    return raw if len(raw) > 3 else b""  # binary, or only the rest of one character
