"""Where a screen may draw a command in another order than it runs, and where it draws what its readers expect (A7)."""

import pytest

from supervisor.core.text.reading_order import is_reordered

RIGHT = "\u05d3\u05d5\u05d7"  # a Hebrew word
IN_DOUBT = (
    f"cp {RIGHT} {RIGHT}",
    f"cp {RIGHT} 7",
    f"cp {RIGHT}7",
    f"cp {RIGHT}/{RIGHT}",
    f"cat /{RIGHT}/2024/x",
    f"{RIGHT}.sh a b",
    f"{RIGHT} -rf",
    f"ls\ncp {RIGHT} {RIGHT}",
    "cp \u0645\u0644\u0641 \u0661",
)
CLEAR = (
    "cp a b",
    "caf\u00e9 1",
    "\u4e16",
    f"cat {RIGHT}",
    f"cat /srv/{RIGHT}/x.csv",
    f"cp {RIGHT} to {RIGHT}",
    RIGHT,
    f"cp 7 {RIGHT}",
)


@pytest.mark.parametrize("text", IN_DOUBT)
def test_a_line_whose_pieces_may_change_places_is_in_doubt(text):
    """Words from right to left with nothing from left to right between them, digits after them, and lines that begin
    with them."""
    assert is_reordered(text)


@pytest.mark.parametrize("text", CLEAR)
def test_a_word_from_right_to_left_among_latin_ones_is_not_in_doubt(text):
    """Each screen draws it where it was written, and in the direction in which it is read."""
    assert not is_reordered(text)
