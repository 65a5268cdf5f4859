"""Forms of JSON schemas: what is written into one is read back, and what does not fit is told at its field."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import example, given, strategies as st
from msgspec import UNSET
from schemas_and_values import ANYTHING, NAMES, schemas_with_values

from supervisor.core.approvals.fields import MOST_FIELDS, MOST_LOOKS, describe_arguments, describe_schema, same_json
from supervisor.core.approvals.forms import change_form_texts, read_form_texts, write_form_texts
from supervisor.core.declarations.schemas import schema_of
from supervisor.core.text.masks import MASK

NULLABLE = {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]}


@given(schemas_with_values())
@example(({"type": "array", "items": NULLABLE}, [None, {"b": None}]))
def test_a_value_comes_back_as_the_same_value(pair):
    """Every schema and every value that fits it, in fields and as JSON."""
    schema, value = pair
    field = describe_schema(schema, value)
    found = read_form_texts(field, write_form_texts(field, value))
    assert found.problems == {}
    assert same_json(found.value, value)


@given(st.dictionaries(NAMES, ANYTHING, max_size=5))
def test_arguments_come_back_also_without_a_schema(arguments):
    """A call of a tool that another process knows can be edited by its values alone."""
    field = describe_arguments(arguments)
    assert same_json(read_form_texts(field, write_form_texts(field, arguments)).value, arguments)


def test_many_fields_of_json_do_not_each_look_at_many_definitions():
    """Each may refer to all of them. The whole is checked in any case."""
    looked = []

    def narrow(schema):
        looked.append(len(schema.get("$defs", ())))
        return dict(schema)

    tuples = {"prefixItems": [{"$ref": "#/$defs/d0"}], "type": "array"}
    schema = {"type": "object", "properties": {f"p{n}": tuples for n in range(390)}}
    schema["$defs"] = {f"d{n}": {"type": "string"} for n in range(2000)}
    field = describe_schema(schema, narrow=narrow)
    assert {part.kind for part in field.parts} == {"json"}
    assert sum(looked) <= 2 * MOST_LOOKS
    assert read_form_texts(field, {"f.0": "[1]"}).problems


@given(ANYTHING, st.dictionaries(st.text("f.:n0123blank"), st.text()))
def test_no_schema_and_no_submitted_form_raises(schema, texts):
    """Schemas are of others, and a form may be forged."""
    field = describe_schema(schema if isinstance(schema, dict) else {"properties": schema})
    found = read_form_texts(field, texts)
    assert (found.value is UNSET) == bool(found.problems)
    assert read_form_texts(field, change_form_texts(field, texts, f"add:{next(iter(texts), 'f')}")) is not None


def test_a_short_schema_or_value_never_makes_many_fields():
    """References that multiply, and values that are deep, cost what they are long: one page serves everyone."""
    parts = {f"p{n}": {"properties": {f"x{i}": {"$ref": f"#/$defs/p{n + 1}"} for i in range(10)}} for n in range(8)}
    field = describe_schema({"$ref": "#/$defs/p0", "$defs": {**parts, "p8": {"type": "string"}}})
    assert count(field) < 2 * MOST_FIELDS
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    made = describe_arguments({"deep": deep})
    assert same_json(read_form_texts(made, write_form_texts(made, {"deep": deep})).value, {"deep": deep})
    lists = describe_schema({"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {}}}})
    forged = {"f:n": "200", **{f"f.{n}:n": "200" for n in range(200)}}
    assert list(read_form_texts(lists, forged).problems) == ["f"]
    assert change_form_texts(lists, forged, "") == {}


def test_a_form_of_too_many_items_is_never_read_as_fewer():
    """What a person edits arrives whole, or not at all: items that were dropped in silence would be approved."""
    rows = {"rows": [["x"] * 200] * 3}
    field = describe_arguments(rows)
    assert same_json(read_form_texts(field, write_form_texts(field, rows)).value, rows)
    lists = describe_schema({"type": "array", "items": {"type": "array", "items": {"type": "string"}}})
    full = {"f:n": "3", "f.0:n": "200", "f.1:n": "200", "f.2:n": "97"}
    assert change_form_texts(lists, full, "add:f.2") == full, "no item more than can be read"
    assert change_form_texts(lists, full, "clear:f") == full


def test_a_schema_cannot_ask_for_a_form_without_end():
    """Each list asks for 200 items of the list in it. A list that would begin with too many takes JSON."""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(7):
        deep = {"type": "array", "minItems": 200, "items": deep}
    named = {"type": "object", "properties": {"deep": deep, "name": {"type": "string"}}, "required": ["deep", "name"]}
    field = describe_schema(named)
    assert len(write_form_texts(field)) < 2 * MOST_FIELDS
    rest = describe_schema({"type": "array", "items": deep})
    assert len(change_form_texts(rest, write_form_texts(rest), "add:f")) < 2 * MOST_FIELDS


def count(field) -> int:
    return 1 + sum(map(count, field.parts)) + (0 if field.items is None else count(field.items))


class Stop(msgspec.Struct):
    city: Annotated[str, msgspec.Meta(min_length=2)]
    nights: Annotated[int, msgspec.Meta(ge=1, le=30)] = 1


class Trip(msgspec.Struct):
    """A journey."""

    stops: list[Stop]
    kind: Literal["train", "bus"]
    luggage: bool
    note: str | None = None
    budget: float = 99.5
    home: Stop | None = None
    tags: dict[str, int] = {}


TRIP = describe_schema(schema_of(Trip), narrow=dict)


def kinds(field) -> Any:
    if field.kind == "object":
        return {part.label: kinds(part) for part in field.parts}
    return [kinds(field.items)] if field.kind == "list" else field.kind


def test_types_become_their_fields():
    """Each kind has its field, in the order of the type; free names take JSON."""
    stop = {"city": "text", "nights": "number"}
    assert kinds(TRIP) == {
        "stops": [stop],
        "kind": "choice",
        "luggage": "switch",
        "note": "text",
        "budget": "number",
        "home": stop,
        "tags": "json",
    }


def test_a_new_form_shows_the_defaults_and_asks_for_the_rest():
    """A default is there to be changed; what has none must be filled in, and each gap is told at its field."""
    texts = write_form_texts(TRIP)
    assert texts["f.4"] == "99.5"
    assert read_form_texts(TRIP, {**texts, "f.1": "0", "f.2": "true"}).value == {
        "stops": [],
        "kind": "bus",
        "luggage": True,
        "budget": 99.5,
        "tags": {},
    }
    assert set(read_form_texts(TRIP, texts).problems) == {"f.1", "f.2"}


def test_items_are_added_and_removed_by_their_buttons():
    """A list grows and shrinks with what was typed in it; an object that may be left out is put in by a button."""
    texts = change_form_texts(TRIP, write_form_texts(TRIP), "add:f.0")
    texts = change_form_texts(TRIP, {**texts, "f.0.0.0": "Rome", "f.1": "1", "f.2": "false"}, "add:f.0")
    texts = change_form_texts(TRIP, {**texts, "f.0.1.0": "Oslo", "f.0.1.1": "3"}, "add:f.5")
    assert read_form_texts(TRIP, {**texts, "f.5.0": "Bern"}).value["stops"] == [
        {"city": "Rome", "nights": 1},
        {"city": "Oslo", "nights": 3},
    ]
    fewer = change_form_texts(TRIP, {**texts, "f.5.0": "Bern"}, "remove:f.0.0")
    found = read_form_texts(TRIP, fewer).value
    assert (found["stops"], found["home"]) == ([{"city": "Oslo", "nights": 3}], {"city": "Bern", "nights": 1})
    assert "home" not in read_form_texts(TRIP, change_form_texts(TRIP, fewer, "clear:f.5")).value


@pytest.mark.parametrize(
    ("typed", "wrong"),
    [
        ({"f.0.0.0": "R"}, "f.0.0.0"),
        ({"f.0.0.0": ""}, "f.0.0.0"),
        ({"f.0.0.1": "0"}, "f.0.0.1"),
        ({"f.0.0.1": "1.5"}, "f.0.0.1"),
        ({"f.0.0.1": "one"}, "f.0.0.1"),
        ({"f.1": "7"}, "f.1"),
        ({"f.2": "maybe"}, "f.2"),
        ({"f.4": "1e999"}, "f.4"),
        ({"f.6": '{"a": "b"}'}, "f.6"),
        ({"f.6": "{"}, "f.6"),
    ],
)
def test_a_misfit_is_told_at_its_field(typed, wrong):
    """Bounds, patterns, numbers, choices, JSON: the problem has the place of its field, and no other field has one."""
    texts = {**change_form_texts(TRIP, write_form_texts(TRIP), "add:f.0"), "f.0.0.0": "Rome", "f.1": "0", "f.2": "true"}
    assert read_form_texts(TRIP, texts).problems == {}
    assert list(read_form_texts(TRIP, {**texts, **typed}).problems) == [wrong]


def test_no_content_means_what_the_person_says():
    """Left out, null and empty are different values of an optional text."""
    field = describe_schema({"type": "object", "properties": {"a": {"type": ["string", "null"], "default": "x"}}})
    for blank, value in [("absent", {}), ("null", {"a": None}), ("empty", {"a": ""})]:
        assert read_form_texts(field, {"f.0": "", "f.0:blank": blank}).value == value
    assert read_form_texts(field, {"f.0": ""}).value == {}


def test_a_mask_may_stay_and_a_secret_may_be_replaced():
    """An edit that leaves the mask keeps the secret, of any type."""
    schema = {"type": "object", "properties": {"pin": {"type": "integer"}, "n": {"type": "integer"}}}
    field = describe_arguments({"pin": MASK, "n": 1}, schema, ["pin"])
    texts = write_form_texts(field, {"pin": MASK, "n": 1})
    assert read_form_texts(field, texts).value == {"pin": MASK, "n": 1}
    assert read_form_texts(field, {**texts, "f.0": "1234"}).value == {"pin": 1234, "n": 1}
