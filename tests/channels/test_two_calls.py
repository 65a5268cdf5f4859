"""A2, A11: two calls that differ have two cards, on every surface; names of arguments are no lines of ours."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given, strategies as st
from test_cards import make_approval
from test_default_arguments import on_page, on_terminal

from supervisor.channels.discord import components
from supervisor.channels.mail import letters
from supervisor.channels.notices import Hook, Ntfy
from supervisor.channels.slack import blocks
from supervisor.channels.telegram import messages
from supervisor.channels.wording.cards import all_facts, card_lines, make_card
from supervisor.cli.asked import listed_facts
from supervisor.core.approvals.facts import Fact, is_whole, name_text
from supervisor.core.ids import canonical_json
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval, Option
from supervisor.testing.channels import OURS

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
SECRET = "whsec_" + "AAAA" * 8
NTFY, HOOK = Ntfy(topic="t", detail="full"), Hook(url="https://h.example", secret=SECRET, detail="full")
SENDER = letters.mail_address("a@example.org")


def on_ntfy(approval: Approval) -> str:
    return NTFY._text(approval)  # what it sends


def on_hook(approval: Approval) -> str:
    return msgspec.json.encode(HOOK._data(approval)).decode()  # as above


def on_list(approval: Approval) -> str:
    return "\n".join(f"{fact.label}\t{fact.text}" for fact in listed_facts(approval, NOW))


SURFACES = {
    "plain": (lambda approval: card_lines(make_card(approval, NOW), {}), None),
    "list": (on_list, None),
    "terminal": (on_terminal, None),
    "web": (on_page, None),
    "slack": (lambda approval: json.dumps(blocks.card_blocks(approval, NOW)), blocks.shown_facts),
    "discord": (lambda approval: json.dumps(components.card_message(approval, NOW)), components.shown_facts),
    "telegram": (lambda approval: messages.card_message(approval)["text"], messages.shown_facts),
    "email": (
        lambda approval: letters.asked_letter(approval, None, "s", SENDER, NOW).get_content(),
        letters.shown_facts,
    ),
    "ntfy": (on_ntfy, NTFY.shows),
    "hook": (on_hook, HOOK.shows),
}
"""By name: what a surface shows, and the facts that it says it shows whole; None: all."""
PIECES = (
    *("where", "not set", "since", " (default)", " (claim)", '"', "”", "a", "b", ", ", ": ", " → ", "null", "[]", "1"),
    *("\n", "  ", "│ ", "where     /srv", "\n  where     /", '"a": ', "{", "}", "\\n", "é", "[secret]", "run by"),
    *("\t", "\\t", "\u202e", "⟨U+202E⟩", "⟨", "⟩", " " * 41, "⟨41 spaces⟩", "\u05d0", "\u043e"),
)
TEXTS = st.one_of(st.sampled_from(PIECES), st.lists(st.sampled_from(PIECES), max_size=4).map("".join))
WIDE = (" " * 82, "n" * 90, "\u5b57" * 60, "a " * 60)
"""Names that are wider than a screen, or blank on it."""
NAMES = st.one_of(st.sampled_from((*OURS, "command", "cwd", "old", "new", "old_string", "new_string", *WIDE)), TEXTS)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5]) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    arguments = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    names = sorted(arguments)
    some = st.lists(st.sampled_from(names), unique=True, max_size=2) if names else st.just([])
    return {
        "arguments": arguments,
        "command": draw(st.sampled_from([None, "command", *names])),
        "claims": tuple(draw(some)),
        "defaults": tuple(draw(some)),
        "because": draw(st.sampled_from(["", "", "where     /srv", "to look"])),
    }


def made(call: dict[str, Any]) -> Approval:
    return make_approval(tool="t", path=("a",), agent="a", options=(Option("once"),), editable=False, **call)


def meaning(call: dict[str, Any]) -> bytes:
    """Return what makes a call another one: a flag counts where it is of an argument that there is."""
    given, claims = call["arguments"], set(call["claims"])
    command = given.get(call["command"])
    is_words = isinstance(command, list) and bool(command) and all(isinstance(word, str) for word in command)
    is_command = is_words or isinstance(command, str)
    return canonical_json([given, sorted(claims), call["command"] if is_command else None])


def is_readable(approval: Approval) -> bool:
    """Whether white space at the end of a line tells nothing: screens do not show it."""
    texts = [fact.text for fact in all_facts(approval, NOW)]
    return all(line == line.rstrip() for text in texts for line in text.split("\n"))


@pytest.mark.parametrize("surface", SURFACES)
@given(one=calls(), other=calls())
def test_two_calls_that_differ_have_two_cards(surface, one, other):
    """Whatever arguments are named and hold, unless the card says that it does not show them whole."""
    assume(meaning(one) != meaning(other))
    draws, shows = SURFACES[surface]
    both = [made(each) for each in (one, other)]
    assume(all(map(is_readable, both)))
    cards = [draws(each) for each in both]
    is_one_whole = any(shows is None or is_whole(each, shows(each)) for each in both)
    assert cards[0] != cards[1] or not is_one_whole


@pytest.mark.parametrize("surface", SURFACES)
@given(name=NAMES, value=st.text("xyz", min_size=8, max_size=8))
@example(name=WIDE[0], value="x" * 8)
@example(name=WIDE[1], value="x" * 8)
def test_each_value_is_on_the_card_whatever_its_name(surface, name, value):
    """An argument named as one of our lines takes no place from it, and does not lose its own."""
    assume(name != "cwd")
    approval = made({"arguments": {name: value, "other": 1}})
    text = SURFACES[surface][0](approval)
    assert value in text
    assert visible(approval.requester) in text or surface in ("ntfy", "list")


@given(name=NAMES)
def test_no_label_of_an_argument_is_a_label_of_ours(name):
    """Whether it has a default value, is a command or a claim: its label begins with a quotation mark."""
    for kind in ("argument", "command", "claim"):
        for is_default in (False, True):
            label = Fact(kind=kind, name=name, text="", is_default=is_default).label
            assert label.startswith('"')
            assert label[: label.rindex('"') + 1] == name_text(name)
    assert not any(label.startswith('"') for label in OURS)


def test_a_surface_that_does_not_say_what_it_shows_shows_nothing_whole():
    """Each fact that a decision needs must be there, with all of its text; the others may be cut."""
    approval = made({"arguments": {"x": "y", "z": None}, "because": "a long story"})
    facts = all_facts(approval, NOW)
    assert not is_whole(approval, ())
    assert is_whole(approval, [fact for fact in facts if fact.is_needed])
    for left_out in facts:
        shown = [fact for fact in facts if fact != left_out]
        assert is_whole(approval, shown) is not left_out.is_needed


@pytest.mark.parametrize("surface", SURFACES)
def test_the_reasons_of_people_and_agents_are_on_the_card(surface):
    """Ours as ours, and the agent's as its own."""
    approval = made(
        {"arguments": {"x": "y"}},
    )
    approval = msgspec.structs.replace(approval, why="rule k3 asks", because="the disk is full", inputs=("live-1",))
    approval = msgspec.structs.replace(approval, path=("lead", "leaf"))
    text = SURFACES[surface][0](approval)
    if surface != "ntfy":
        assert all(each in text for each in ("rule k3 asks", "the disk is full", "live-1"))
