"""Forms on pages: an unchanged form is the value that it shows, also without scripts."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from page_facts import NOW, an_approval
from schemas_and_values import ANYTHING, NAMES, schemas_with_values
from submitting import Submitted

from supervisor.channels.web import rendering
from supervisor.channels.web.pages.forms import Misfilled, form_view, read_form
from supervisor.channels.web.pages.inbox import card_view, decision_of
from supervisor.channels.web.pages.starting import input_of, start_view
from supervisor.channels.web.pages.visits import Viewer
from supervisor.core.approvals.fields import describe_schema, same_json
from supervisor.core.values import AgentView, Answer, Approve

FORM = rendering.environment().from_string(
    '{% import "forms.html" as forms %}<form>{{ forms.fields(form) }}<button>Go</button></form>'
)


def submitted(page: str, button: str) -> dict[str, str]:
    fields = Submitted(page, button).fields
    assert fields is not None
    return fields


def card_of(approval, typed=None) -> str:
    facts = {"viewer": Viewer("ana"), "here": "", "pending": 1, "stream": "/x", "told": "", "problem": ""}
    view = card_view(approval, NOW, typed=typed)
    return rendering.render("approval.html", NOW, view=view, typed=typed, **facts)


def a_question(schema: dict[str, Any]):
    asked = {"kind": "question", "question": "Which?", "tool": "", "arguments": None, "options": ()}
    return an_approval(**asked, schema=schema, editable=False)


@given(schemas_with_values())
def test_an_unchanged_form_submits_its_value(pair):
    """Every schema and every value, through the page: markup, the browser's line ends, and the form's fields."""
    schema, value = pair
    field = describe_schema(schema, value)
    assert same_json(read_form(field, submitted(FORM.render(form=form_view(field, "x", value)), "Go")), value)


@given(st.dictionaries(NAMES, ANYTHING, min_size=1, max_size=4))
def test_an_unchanged_edit_is_the_arguments(arguments):
    """A8: an edit sends all of the arguments, exactly as they are, but for what the person changes."""
    approval = an_approval(arguments=arguments)
    form = submitted(card_of(approval), "Approve with these arguments")
    decided = decision_of(approval, {**form, "decision": "edit"}, "ana")
    assert isinstance(decided, Approve)
    assert same_json(decided.arguments, arguments)


STOP = {"type": "object", "properties": {"city": {"type": "string", "minLength": 2}}, "required": ["city"]}
ASKED = a_question(
    {
        "type": "object",
        "properties": {"days": {"type": "integer", "minimum": 1}, "stops": {"type": "array", "items": STOP}},
        "required": ["days", "stops"],
    }
)


def test_buttons_add_and_remove_and_keep_what_was_typed():
    """Each press submits the whole form; its answer has one field more or less, which has the focus."""
    form = {**submitted(card_of(ASKED), "Answer"), "f.0": "x\t7", "press": "add:f.1"}
    page = card_of(ASKED, form)
    form = submitted(page, "Answer")
    assert (form["f.0"], form["f.1:n"], form["f.1.0.0"]) == ("x\t7", "1", "")
    assert re.search(r'name="f.1.0.0"[^>]* autofocus', page)
    fewer = submitted(card_of(ASKED, {**form, "press": "remove:f.1.0"}), "Answer")
    assert (fewer["f.1:n"], "f.1.0.0" in fewer) == ("0", False)


def test_a_problem_is_told_at_its_field_and_in_the_summary():
    """Nothing is decided, and nothing that was typed is lost; the summary has the focus, and leads to the fields."""
    form = {"decision": "answer", "fields": "1", "f.0": "none", "f.1:n": "1", "f.1.0.0": "R"}
    with pytest.raises(Misfilled) as wrong:
        decision_of(ASKED, form, "ana")
    assert set(wrong.value.problems) == {"f.0", "f.1.0.0"}
    page = card_of(ASKED, form)
    assert 'role="alert" tabindex="-1" autofocus' in page
    for place in wrong.value.problems:
        assert f'href="#{ASKED.id}-{place}"' in page
        assert re.search(rf'id="{ASKED.id}-{place}"[^>]*aria-describedby="[^"]*-problem [^>]*aria-invalid="true"', page)
    assert {**submitted(page, "Answer"), "csrf": ""} == {**form, "csrf": ""}
    right = {**form, "f.0": "2", "f.1.0.0": "Rome"}
    assert decision_of(ASKED, right, "ana") == Answer(value={"days": 2, "stops": [{"city": "Rome"}]}, by="ana")


def test_the_enter_key_decides_nothing():
    """A line of a form is sent by Enter: the first button of each form only checks it."""
    for page in (card_of(ASKED), card_of(an_approval())):
        for form in re.findall(r"<form(?:(?!</form>).)*inputmode.*?</form>", page, re.DOTALL):
            assert re.findall(r"<button[^>]*>", form)[0].startswith('<button class="unseen" name="press" value="check"')


def test_each_agent_is_started_by_a_form_of_its_input():
    """Without an input, with fields, or as JSON; the same form starts one session."""
    nothing = AgentView(name="sweep", description="", input=None)
    assert input_of(nothing, {}) == ()
    several = AgentView(name="plan", description="", input=ASKED.schema)
    assert input_of(several, {"fields": "1", "f.0": "3", "f.1:n": "0"}) == ({"days": 3, "stops": []},)
    anything = AgentView(name="any", description="", input={})
    assert (start_view(anything).form, input_of(anything, {"json": "[1]"})) == (None, ([1],))
    assert start_view(several, {"session": "s1", "press": "add:f.1"}).session == "s1"


def test_an_edit_has_the_fields_of_the_tool():
    """Choices, bounds, defaults and descriptions come from the schema that was journaled with the call."""
    schema = {
        "properties": {
            "size": {"enum": ["s", "m"]},
            "count": {"type": "integer", "maximum": 9, "description": "how many"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        }
    }
    page = card_of(an_approval(arguments={"size": "m", "count": 2, "note": None, "text": "a"}, schema=schema))
    form = submitted(page, "Approve with these arguments")
    assert "how many" in page
    assert "whole number, at most 9" in page
    with pytest.raises(Misfilled) as wrong:
        decision_of(an_approval(arguments={"count": 2}, schema=schema), {**form, "f.0": "10"}, "ana")
    assert list(wrong.value.problems) == ["f.0"]
