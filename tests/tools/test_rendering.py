"""Escapes, cursor movement and redrawn lines: a model reads what a terminal would show at the end (T8)."""

import sys
import time

import pytest
from calling import call_shell
from hypothesis import given, strategies as st
from real_processes import no_descriptor_left, real_backend  # noqa: F401 - fixtures

from supervisor.tools.output import CAP_CHARACTERS, Output
from supervisor.tools.rendering import render

pytestmark = pytest.mark.anyio

MIB = 2**20


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("long\rab", "abng"),
        ("long\rab\x1b[K", "ab"),
        ("\x1b[1;31mred\x1b[0m\t\x1b(Bx\n", "red\tx\n"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("a\nb\nc\n\x1b[3A\x1b[2KA\x1b[3B\r", "A\nb\nc\n"),
        ("|\b/\b-\bok\n", "ok\n"),
        ("abcd\x1b[2D\x1b[P\x1b[@X", "abXd"),
        ("old\nold\x1b[2J\x1b[Hnew", "new"),
        ("before\n\x1b[?1049hvim\x1b[2J~\x1b[?1049lafter", "before\nafter"),
        ("a\x1b[20Gb", "a" + " " * 18 + "b"),
        ("\x1b[?25l\x1b[>4;2m\x1bP1$r\x1b\\\x07x\x00", "x"),
        ("a\x9b1Kb\x1b[", " b"),
        ("line\r\n\tend\r\n", "line\r\n\tend\r\n"),
        ("é😀\r漢", "漢😀"),
    ],
)
def test_a_text_is_what_a_terminal_shows_at_the_end(written, shown):
    """Each was compared with a terminal. What has no controls stays as it is, to the byte."""
    assert render(written) == shown


def test_lines_that_left_the_screen_stay():
    """A cursor cannot reach them: a terminal keeps them above."""
    shown = render("".join(f"{n}\n" for n in range(100)) + "\x1b[999A\x1b[Jend")
    assert shown.split("\n") == [*map(str, range(77)), "end"]


PIECES = [
    "ab",
    "\n",
    "\r",
    "\b",
    "\t",
    "\x1b",
    "[",
    "]",
    "\x07",
    "\x9b",
    *(f"\x1b[{end}" for end in "A2B9C1K2JPXLMHbsu7"),
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=60).map("".join))
def test_no_control_is_left_and_nothing_changes_again(written):
    """Whatever a program writes, the text holds tabs and line ends only."""
    shown = render(written)
    if written != shown:
        assert not {*shown} & {chr(n) for n in (*range(9), *range(11, 32), *range(127, 160))}
    assert render(shown) == shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile", ["\b", "\x1b[1K", "\x1b[@", "\x1b[999C x\n", "\x1b[999b", "\x1b[L", "\x1b]", "\x1b[0"]
)
def test_hostile_text_takes_bounded_time_and_room(hostile):
    """A MiB of it, after half a MiB in one line, which each of them might copy."""
    began = time.process_time()
    shown = render("y" * (MIB // 2) + hostile * (MIB // 2 // len(hostile)))
    assert time.process_time() - began < 30
    assert len(shown) < 40 * MIB


async def test_progress_is_one_line_and_the_error_in_its_middle_is_kept():
    """The cap holds after rendering, so hundreds of KB of progress hide nothing."""
    progress = "*(f'\\r{n} %' + '#' * 40 for n in range(2000))"
    code = f"print({progress}, '\\nfailed', {progress})"
    result = await call_shell({"command": [sys.executable, "-c", code]})
    assert result["details"]["output_bytes"] > 3 * CAP_CHARACTERS
    assert len(result["content"]) < 200
    assert "1999 %" in result["content"]
    assert "failed" not in result["content"].split("1999 %")[0]
    assert (result["details"]["truncated"], result["details"]["rendered"]) == (False, True)


@pytest.mark.parametrize("size", [CAP_CHARACTERS * 3, MIB])
async def test_the_cap_holds_for_what_is_rendered(size):
    """Both ends stay, and the text says how much is left out."""
    code = f"print('\\033[1mfirst'); print('line\\n' * ({size} // 5)); print('last')"
    result = await call_shell({"command": [sys.executable, "-c", code]})
    assert len(result["content"]) < CAP_CHARACTERS + 200
    assert result["content"].startswith("first\nline")
    assert result["content"].endswith("line\n\nlast\n")
    assert "left out" in result["content"]
    assert result["details"]["truncated"] is True


def test_plain_text_is_cut_to_the_cap_as_exactly_as_before():
    """The bytes that are left out are counted."""
    shown = Output(head=b"x" * 40_000, total=40_000).show()
    assert shown.text.count("x") == CAP_CHARACTERS
    assert "10000 of 40000 bytes" in shown.text
    assert shown.is_cut


@pytest.mark.parametrize("command", ["true", "echo", "printf '\\033[2J\\033[H'", "printf ' \\n \\n'"])
async def test_an_output_that_shows_nothing_says_so(command):
    """Some model APIs refuse a text without a visible character."""
    assert (await call_shell({"command": command}))["content"] == "[no output]"
