"""Text from right to left on cards: as its readers expect, and in the order in which it runs where that is in doubt."""

from datetime import UTC, datetime

import pytest
from test_cards import make_approval

from supervisor.channels.discord import components
from supervisor.channels.slack import blocks
from supervisor.channels.telegram import messages
from supervisor.channels.wording.cards import make_card
from supervisor.channels.wording.lengths import DrawnFact, fit_facts, length
from supervisor.core.approvals.drawing import direction_of, isolated
from supervisor.core.approvals.facts import Fact, argument_facts, is_whole
from supervisor.core.calls.content import shown_content

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = "\u05d4\u05d4\u05d6\u05de\u05e0\u05d4 \u05d0\u05d5\u05e9\u05e8\u05d4 \u05dc\u05d9\u05d5\u05dd 3, 1,500$. "
ARABIC = "\u062a\u0645 \u062a\u0623\u0643\u064a\u062f \u0627\u0644\u062d\u062c\u0632 (7). "


@pytest.mark.parametrize("value", [WORDS * 9, [WORDS.strip(), ARABIC * 4], {"body": ARABIC * 5, "to": "ana"}])
def test_prose_is_never_repeated(value):
    """Of an argument, also in a list or an object: a screen draws it as its readers expect."""
    assert not any(fact.is_ordered for fact in argument_facts(shown_content("t", {"body": value})))


@pytest.mark.parametrize("value", ["\u05d0/\u05d1", ["\u05d0", "\u05d1"], {"a": "\u05d0-7"}])
def test_a_name_or_path_in_doubt_is_repeated(value):
    """Its pieces may change places on a screen."""
    assert argument_facts(shown_content("t", {"path": value}))[1].is_ordered


@pytest.mark.parametrize("surface", [messages, blocks, components])
@pytest.mark.parametrize("words", [WORDS, ARABIC])
def test_a_letter_from_right_to_left_takes_the_room_of_any_other(surface, words):
    """A page of it can be approved where a page of English can."""

    def fits(text):
        approval = make_approval(arguments={"body": text})
        return is_whole(approval, surface.shown_facts(approval))

    assert fits((words * 100)[:1500].strip())
    assert [fits("x" * n) for n in (1500, 9000)] == [True, False]


def test_a_line_from_right_to_left_is_isolated_in_chats():
    """It moves neither its label nor what follows; other lines are unchanged."""
    assert isolated(f"a\n{WORDS}") == f"a\n\u2068{WORDS}\u2069"
    body = Fact(kind="argument", name="body", text=f"{WORDS}\n" * 400)
    own = Fact(kind="ours", name="approval", text="a" * 40)
    facts, missing = fit_facts([DrawnFact(fact=each, label=each.label, text=each.text) for each in (body, own)], 900)
    assert missing
    assert facts[0].text.count("\u2068") == facts[0].text.count("\u2069") > 2
    assert sum(length(each.label) + length(each.text) for each in facts) <= 900


def test_a_name_from_right_to_left_is_isolated_in_chats():
    """Also a long one, which takes no more room than there is: numbers after it would be drawn before it."""
    for name, text, room in (("\u05d0\u05d1", "10 20", 900), ("\u05d0" * 90, f"{WORDS}\n" * 400, 300)):
        fact = Fact(kind="argument", name=name, text=text)
        (fitted,), _ = fit_facts([DrawnFact(fact=fact, label=fact.label, text=text)], room)
        assert fitted.label == isolated(fitted.label.strip("\u2068\u2069")) != fact.label
        assert length(fitted.label) + length(fitted.text) <= room


def test_a_page_lays_prose_out_by_its_first_letter_and_code_from_left_to_right():
    """JSON is code, too."""
    assert [direction_of(each) for each in (WORDS, "a b", "\u05d0", "/\u05d0/b", f'["{WORDS}"]')] == ["auto"] * 2 + [
        "ltr"
    ] * 3
    assert make_card(make_approval(kind="question", question=WORDS), NOW).facts[0].text == WORDS
