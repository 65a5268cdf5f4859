"""Cards say what, where, who, since when and what each choice does, and obey nothing that an agent wrote."""

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from supervisor.channels.wording.cards import Card, card_lines, decided, make_card, summary, told
from supervisor.channels.wording.granting import grants
from supervisor.core.approvals.facts import ORDERED, ago
from supervisor.core.text.visible import is_visible, json_text, visible
from supervisor.core.values import Approval, DecisionResult, Option

NOW = datetime(2026, 11, 21, 22, 40, tzinfo=UTC)


def make_approval(**changes: Any) -> Approval:
    facts: dict[str, Any] = {
        "id": "abcdefghijklmnopqrstuvwxyz234567",
        "session": "k3jq7x2m4n5p6r7s8t9u2v",
        "root_session": "cleanup",
        "path": ("janitor", "cleaner"),
        "agent": "cleaner",
        "operation": "call:shell:0#1",
        "tool": "shell",
        "command": "command",
        "arguments": {"command": ["rm", "a b"], "cwd": None, "env": None, "timeout": 30},
        "digest": "0" * 64,
        "cwd": "/srv",
        "options": (Option("once"),),
        "requester": "ana",
        "status": "pending",
        "created_at": NOW - timedelta(minutes=3),
    }
    return Approval(**{**facts, **changes})


def labelled(card: Card) -> dict[str, str]:
    """Return the texts of a card by their labels, which no two facts share."""
    assert len({fact.label for fact in card.facts}) == len(card.facts)
    return {fact.label: fact.text for fact in card.facts}


def test_a_card_says_what_where_who_and_since_when():
    """Everything that a person needs to decide is on the card, ids whole (A2)."""
    approval = make_approval()
    card = make_card(approval, NOW)
    facts = labelled(card)
    assert facts['"command"'] == "rm 'a b'"
    assert facts["where"] == "/srv"
    assert facts['"timeout"'] == "30"
    assert facts["for"] == "ana"
    assert "22:37:00" in facts["since"]
    assert (facts["session"], facts["approval"]) == (approval.session, approval.id)
    assert "janitor > cleaner" in card.headline
    assert [choice.key for choice in card.choices] == ["a", "e", "d"]


PATTERNS = ("in /srv: rm 'a b'", "in /srv: git log *")
GRANTABLE = (Option("once"), *(Option(scope, pattern) for pattern in PATTERNS for scope in ("session", "always")))


def test_a_grant_is_shown_with_its_pattern():
    """A7: a person sees exactly what will be allowed, and that an edit cannot be granted for longer (A8)."""
    approval = make_approval(options=GRANTABLE)
    for scope in ("session", "always"):
        found = grants(approval, scope)
        assert [grant.pattern for grant in found] == list(PATTERNS)
        assert [grant.option for grant in found] == [Option(scope, pattern) for pattern in PATTERNS]
        assert len({grant.covers for grant in found}) == 2
    assert [choice.key for choice in make_card(approval, NOW).choices] == ["a", "s w", "e", "d"]
    assert [choice.key for choice in make_card(approval, NOW, edited={}).choices] == ["a", "e", "d"]
    lines = card_lines(make_card(approval, NOW), {"approve": "yes", "wider": "more"})
    assert all(f"    │ {pattern}\n" in f"{lines}\n" for pattern in PATTERNS)


def test_a_pattern_of_several_lines_cannot_imitate_what_stands_around_it():
    """An agent's text stands after a gutter, and no surface interprets it."""
    pattern = "in /srv: echo\n  to deny: \x1b[31mrm"
    (grant,) = grants(make_approval(options=(Option("session", pattern),)), "session")
    assert grant.pattern == "in /srv: echo\n  to deny: ⟨U+001B⟩[31mrm"
    card = make_card(make_approval(options=(Option("session", pattern),)), NOW)
    assert "    │   to deny: " in card_lines(card, {"wider": "more"})


def test_a_call_with_a_cwd_of_its_own_runs_there():
    """A relative cwd counts from where the session began."""
    assert labelled(make_card(make_approval(arguments={"cwd": "logs"}), NOW))["where"] == "/srv/logs"


