"""Lines of a JSONL file as bytes: reading them in little memory, and changing one value of one line.

Theory: a log may be larger than memory and a line larger than any buffer, so lines are views into one buffer, which is
made exactly as long as the longest line needs. A line that JavaScript can read counts as readable: the makers' programs
decide what is in a session, and a line that only we cannot read would look like a lost result.

Rules:
- Lines end at a line feed only (a U+2028 inside a string is text).
- A line that is longer than the buffer and contains a NUL is not JSON: it becomes a single NUL, so that a hole that a
  power cut leaves in a file takes no memory.
- A view is valid until the next line is requested; a caller that keeps a view keeps the buffer.
- Changing a value leaves every other byte of its line unchanged.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec

BLOCK_BYTES: Final = 1 << 16
BOM: Final = b"\xef\xbb\xbf"
NOT_JSON: Final = object()
_NUL: Final = b"\0"


def read_lines(file: io.RawIOBase, size: int, block: int = BLOCK_BYTES) -> Iterator[tuple[int, memoryview]]:
    """Yield the offset of each line of the first `size` bytes, and the line without its line feed. `block`: bytes that
    are read at once."""
    buffer = bytearray(block)
    view = memoryview(buffer)
    offset = filled = 0
    while True:
        want = min(len(buffer) - filled, size - offset - filled)
        got = (file.readinto(view[filled : filled + want]) or 0) if want > 0 else 0
        filled += got
        begin = 0
        while (end := buffer.find(b"\n", begin, filled)) >= 0:
            yield offset + begin, view[begin:end]
            begin = end + 1
        if got == 0 and begin == 0 and filled < len(buffer):
            if filled:
                yield offset, view[:filled]
            return
        if begin == 0 and filled == len(buffer):
            file.seek(offset)
            length, has_nul = _measure(file, size - offset)
            if has_nul:
                yield offset, memoryview(_NUL)
                offset = min(offset + length + 1, size)
                filled = 0
                file.seek(offset)
                continue
            file.seek(offset)
            view = memoryview(b"")  # we release the old buffer before we make the new one: its content is read again
            buffer = bytearray()
            buffer = bytearray(length + 1)
            view = memoryview(buffer)
            filled = 0
        else:
            view[: filled - begin] = view[begin:filled]
            offset += begin
            filled -= begin


def is_utf8(line: memoryview) -> bool:
    """Return whether a line is UTF-8, in little memory."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for begin in range(0, len(line), BLOCK_BYTES):
            decoder.decode(line[begin : begin + BLOCK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _measure(file: io.RawIOBase, limit: int) -> tuple[int, bool]:
    """Return the length of the line that begins here, and whether it contains a NUL."""
    seen = 0
    has_nul = False
    while seen < limit and (block := file.read(min(BLOCK_BYTES, limit - seen))):
        found = block.find(b"\n")
        end = found if found >= 0 else len(block)
        has_nul = has_nul or block.find(_NUL, 0, end) >= 0
        seen += end
        if found >= 0:
            break
    return seen, has_nul


class TooDeepError(ValueError):
    """A line is nested more deeply than we can judge; its maker's program may still read it."""


def as_javascript_reads_it(line: memoryview) -> bytes | None:
    """Return strict JSON for a line that JSON.parse accepts and a strict decoder does not; None if neither does.

    Node writes half surrogate pairs as escapes and, when it reads, replaces bytes that are not UTF-8; a number that is
    too large for it becomes the largest number here.
    """
    if bytes(line[-64:]).rstrip(b" \t\r")[-1:] not in (b"}", b"]"):
        return None  # torn, or blank: we need not copy what may be a very long line
    try:
        value = javascript_value(str(line, "utf-8", "replace"))
    except TooDeepError:
        raise
    except ValueError:
        return None
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def json_value(line: memoryview) -> Any:
    """Return the value that JSON.parse reads from a line; NOT_JSON if there is none."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        clean = as_javascript_reads_it(line)
        return NOT_JSON if clean is None else msgspec.json.decode(clean)


def as_javascript_writes_it(value: Any) -> bytes:
    """Return the JSON of a value as Node writes it: half a surrogate pair is an escape, so an id that has one stays the
    same."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def javascript_value(text: str) -> Any:
    """Return the value that JSON.parse reads from a text; half a surrogate pair is kept."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_number, parse_float=_finite, strict=True)
    except RecursionError:
        raise TooDeepError from None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 else _finite(digits)


def _finite(digits: str) -> float:
    return max(-sys.float_info.max, min(float(digits), sys.float_info.max))


_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')


def value_span(line: bytes, key: str) -> tuple[int, int] | None:
    """Return the span of a top-level key's value in a line: the last one, as JSON.parse takes it."""
    name = b'"' + key.encode() + b'"'
    depth = 0
    key_seen = begin = -1
    span: tuple[int, int] | None = None
    for token in _TOKEN.finditer(line):
        text = token.group()
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]") or text == b",":
            if depth == 1 and begin >= 0:
                span = begin, token.start()
                begin = -1
            if text != b",":
                depth -= 1
        elif depth == 1 and text == b":" and key_seen >= 0:
            begin = token.end()
        key_seen = token.end() if depth == 1 and begin < 0 and text == name else -1
    if span is None:
        return None
    begin, end = span
    value = line[begin:end]
    begin += len(value) - len(value.lstrip())
    return begin, begin + len(value.strip())


def with_value(line: bytes, key: str, value: Any) -> bytes:
    """Return the line with another value for a top-level key, and every other byte unchanged."""
    span = value_span(line, key)
    if span is None:
        raise KeyError(key)
    return line[: span[0]] + as_javascript_writes_it(value) + line[span[1] :]
