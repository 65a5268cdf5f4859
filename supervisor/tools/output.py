"""The output of a process: its beginning and its end, and how many bytes there were in all.

Rules: memory is bounded, however much is written; counts are exact; bytes stay bytes until a caller asks for text; a
cut never splits a character. A model never gets more characters than the cap: what is not text is one line for it, and
its bytes are kept for programs. What a program has drawn anew is rendered first (see `rendering`), and then cut. So
more bytes are kept than are shown.
"""

from typing import Final, NamedTuple

import msgspec

CAP_CHARACTERS: Final = 30_000
"""Characters of an output that a model gets."""
KEPT_BYTES: Final = 2**18
"""Bytes of a command's output that are kept: few of them may be left after rendering."""
FOREIGN: Final = 0.3
"""From this share of bytes on that are not UTF-8, output is not text. Text in an older encoding has fewer."""
_FIRST: Final = 16
_KINDS: Final = {
    b"\x7fELF": "a program (ELF)",
    b"MZ": "a program (Windows)",
    b"\xcf\xfa\xed\xfe": "a program (Mach-O)",
    b"\x89PNG": "an image (PNG)",
    b"\xff\xd8\xff": "an image (JPEG)",
    b"GIF8": "an image (GIF)",
    b"%PDF": "a document (PDF)",
    b"PK\x03\x04": "an archive (zip)",
    b"\x1f\x8b": "compressed (gzip)",
    b"\xfd7zXZ": "compressed (xz)",
    b"\x28\xb5\x2f\xfd": "compressed (zstd)",
    b"BZh": "compressed (bzip2)",
    b"SQLite format 3": "a database (SQLite)",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
"""What the first bytes of a file say about it."""


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
        return self._around(self.head, self.tail)

    def show(self, cap: int = CAP_CHARACTERS) -> "Shown":
        """Return the text for a model: rendered, within the cap, and one line for what is not text."""
        from supervisor.tools.rendering import render  # few processes show an output

        if is_binary(self.head + self.tail):
            return Shown(describe(self.head, self.total), is_cut=self.is_truncated)
        whole = escape(self.head), escape(self.tail)
        drawn = render(whole[0]), render(whole[1])
        if drawn != whole:
            return self._show_drawn(*drawn, cap)
        head, tail = self.head, self.tail
        if len(whole[0]) + len(whole[1]) > cap:
            end = tail if self.is_truncated else head
            head, tail = without_split_end(_fit(head, cap)), without_split_start(_fit(end[::-1], cap)[::-1])
        return Shown(self._around(head, tail), is_cut=len(head) + len(tail) < self.total)

    def within(self, limit: int) -> "Output":
        """Return the same output with at most this many bytes of it."""
        if len(self.head) + len(self.tail) <= limit:
            return self
        half = limit // 2
        end = self.tail if self.is_truncated else self.head
        return Output(head=without_split_end(self.head[:half]), tail=without_split_start(end[-half:]), total=self.total)

    def _show_drawn(self, head: str, tail: str, cap: int) -> "Shown":
        left_out = [f"{self.omitted} of {self.total} bytes"] if self.is_truncated else []
        if (longer := len(head) + len(tail) - cap) > 0:
            left_out.append(f"{longer} of {longer + cap} characters")
            head, tail = head[: cap // 2], (tail if self.is_truncated else head)[-(cap - cap // 2) :]
        if not left_out:
            return Shown(head + tail, is_drawn=True)
        return Shown(f"{head}\n[... {' and '.join(left_out)} left out ...]\n{tail}", is_cut=True, is_drawn=True)

    def _around(self, head: bytes, tail: bytes) -> str:
        if not (left_out := self.total - len(head) - len(tail)):
            return escape(head + tail)
        return f"{escape(head)}\n[... {left_out} of {self.total} bytes left out ...]\n{escape(tail)}"


class Shown(NamedTuple):
    """What a model gets of an output. `is_cut`: something is left out. `is_drawn`: it was rendered, and differs from
    what was written."""

    text: str
    is_cut: bool = False
    is_drawn: bool = False


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


def is_binary(raw: bytes) -> bool:
    """Return whether bytes are something other than text."""
    if b"\0" in raw:
        return True
    known = len(raw.decode("utf-8", "ignore").encode())
    return len(raw) - known >= FOREIGN * max(1, len(raw))


def describe(head: bytes, total: int) -> str:
    """Return one line about bytes that are not text. `head`: their beginning."""
    kind = next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), "of an unknown kind")
    more = " ..." if total > _FIRST else ""
    return f"[{total} bytes that are not text: {kind}; they begin with {head[:_FIRST].hex(' ')}{more}]"


def escape(raw: bytes) -> str:
    r"""Return bytes as text: UTF-8, and other bytes as `\xNN`."""
    return raw.decode("utf-8", "backslashreplace")


def _fit(raw: bytes, cap: int) -> bytes:
    """Return the longest beginning of some bytes that takes at most half of a cap."""
    room = cap // 2
    low, high = 0, min(len(raw), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(escape(raw[:middle])) <= room else (low, middle - 1)
    return raw[:low]


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
