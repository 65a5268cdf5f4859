"""Which requests are for the same call: a decision that was made while no agent lived answers only such a one."""

import pytest

from supervisor.agents.acp.permissions import CODEX, MAX_CLAIM_CHARACTERS, TITLE, claims_in, is_same, read_request
from supervisor.core.calls.rules import allow, policy_of


def request(program=CODEX, **told):
    """Return a request of a program with these fields of a tool call."""
    return read_request("coder", {"toolCallId": "c1", "kind": "execute", **told}, [], program)


def codex(call, command):
    """Return the raw input of a command as Codex gives it."""
    of_request = {"call_id": call, "turn_id": f"turn of {call}", "started_at_ms": len(call)}
    return {**of_request, "command": ["/bin/bash", "-lc", command], "cwd": "/srv"}


@pytest.mark.parametrize(
    ("before", "now", "are_same"),
    [
        ({"command": "ls"}, {"command": "ls"}, True),
        ({"command": "ls"}, {"command": "rm"}, False),
        (codex("call_1", "ls"), codex("call_20", "ls"), True),
        (codex("call_1", "ls"), codex("call_1", "rm"), False),
        ({"command": "ls", "description": "look"}, {"command": "ls", "description": "list"}, True),
        ({"path": "a", "description": "look"}, {"path": "a", "description": "list"}, False),
        ({}, {}, False),
        (None, None, False),
    ],
)
def test_the_same_call_has_the_same_raw_input_without_what_names_the_request(before, now, are_same):
    """Requests that say nothing at all are never the same."""
    earlier = request(rawInput=before)
    assert is_same(earlier.tool, earlier.given, request(rawInput=now), earlier.seen) is are_same


def _diff(text, path="a.py"):
    return {"type": "diff", "path": path, "oldText": "", "newText": text}


def _text(text):
    return {"type": "content", "content": {"type": "text", "text": text}}


@pytest.mark.parametrize(
    ("now", "are_same"),
    [
        ({}, True),
        ({"rawInput": {}}, True),
        ({"rawInput": {"command": "rm x"}}, False),
        ({"kind": "edit"}, False),
        ({"title": "rm y"}, False),
        ({"content": [_diff("two"), _text("because")]}, False),
        ({"content": [_diff("one"), _text("for another reason")]}, False),
        ({"content": [_diff("one", "b.py"), _text("because")]}, False),
        ({"locations": [{"path": "/srv/a", "line": 2}]}, False),
        ({"locations": []}, False),
    ],
)
def test_without_raw_input_the_same_call_is_one_of_which_a_person_saw_the_same(now, are_same):
    """That is its kind, its title, and all of its content and its places."""
    told = {"title": "rm x", "content": [_diff("one"), _text("because")], "locations": [{"path": "/srv/a", "line": 1}]}
    earlier = request(**told)
    assert is_same(earlier.tool, earlier.given, request(**told | now), earlier.seen) is are_same


@pytest.mark.parametrize(
    "content",
    [
        [_diff("x" * (MAX_CLAIM_CHARACTERS + 1))],
        [_text("x" * (MAX_CLAIM_CHARACTERS + 1))],
        [{"type": "terminal", "terminalId": "t1"}],
        [{"type": "content", "content": {"type": "image", "data": "", "mimeType": "image/png"}}],
    ],
)
def test_a_call_without_raw_input_that_no_card_shows_whole_is_never_the_same(content):
    """Two large edits look alike on a card."""
    one = request(title="edit", content=content)
    assert not is_same(one.tool, one.given, one, one.seen)


@pytest.mark.parametrize("program", [None, "codex", "phone-agent"])
def test_fields_named_as_the_ids_of_codex_are_arguments_of_every_other_program(program):
    """They are shown, compared and ruled: which line is hung up on is what the call is about."""
    one, other = (request(program, rawInput={"call_id": line, "sure": True}) for line in ("emergency", "test"))
    assert one.arguments["call_id"] == "emergency"
    assert not is_same(one.tool, one.given, other)
    rules = [allow(one.tool, '{"call_id": "emergency", "sure": true}')]
    assert [policy_of(rules, each.content, root_session=None) is None for each in (one, other)] == [False, True]


def test_the_ids_of_codex_are_shown_and_not_ruled():
    """They are claims, also where a raw input has nothing else: then it says nothing of the call."""
    one = request(rawInput=codex("call_1", "ls"))
    assert (one.arguments["call_id"], one.ids) == ("call_1", ("call_id", "turn_id", "started_at_ms"))
    assert set(one.content.ruled) == {"command", "cwd"}
    bare = request(rawInput={"call_id": "call_1"})
    assert not is_same(bare.tool, bare.given, bare)


@pytest.mark.parametrize("taken", [[TITLE], [TITLE, f"{TITLE} (2)"]])
def test_a_field_of_the_raw_input_is_never_a_claim_of_ours(taken):
    """It keeps its name, so that rules and people see it, and what the agent says has another one."""
    made = request(rawInput=dict.fromkeys(taken, "rm -rf /srv"), title="look at a file")
    assert set(made.content.ruled) == set(taken)
    (title,) = [name for name in made.arguments if name not in taken]
    assert made.arguments[title] == "look at a file"
    assert title in claims_in(made.given)
    assert not set(taken) & set(claims_in(made.given))
