"""What may cross the border into the journal (core/encoding.py)."""

import json

import pytest

from supervisor.core.encoding import MOST_LEVELS, to_json
from supervisor.core.errors import InvalidInput


def nested(levels, leaf="x"):
    value = leaf
    for _ in range(levels):
        value = {"a": [value]}
    return value


def test_what_is_nested_too_deeply_is_refused():
    """Whoever lists or resumes reads it on a stack of its own, and would run out of it."""
    to_json(nested(MOST_LEVELS // 2), "a value")
    with pytest.raises(InvalidInput):
        to_json([nested(MOST_LEVELS // 2)], "a value")


@pytest.mark.parametrize("text", ["[" * 5000, '"[' * 5000, '\\"{\\' * 5000], ids=["brackets", "quotes", "backslashes"])
def test_much_that_is_not_deep_is_taken(text):
    """Neither is text that has brackets, nor a long list."""
    for value in ([{"text": text, text: [text]}] * 3, [[]] * 5000):
        assert json.loads(bytes(to_json(value, "a value"))) == value
