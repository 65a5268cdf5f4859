"""Values that may be written to the journal (core/encoding.py)."""

import json

import pytest

from supervisor.core.encoding import MOST_LEVELS, to_json
from supervisor.core.errors import InvalidInput


def nested(levels, leaf="x"):
    value = leaf
    for _ in range(levels):
        value = {"a": [value]}
    return value


def test_a_value_that_is_nested_too_deeply_is_refused():
    """A process that lists or resumes reads it on a stack of its own, which would be too small."""
    to_json(nested(MOST_LEVELS // 2), "a value")
    with pytest.raises(InvalidInput):
        to_json([nested(MOST_LEVELS // 2)], "a value")


@pytest.mark.parametrize("text", ["[" * 5000, '"[' * 5000, '\\"{\\' * 5000], ids=["brackets", "quotes", "backslashes"])
def test_a_large_value_that_is_not_deep_is_accepted(text):
    """Text with brackets and long lists are not deep."""
    for value in ([{"text": text, text: [text]}] * 3, [[]] * 5000):
        assert json.loads(bytes(to_json(value, "a value"))) == value
