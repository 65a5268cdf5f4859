"""Values that may be written to the journal (core/encoding.py)."""

import json

import pytest

from supervisor.core.encoding import MOST_LEVELS, read_exact, to_json
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


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":1}', '[{"b":{"a":1,"\\u0061":2}}]', '{"a":NaN}', '{"a":1e999}', '{"a":', '{"a": {"x":1, "x":2}}'],
)
def test_a_text_that_says_two_things_or_none_is_refused(text):
    """A8: a decoder would take the last of two values, and null for a NaN."""
    with pytest.raises(InvalidInput):
        read_exact(text, "it")


@pytest.mark.parametrize("text", ['{"a":1,"b":{"a":1}}', ' [1.0, "a", {"é": null}] ', '"x"', '{"a":"\\u00e9","b":1e2}'])
def test_json_in_any_spelling_is_read_as_what_it_says(text):
    assert read_exact(text, "it") == json.loads(text)
