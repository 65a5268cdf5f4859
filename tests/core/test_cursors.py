"""A cursor names its store and a position there, and is refused by another store."""

import pytest
from hypothesis import given, strategies as st

from supervisor.core.cursors import make_cursor, read_cursor
from supervisor.core.errors import CursorUnknown, InvalidInput

HERE, ELSEWHERE = "0a1b2c3d4e", "ffffffffff"


@given(st.integers(0, 2**63 - 1))
def test_a_cursor_comes_back_as_its_position(position):
    """From before the first entry to the last one."""
    assert read_cursor(make_cursor(HERE, position), HERE, last=position) == position


@pytest.mark.parametrize("cursor", [make_cursor(ELSEWHERE, 3), make_cursor(HERE, 8), make_cursor(HERE, 10**19 - 1)])
def test_a_cursor_of_another_store_or_from_beyond_the_end_is_unknown(cursor):
    """It is never read as a position of this store."""
    with pytest.raises(CursorUnknown):
        read_cursor(cursor, HERE, last=7)


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "3", ".3", HERE, f"{HERE}.", f"{HERE}3", f"{HERE}..3", f"{HERE}.3.3", f"{HERE}:3"),
        *(f"{HERE}.-1", f"{HERE}.+3", f"{HERE}.03", f"{HERE}.00", f"{HERE}.3_0", f"{HERE}.3e1", f"{HERE}.0x3"),
        *(f"{HERE}.\u0663", f"{HERE}.\u00b3", f"{HERE}.{10**19}", f"{HERE}.{'9' * 5000}"),
        *(f" {HERE}.3", f"{HERE}.3 ", f"{HERE}.3\n", f"{HERE.upper()}.3", f"{HERE[1:]}.3", f"{HERE}0.3"),
    ],
    ids=lambda text: repr(text)[:24],
)
def test_a_text_that_was_not_made_here_is_not_a_cursor(text):
    """Each cursor has one spelling, so that a part of it is not a cursor."""
    with pytest.raises(InvalidInput) as refused:
        read_cursor(text, HERE, last=7)
    assert not isinstance(refused.value, CursorUnknown)
    assert len(str(refused.value)) < 200
