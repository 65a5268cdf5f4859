"""What an agent says: in pieces that fit, without mentions and without links that hide where they lead."""

import re

import pytest
from hypothesis import given, strategies as st

from supervisor.channels.chat.prose import MOST, harmless, pieces
from supervisor.channels.wording.lengths import length

LIMIT = 1000
WORDS = st.sampled_from(["word", "\U0001f600" * 30, "\n", "\n\n", "```py\n", "```\n", "~~~\n", "x" * 300, " "])


@given(st.lists(WORDS, max_size=120).map("".join))
def test_no_piece_is_too_long_and_no_text_is_lost(text):
    parts = pieces(text, LIMIT)
    assert all(length(part) <= LIMIT for part in parts)
    assert letters("".join(parts)) == letters(text)


def letters(text):
    """Return a text without blanks and without the lines around fenced blocks, which are repeated."""
    return re.sub(r"\s|```(py)?|~~~", "", text)


def test_a_text_is_cut_at_blank_lines():
    paragraphs = [f"{number} {'word ' * 80}".strip() for number in range(6)]
    parts = pieces("\n\n".join(paragraphs), LIMIT)
    assert [part.split("\n\n") for part in parts] == [paragraphs[:2], paragraphs[2:4], paragraphs[4:]]


def test_a_fenced_block_that_is_cut_is_closed_and_opened_again():
    parts = pieces("```py\n" + "line = 1\n" * 300 + "```\nafter", LIMIT)
    assert len(parts) > 2
    for part in parts:
        assert part.startswith("```py\n")
        assert part.count("```") == 2
    assert parts[-1].endswith("```\nafter")


def test_a_fenced_block_that_fits_stays_whole():
    block = "```\na\n\nb\n```"
    parts = pieces("word\n" * 80 + "\n" + "word\n" * 80 + "\n" + "x\n" * 80 + block + "\n\n" + "word\n" * 60, LIMIT)
    assert sum(block in part for part in parts) == 1


def test_a_text_without_end_becomes_no_messages_without_end():
    parts = pieces("word " * 1_000_000, LIMIT)
    assert len(parts) <= 2 * MOST
    assert "not shown" in parts[-1]
    assert pieces("", LIMIT) == [""]


@pytest.mark.parametrize(
    "trap",
    [
        "<@U012AB3CD>",
        "<!here>",
        "<#C012AB3CD>",
        "<https://evil.example|https://good.example>",
        "@everyone",
        "[good](https://evil.example)",
        "[good](\n https://evil.example)",
        "[good](<https://evil.example>)",
        "[good](&#104;ttps://evil.example)",
        "![picture](//evil.example)",
        "[good]: https://evil.example",
        "[good]:\n<https://evil.example>",
    ],
)
def test_a_trap_is_broken_up_and_reads_the_same(trap):
    shown = harmless(f"text {trap} text")
    assert trap not in shown
    assert shown.replace("\u200d", "") == f"text {trap} text"


@pytest.mark.parametrize(
    "text",
    ["a < b", "f(x)[i](y)", "d[k]: v", "**bold** `code`", "https://a.example <https://b.example>", "ana@here.example"],
)
def test_other_text_stays_as_it_was_written(text):
    assert harmless(text) == text
