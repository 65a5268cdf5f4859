"""Random JSON schemas, each with values that fit it; other people's habits of writing one are among them."""

import datetime
from typing import Any

from hypothesis import strategies as st

Pair = tuple[dict[str, Any], st.SearchStrategy[Any]]

NAMES = st.text(min_size=1, max_size=6) | st.sampled_from(["name", "f.0", "f:n", "csrf", "decision", "<b>", "a b"])
TEXTS = st.text() | st.sampled_from(["", " ", "a\nb", "\r\n", "\n", "\x1b[2J", "null", "7", '"', "</textarea>", "&lt;"])
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
WORDS = {"title": "T", "description": "what it is for"}


def leaves() -> st.SearchStrategy[Pair]:
    dates = st.dates().map(datetime.date.isoformat)
    enum = st.lists(TEXTS | st.integers() | st.none() | st.booleans(), min_size=1, max_size=4)
    return st.one_of(
        st.just(({"type": "string"}, TEXTS)),
        st.just(({"type": "string", "minLength": 1, "maxLength": 3}, st.text(min_size=1, max_size=3))),
        st.just(({"type": "string", "format": "date"}, dates)),
        st.just(({"type": "integer"}, st.integers(-(2**53), 2**53))),
        st.just(({"type": "number", "minimum": 0}, st.floats(0, 1e300))),
        st.just(({"type": "number"}, NUMBERS)),
        st.just(({"type": "boolean", **WORDS}, st.booleans())),
        st.just(({"type": ["string", "null"]}, TEXTS | st.none())),
        st.just(({"type": ["string", "integer"]}, TEXTS | st.integers(0, 9))),
        st.just(({"type": "null"}, st.none())),
        st.just(({}, ANYTHING)),
        st.just(({"type": "object", "additionalProperties": {"type": "string"}}, st.dictionaries(NAMES, TEXTS))),
        st.just(({"$ref": "#/$defs/node"}, NODES)),
        st.just(({"$ref": "#/$defs/spot", "description": "where"}, SPOTS)),
        enum.map(lambda options: ({"enum": options}, st.sampled_from(options))),
        enum.map(lambda options: ({"oneOf": [{"const": each} for each in options]}, st.sampled_from(options))),
    )


NODES = st.deferred(lambda: st.fixed_dictionaries({"below": st.lists(NODES, max_size=2)}))
SPOTS = st.fixed_dictionaries({"x": st.integers(0, 9)}, optional={"name": st.none() | TEXTS})
PARTS = {
    "node": {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}},
    "spot": {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "name": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "here"},
        },
        "required": ["x"],
    },
}


@st.composite
def _object(draw: Any, inner: st.SearchStrategy[Pair]) -> Pair:
    parts = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=4))
    required = draw(st.sets(st.sampled_from(sorted(parts))))
    schema: dict[str, Any] = {"type": "object", "properties": {name: part[0] for name, part in parts.items()}}
    schema |= {"required": sorted(required)} if required else {}
    schema |= draw(st.sampled_from([{}, {}, {"additionalProperties": False}]))
    fixed = {name: part[1] for name, part in parts.items() if name in required}
    free = {name: part[1] for name, part in parts.items() if name not in required}
    values = st.fixed_dictionaries(fixed, optional=free)
    if "additionalProperties" not in schema:
        values |= st.builds(lambda value, more: {**more, **value}, values, st.dictionaries(st.just("other"), ANYTHING))
    return schema, values


def _more(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        _object(inner),
        inner.map(lambda pair: ({"type": "array", "items": pair[0]}, st.lists(pair[1], max_size=3))),
        inner.map(
            lambda pair: ({"type": "array", "items": pair[0], "minItems": 1}, st.lists(pair[1], min_size=1, max_size=3))
        ),
        inner.map(lambda pair: ({"anyOf": [pair[0], {"type": "null"}], "default": None}, pair[1] | st.none())),
        inner.map(lambda pair: ({"allOf": [pair[0]], **WORDS}, pair[1])),
        st.tuples(inner, inner).map(lambda both: ({"anyOf": [both[0][0], both[1][0]]}, both[0][1] | both[1][1])),
        inner.map(lambda pair: ({"type": "array", "prefixItems": [pair[0]]}, st.lists(pair[1], max_size=1))),
    )


@st.composite
def schemas_with_values(draw: Any) -> tuple[dict[str, Any], Any]:
    """A schema and a value that fits it."""
    inner = leaves() | st.recursive(leaves(), _more, max_leaves=4)
    schema, values = draw(_object(inner) | inner)
    return {**schema, "$defs": PARTS}, draw(values)
