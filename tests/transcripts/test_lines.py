"""Lines as bytes: every line is seen once and whole, whatever its length, in bounded memory."""

import io
import os
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from supervisor.transcripts.lines import as_javascript_reads_it, read_lines, value_span, with_value


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=12), st.booleans())
def test_lines_come_out_as_they_are_in_the_file(parts, is_ended):
    """Lines are split at line feeds only, also if they are longer than the buffer."""
    data = b"\n".join(parts) + (b"\n" if is_ended else b"")
    got = [(start, bytes(line)) for start, line in read_lines(io.BytesIO(data), len(data), block=16)]
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert len(got) == len(expected)
    start = 0
    for (where, line), wanted in zip(got, expected, strict=True):
        assert where == start
        assert line == wanted or (line == b"\0" and line in wanted and len(wanted) >= 16)
        start += len(wanted) + 1


def test_a_file_is_read_up_to_its_size_when_it_was_opened():
    """Lines that a writer appends meanwhile belong to the next look."""
    assert [bytes(line) for _, line in read_lines(io.BytesIO(b"a\nb\nc\n"), 3)] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("line", "is_json"),
    [
        (rb'{"a":"\ud83d"}', True),
        (b'{"a":"\xff"}', True),
        (b'{"a":1', False),
        (b'{"a":NaN}', False),
        (b'{"a":1}{"b":2}', False),
        (b"", False),
    ],
)
def test_a_line_that_javascript_reads_counts_as_readable(line, is_json):
    """Node reads half a surrogate pair and stray bytes; it does not read torn and merged lines."""
    assert (as_javascript_reads_it(memoryview(line)) is not None) == is_json


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"p":"a","q":1}', b'"a"'),
        (b'{"x":{"p":1},"y":["p",":"],"p" : null }', b"null"),
        (b'{"q":"\\"p\\":","p":{"p":2}}', b'{"p":2}'),
        (b'{"p":1,"p":2}', b"2"),
    ],
)
def test_only_the_value_of_the_top_level_key_is_found(line, value):
    """A deeper key of the same name, or its text in a string, does not count; of two values the last one does."""
    begin, end = value_span(line, "p")
    assert line[begin:end] == value
    assert with_value(line, "p", "new") == line[:begin] + b'"new"' + line[end:]


MEASURED = """
import resource, sys, tracemalloc
from pathlib import Path
from supervisor.transcripts.session import read_session
warm, path = Path(sys.argv[1]), Path(sys.argv[2])
read_session(warm)
tracemalloc.start()
session = read_session(path)
print(tracemalloc.get_traced_memory()[1], len(session.index))
"""


@pytest.mark.parametrize("longest", [100, 8_000_000])
def test_memory_is_bounded_by_the_longest_line_and_200_bytes_a_line(longest, tmp_path):
    """Measured with two long lines and many short ones, with a call or a result in each."""
    head = b'{"type":"session","version":3,"id":"s","cwd":"/nowhere"}\n'
    entry = b'{"type":"message","id":"%08x","parentId":"%08x","message":%s}\n'
    call = b'{"role":"assistant","stopReason":"toolUse","content":[{"type":"toolCall","id":"c%d","arguments":{}}]}'
    result = b'{"role":"toolResult","toolCallId":"c%d","content":[{"type":"text","text":"%s"}]}'
    path, warm = tmp_path / "long.jsonl", tmp_path / "short.jsonl"
    warm.write_bytes(head)
    with path.open("wb") as file:
        file.write(head)
        for number in range(30_000):
            text = b"x" * (longest // 2 if number == 2_000 else longest if number == 4_000 else 10)
            message = call % number if number % 2 else result % (number - 1, text)
            file.write(entry % (number + 1, number, message))
    run = subprocess.run([sys.executable, "-c", MEASURED, warm, path], capture_output=True, text=True, check=True)
    peak, count = map(int, run.stdout.split())
    assert count == 30_001
    assert peak <= longest + 1_000 + 200 * count


@pytest.mark.slow
@pytest.mark.parametrize("beginning", [b"", b'{"type":"mess', b'{"type":"message","id":"' + b"x" * 100_000])
def test_a_hole_at_the_end_takes_no_memory(beginning, tmp_path):
    """A power cut leaves NULs: they are one torn line, and none of it is kept."""
    path, warm = tmp_path / "hole.jsonl", tmp_path / "short.jsonl"
    warm.write_bytes(b'{"type":"session","version":3,"id":"s","cwd":"/nowhere"}\n')
    path.write_bytes(warm.read_bytes() + beginning)
    os.truncate(path, 256 << 20)
    run = subprocess.run([sys.executable, "-c", MEASURED, warm, path], capture_output=True, text=True, check=True)
    peak, count = map(int, run.stdout.split())
    assert count == 2
    assert peak < 1 << 20


def test_lines_after_a_hole_are_read():
    """The line feed after a long run of NULs ends it, and the lines after it are seen."""
    data = b"a\n" + b"\0" * 200_000 + b"\nb\nc"
    assert [(start, bytes(line)) for start, line in read_lines(io.BytesIO(data), len(data))] == [
        (0, b"a"),
        (2, b"\0"),
        (200_003, b"b"),
        (200_005, b"c"),
    ]
