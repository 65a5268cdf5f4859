"""Questions at the terminal, without a terminal: what their cards say, and what a key means on them."""

import itertools
from datetime import UTC, datetime

import pytest
from test_cards import make_approval

from supervisor.channels.terminal.desk import Decide, Desk
from supervisor.channels.wording.cards import card_lines, decided, make_card, summary
from supervisor.core.values import Answer, Deny

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_question(**changes):
    asked = {"question": "Which?", "kind": "question", "tool": "", "arguments": None, "options": ()}
    return make_approval(**{**asked, **changes})


def make_desk(*questions):
    desk = Desk("ana", 0.4)
    for question in questions:
        desk.add(question, 0.0)
        desk.whole.add((question.id, None))
    return desk


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"choices": ("staging", "production")}, "2", "production"),
        ({"schema": {"type": "boolean"}}, "y", True),
        ({"schema": {"type": "boolean"}}, "n", False),
    ],
)
def test_a_choice_has_its_key_once_it_could_be_read(changes, key, value):
    """Number keys choose, y and n say yes and no; what was shown only just now, or in part, is not answered."""
    desk = make_desk(make_question(id="q", **changes))
    assert desk.press([key], 0.1) is None
    assert desk.press([key], 1.0) == Decide("q", Answer(value=value, by="ana"))
    desk.whole.clear()
    assert desk.press([key], 2.0) is None


def test_an_answer_is_typed_and_an_invalid_one_is_kept_as_a_draft():
    """JSON where the question asks for it; an empty answer is none yet."""
    desk = make_desk(make_question(id="q", schema={"type": "integer"}))
    desk.press(["j"], 1.0)
    assert desk.press([*"seven", "enter"], 1.0) is None
    desk.press(["j"], 1.0)
    assert desk.line.text == "seven"
    assert desk.press(["ctrl-u", "7", "enter"], 1.0) == Decide("q", Answer(value=7, by="ana"))
    free = make_desk(make_question(id="f"))
    free.press(["a"], 1.0)
    assert free.press(["enter"], 1.0) is None
    free.press(["a"], 1.0)
    assert free.press([*"a b", "enter"], 1.0) == Decide("f", Answer(value="a b", by="ana"))


def test_an_answer_is_filled_in_field_by_field_and_seen_before_it_is_sent():
    """A line that does not fit is asked again, Up goes back, and a form that was left goes on where it was."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}}}
    desk = make_desk(make_question(id="q", schema={**schema, "required": ["n", "ok"]}))
    desk.press(["a"], 1.0)
    assert desk.press([*"x", "enter"], 1.0) is None
    assert desk.message
    desk.press(["ctrl-u", "7", "enter"], 1.0)
    desk.press(["up"], 1.0)
    assert desk.line.text == "7"
    desk.press(["enter"], 1.0)
    desk.press(["esc"], 1.0)
    desk.press(["a"], 1.0)
    assert desk.press([*"yes", "enter"], 1.0) is None
    assert desk.line.text == '{"n": 7, "ok": true}'
    assert desk.press(["enter"], 1.0) == Decide("q", Answer(value={"n": 7, "ok": True}, by="ana"))


def test_nothing_approves_or_edits_a_question_and_it_may_be_declined():
    """The keys of a call do nothing to it; d declines to answer."""
    desk = make_desk(make_question(id="q", choices=("x",)))
    for key in ("a", "e", "s", "w", "y", "n", "2"):
        assert desk.press([key], 1.0) is None
        assert (desk.line, desk.granting) == (None, None)
    desk.press(["d"], 1.0)
    assert desk.press([*"later", "enter"], 1.0) == Decide("q", Deny(by="ana", reason="later"))


def test_no_key_that_selects_a_card_answers_another():
    """Whoever walks over the cards, with one key again and again, decides nothing on the way."""
    keys = [*"abcdefghijklmnopqrstuvwxyz123456789", "tab", "backtab", "left", "right", "up", "down"]
    kinds = [{"choices": tuple("abc")}, {"schema": {"type": "boolean"}}, {}]
    selects, decides = set(), set()
    for key, kind in itertools.product(keys, kinds):
        desk = make_desk(make_question(id="first", **kind), make_question(id="second"), make_question(id="third"))
        if desk.press([key], 1.0) is not None:
            decides.add(key)
        elif desk.selected != "first":
            selects.add(key)
    assert (selects >= {"tab", "backtab"}, decides >= {"1", "y"}, selects & decides) == (True, True, set())


def test_a_card_of_a_question_shows_its_words_and_every_way_to_answer():
    """No text in it imitates ours: choices stand in quotes, each of several lines after a gutter."""
    hostile = make_question(question="Which?\napproval  deadbeef\x1b[2J", choices=("deny", "a\u202eb"))
    card = make_card(hostile, NOW)
    assert [choice.key for choice in card.choices] == ["1", "2", "d"]
    lines = card_lines(card, {choice.word: "COMMAND" for choice in card.choices}).splitlines()
    assert not any(line.strip().startswith("approval  deadbeef") for line in lines)
    assert not any(char in "\n".join(lines) for char in "\x1b\u202e")
    assert "“deny”" in [choice.word for choice in card.choices]
    many = make_card(make_question(choices=tuple(f"c{n}" for n in range(12))), NOW)
    assert [choice.key for choice in many.choices] == ["a", "d"]
    assert "c11" in {fact.label: fact.text for fact in many.facts}["choices"]


def test_lists_and_retired_cards_say_what_was_asked_and_answered():
    """In one line each."""
    answered = make_question(status="answered", decision="answer", answer=["a"], by="ana", decided_at=NOW)
    assert summary(answered) == "Which?"
    assert 'answered ["a"] by ana' in decided(answered, NOW)
    for status in ("denied", "expired", "withdrawn"):  # what would not run now was never asked
        assert decided(make_question(status=status), NOW) != decided(make_approval(status=status), NOW)
    asked, escalated = (make_card(make_question(escalated_to=names), NOW).facts for names in ((), ("ops",)))
    assert [fact.text for fact in (*asked, *escalated) if fact.label == "also asks"] == ["ops"]
