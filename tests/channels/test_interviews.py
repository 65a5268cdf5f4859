"""Forms field by field: each line is checked where it is typed, and unchanged fields give the value back."""

from hypothesis import given
from schemas_and_values import schemas_with_values

from supervisor.channels.chat.interview import NOTHING, Interview
from supervisor.core.approvals.fields import describe_schema, same_json

STOP = {"type": "object", "properties": {"city": {"type": "string"}, "nights": {"type": "integer", "default": 1}}}
STOP["required"] = ["city"]
TRIP = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["bus", "train"], "description": "of transport"},
        "stops": {"type": "array", "items": STOP},
        "home": {"anyOf": [STOP, {"type": "null"}], "default": None},
        "pay": {"type": "boolean"},
        "note": {"type": "string", "default": ""},
    },
    "required": ["kind", "stops", "pay"],
}


def answer(interview: Interview, *lines: str) -> list[str | None]:
    """Type lines; returns the problem of each."""
    return [interview.take(line) for line in lines]


@given(schemas_with_values())
def test_lines_that_keep_each_text_give_the_value_back(pair):
    """A person who accepts what each prompt shows changes nothing."""
    schema, value = pair
    interview = Interview(describe_schema(schema, value), value)
    while (prompt := interview.prompt) is not None:
        assert interview.take(prompt.text) is None
    assert same_json(interview.reading.value, value)


def test_a_person_fills_in_field_after_field():
    """Choices by their text, lists by yes and no; what does not fit is asked again."""
    interview = Interview(describe_schema(TRIP))
    assert (interview.prompt.label, interview.prompt.about) == ("kind", "one of bus, train: of transport")
    assert [bool(each) for each in answer(interview, "ship", "", "train")] == [True, True, False]
    assert [bool(each) for each in answer(interview, "maybe", "yes", "", "Rome", "two", "2")] == [1, 0, 1, 0, 1, 0]
    assert answer(interview, "yes", "Oslo", "", "no", "no", "yes", NOTHING) == [None] * 7
    assert interview.prompt is None
    assert interview.reading.value == {
        "kind": "train",
        "stops": [{"city": "Rome", "nights": 2}, {"city": "Oslo"}],
        "pay": True,
        "note": "",
    }


def test_a_person_goes_back_and_removes():
    """A field can be typed again, the last item removed, and an object left out that was given."""
    value = {"kind": "bus", "stops": [{"city": "Rome"}, {"city": "Oslo"}], "home": {"city": "Bern"}, "pay": False}
    interview = Interview(describe_schema(TRIP, value), value)
    answer(interview, "train")
    assert interview.go_back()
    assert interview.prompt.text == "train"
    answer(interview, "bus", "Rome", "", "Oslo", "")
    assert interview.prompt.label == "stops"
    answer(interview, "remove", "no", "no", "no", "")
    assert interview.reading.value == {"kind": "bus", "stops": [{"city": "Rome"}], "pay": False}