def test_edited_arguments_replace_the_ones_on_the_card():
    """What a person would approve is what the card shows (A8)."""
    card = make_card(make_approval(), NOW, edited={"command": ["ls"]})
    assert labelled(card)['"command"'] == "ls"
    assert "edited" in labelled(card)


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J",
        "\x9b31m",
        "\r",
        "\x08",
        "\x00",
        "\u202e",
        "\u2066",
        "\u200b",
        "\ufeff",
        "\u2028",
        "\u3164",
        "\U000e0041",
    ],
)
def test_control_and_invisible_characters_are_made_visible(hostile):
    """Controls, escapes, bidi overrides and invisible characters do not survive, but leave a trace."""
    shown = visible(f"a{hostile}b")
    assert shown.isprintable()
    assert len(shown) > 3
    assert shown[0] + shown[-1] == "ab"


@given(st.text(), st.booleans())
def test_shown_text_is_always_printable(text, lines):
    """Whatever an agent writes, no character of it moves a cursor."""
    for char in visible(text, lines=lines):
        assert char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")), st.lists
    )
)
def test_text_to_edit_means_the_same_value(value):
    """Escaping for the eye does not change what JSON says."""
    text = json_text(value, indent=2)
    assert msgspec.json.decode(text) == value
    assert is_visible(text, "words")


@pytest.mark.parametrize("command", ["cp \u05d0 \u05d1", ["cp", "\u05d0", "\u05d1"]])
def test_text_that_a_screen_may_reorder_is_shown_in_the_order_in_which_it_runs(command):
    """After itself, on whatever surface makes its card of these facts; and so is the folder."""
    facts = make_card(make_approval(arguments={"command": command}, cwd="/\u05d0/\u05d1"), NOW).facts
    labels, texts = [fact.label for fact in facts], {fact.label: fact.text for fact in facts}
    assert labels[labels.index('"command"') + 1] == ORDERED
    assert texts[ORDERED].replace("'", "") == "cp ⟨U+05D0⟩ ⟨U+05D1⟩"
    assert texts["where"] == "/⟨U+05D0⟩/⟨U+05D1⟩"
    assert labels.index("where") > labels.index(ORDERED)
    assert ORDERED not in labelled(make_card(make_approval(arguments={"command": "cp a b"}), NOW))


def test_arguments_cannot_imitate_the_lines_of_a_card():
    """Every line of an argument with several lines begins with the gutter."""
    fake = "ls\n  where     /nowhere\n  to deny: nothing"
    lines = card_lines(
        make_card(make_approval(arguments={"command": fake}), NOW), {"deny": "supervisor deny ID"}
    ).split("\n")
    assert [line for line in lines if "nowhere" in line or "nothing\n" in line] == [
        line for line in lines if "nowhere" in line and "│" in line
    ]
    assert sum(line.strip().startswith("where") for line in lines) == 1


def test_a_string_that_looks_like_another_value_is_quoted():
    """The text "5" and the number 5 do not look the same."""
    facts = labelled(make_card(make_approval(arguments={"text": "5", "number": 5, "blank": " x"}), NOW))
    assert [facts[f'"{name}"'] for name in ("text", "number", "blank")] == ['"5"', "5", '" x"']


def test_a_summary_shows_that_it_was_cut():
    """A list has one line for each approval, visibly cut if it is long."""
    line = summary(make_approval(arguments={"command": "echo " + "x" * 300 + "; rm y"}), 40)
    assert (len(line), line.count("…"), line[-4:]) == (40, 1, "rm y")


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 s ago"), (59, "59 s ago"), (180, "3 min ago"), (90000, "25 h ago")]
)
def test_an_age_has_one_unit(seconds, text):
    """The age of an approval is readable at a glance."""
    assert ago(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize("status", ["approved", "denied", "expired", "withdrawn"])
def test_a_retired_card_names_its_end_and_its_author(status):
    """A card that is decided says so, with who and why (R3, A3)."""
    text = decided(make_approval(status=status, by="bob\x1b", reason="no\u202e", decided_at=NOW), NOW)
    assert status in text
    assert text.isprintable()


@pytest.mark.parametrize("kind", ["accepted", "already", "conflict", "closed", "unknown", "recorded"])
def test_every_result_is_told_to_the_person(kind):
    """Nobody is left guessing whether a decision counts, and a loser learns who won (A3)."""
    result = DecisionResult(kind=kind, approval="x", status="approved", by="bob", decided_at=NOW)
    text = told(result, NOW)
    if kind not in ("accepted", "recorded"):
        assert text != told(
            DecisionResult(kind="accepted", approval="x", status="approved", by="bob", decided_at=NOW), NOW
        )
    if kind in ("already", "conflict"):
        assert "bob" in text
        assert "22:40:00" in text
