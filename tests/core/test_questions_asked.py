"""Questions: valid questions, valid answers, and the value of a typed text."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, strategies as st

from supervisor.core.approvals.questions import check_answer, make_question, read_answer
from supervisor.core.declarations.foreign_schema import checkable
from supervisor.core.declarations.schemas import schema_misfit, schema_of
from supervisor.core.errors import InvalidInput
from supervisor.core.values import Approval


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Leaf(msgspec.Struct, forbid_unknown_fields=True, tag=True):
    n: Annotated[int, msgspec.Meta(ge=1, lt=9, multiple_of=2)]
    next: "Leaf | None" = None


@dataclass
class Order:
    item: Annotated[str, msgspec.Meta(min_length=1, max_length=5, pattern="^[a-z]+$")]
    sizes: list[Size]
    pair: tuple[int, bool] | None = None
    extra: dict[str, float] | None = None


TYPES = [bool, int, float, str, None, Size, Leaf, Order, list[int], dict[str, bool], tuple[str, ...], Any]
TYPES += [bool | None, Literal["a", 1], UUID, Decimal, timedelta, Annotated[list[int], msgspec.Meta(max_length=1)]]
WORDS = st.sampled_from(["", "a", "s", "Ab", "1"])
NAMES = st.sampled_from(["n", "next", "type", "item", "sizes", "pair", "extra", "x"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats(-2, 9, width=16)
    | st.sampled_from(["", "a", "s", "Ab", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["n", "next", "type", "item", "sizes", "pair", "extra", "x"]), inner, max_size=4
        )
        | st.fixed_dictionaries({"type": st.just("Leaf"), "n": inner, "next": inner})
        | st.fixed_dictionaries({"item": inner, "sizes": st.lists(inner, max_size=2), "pair": inner})
    ),
    max_leaves=6,
)


@given(st.sampled_from(TYPES), JSON)
def test_a_value_fits_the_schema_if_and_only_if_it_fits_the_type(type_, value):
    """An answer that is accepted where the type is not known is never refused where it is, and vice versa."""
    schema = msgspec.json.decode(msgspec.json.encode(schema_of(type_)))
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=type_)
        fits = True
    except msgspec.ValidationError:
        fits = False
    if fits is False or type_ is not Decimal:  # a number fits Decimal, too, but its schema wants text
        assert (schema_misfit(value, schema) is None) == fits


@pytest.mark.parametrize(
    ("type_", "fits", "not_"),
    [
        (UUID, "0e1c1e52-3a31-4c12-9f0b-3c1c7a3b5c11", "0e1c"),
        (Decimal, "1.50", "one"),
        (timedelta, "PT5M", "5 minutes"),
        (Annotated[datetime, msgspec.Meta(tz=True)], "2026-11-22T12:00:00Z", "tomorrow"),
    ],
)
def test_texts_of_a_format_are_checked(type_, fits, not_):
    """Text in JSON whose Python type is more than text."""
    assert schema_misfit(fits, schema_of(type_)) is None
    assert schema_misfit(not_, schema_of(type_)) is not None


@pytest.mark.parametrize("type_", [bytes, set[int], object])
def test_a_type_that_could_only_be_checked_in_part_is_refused(type_):
    """A5: it is refused when the question is asked, not when it is answered."""
    with pytest.raises(InvalidInput):
        schema_of(type_)


def asked(choices=None, schema=None):
    """Return a question as surfaces see it."""
    made = make_question("Well?", choices, schema)
    facts = dict.fromkeys(("id", "session", "root_session", "agent", "operation", "tool", "digest", "cwd"), "x")
    return Approval(
        **facts, path=("x",), arguments=None, options=(), requester="x", status="pending", created_at=datetime.now(UTC),
        kind="question", question=made.text, choices=made.choices, schema=msgspec.json.decode(made.schema),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("choices", "schema", "text", "value"),
    [
        (None, None, "yes", "yes"),
        (None, None, '{"a": 1}', '{"a": 1}'),
        (["1", "2"], None, "1", "1"),
        (["a\x1b", "a"], None, '"a\\u001b"', "a\x1b"),
        (['"a"', "a"], None, '"a"', '"a"'),
        (None, bool, " Yes ", True),
        (None, bool, "n", False),
        (None, bool, "true", True),
        (None, int, "7", 7),
        (None, str, "7", "7"),
        (None, Literal["a", "b"], "a", "a"),
        (None, Size, '"s"', "s"),
        (None, list[int], "[1]", [1]),
    ],
)
def test_typed_text_is_read_as_the_question_requires(choices, schema, text, value):
    """Text stays text if the question wants text; else it is JSON, and a word needs no quotes."""
    found = asked(choices, schema)
    assert read_answer(found, text) == value
    assert msgspec.json.decode(check_answer(found, value)) == value


@pytest.mark.parametrize(("choices", "schema", "text"), [
    (["a"], None, "A"), (None, bool, "perhaps"), (None, bool, "1"), (None, int, "x"), (None, int, ""),
])  # fmt: skip
def test_an_invalid_answer_is_refused(choices, schema, text):
    """The error says why, and nothing is guessed."""
    found = asked(choices, schema)
    with pytest.raises(InvalidInput):
        check_answer(found, read_answer(found, text))


def test_questions_differ_by_their_text_and_their_valid_answers():
    """Their operations' ids are derived from both; the words of a question are a readable part of its id."""
    made = [
        make_question("Which env?", None, None),
        make_question("Which env?", ["a"], None),
        make_question("Which env?", None, bool),
    ]
    assert len({each.digest for each in made}) == 3
    assert {each.name for each in made} == {"Which-env"}
    assert make_question("où:/#?", None, None).name == "o"


@dataclass
class Release:
    version: str
    channel: str = "stable"
    orders: list[Order] = field(default_factory=list)


MISSPELT = [
    {"version": "1.2.3", "chanel": "beta"},
    {"version": "1.2.3", "orders": [{"item": "a", "sizes": [], "pairs": None}]},
]


@pytest.mark.parametrize("answer", MISSPELT)
@pytest.mark.parametrize("type_", [Release, Release | None])
def test_a_misspelt_name_in_an_answer_is_refused_at_any_depth(type_, answer):
    """It does not mean the default."""
    with pytest.raises(InvalidInput):
        check_answer(asked(schema=type_), answer)


def test_a_mapping_accepts_any_name():
    """Its type leaves the names open."""
    assert check_answer(asked(schema=dict[str, bool]), {"chanel": True})
    assert check_answer(asked(schema=Order), {"item": "a", "sizes": [], "extra": {"chanel": 1}})


@pytest.mark.parametrize("word", ["allOf", "anyOf"])
def test_a_schema_of_references_that_double_each_other_is_checked_soon(word):
    """A server sends a short schema. Its check must not block each session of the process for years."""
    parts = {f"a{n}": {word: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
    schema = checkable({"$ref": "#/$defs/a0", "$defs": {**parts, "a60": {"type": "string"}}})
    assert schema_misfit("fits", schema) is None
    assert len(schema_misfit(1, schema) or "") in range(1, 1001)
