"""Which requests are for the same call: a decision that was made while no agent lived answers only such a one."""

import pytest
from msgspec.structs import replace

from supervisor.agents.acp.permissions import (
    CODEX,
    DIFF,
    MAX_CLAIM_CHARACTERS,
    TITLE,
    claims_in,
    edits_in,
    is_same,
    paths_in,
    read,
)
from supervisor.agents.acp.updates import Updates
from supervisor.core.calls.rules import allow, deny, named_paths, policy_of


def request(program=CODEX, **told):
    """Return a request of a program with these fields of a tool call."""
    return read("coder", {"toolCallId": "c1", "kind": "execute", **told}, [], program)


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


LONG = "x\n" * MAX_CLAIM_CHARACTERS
DIFFERENT = [
    ([_diff(f"{LONG}one")], [_diff(f"{LONG}two")]),
    ([_diff(f"one\n{LONG}")], [_diff(f"two\n{LONG}")]),
    ([_diff("one\r\n")], [_diff("one\n")]),
    ([{**_diff("one"), "oldText": None}], [_diff("one")]),
    ([_text(f"{LONG}one")], [_text(f"{LONG}two")]),
    ([{"type": "terminal", "terminalId": "t1"}], [{"type": "terminal", "terminalId": "t2"}]),
    (5, "x"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_calls_without_raw_input_that_differ_have_different_cards(one, other):
    """All that the agent says is a claim, however long, so a card that is too small for it cannot approve."""
    first, second = (read("coder", note(content), []) for content in (one, other))
    assert is_same(first.tool, None, read("coder", note(one), []), first.seen)
    assert not is_same(first.tool, None, second, first.seen)
    assert first.arguments != second.arguments
    assert {*first.arguments} <= {*claims_in(None, (), first.arguments)}
    assert first.because == ""


def note(content):
    """Return what is known of a call with this content, as it comes."""
    return Updates("coder", None, None).note_call("c1", {"toolCallId": "c1", "title": "edit", "content": content})


def test_a_diff_that_is_too_long_to_compare_shows_what_is_between_its_equal_ends():
    change = {"type": "diff", "path": "a.py", "oldText": f"{LONG}old\nend", "newText": f"{LONG}new\nend"}
    shown = request(content=[change]).arguments[DIFF].split("\n")
    assert shown == [
        "--- a.py",
        "+++ a.py",
        f"@@ -{MAX_CLAIM_CHARACTERS + 1},1 +{MAX_CLAIM_CHARACTERS + 1},1 @@",
        "-old",
        "+new",
    ]


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


@pytest.mark.parametrize(
    "changes",
    [
        {"/srv/app/a": {"type": "delete"}, "link/key": {"type": "add", "content": "x"}},
        {"/srv/app/a": {"type": "update", "unified_diff": "", "move_path": "/etc/key"}},
        {"/srv/app/a": {"update": {"unified_diff": "", "move_path": "../../etc/key"}}},
    ],
)
def test_the_files_that_codex_changes_are_paths(changes):
    """Their names are the paths, and a change says where its file goes. A deny sees each of them; an allow covers the
    call if all of them are in its folder. Of another program such names may be anything."""
    made = request(rawInput={"call_id": "1", "changes": changes})
    content = replace(made.content, paths=paths_in(made.given, made.ids), folder="/srv/app")
    assert content.paths == ("changes",)
    names = named_paths((), content.arguments, content.paths, content.folder)
    settled = {each: each.replace("/srv/app/link", "/etc") for each in names}

    def said(*rules):
        found = policy_of(rules, content, root_session=None, settled=settled)
        return found and found[0]

    assert said(deny(content.tool, "/etc/**")) == "deny"
    assert said(allow(content.tool, "/srv/app/**")) is None
    inside = replace(content, values={**content.arguments, "changes": {"/srv/app/a": {"type": "delete"}}})
    assert policy_of([allow(content.tool, "/srv/app/**")], inside, root_session=None, settled=settled)[0] == "allow"
    other = request("phone", rawInput={"call_id": "1", "changes": changes})
    assert paths_in(other.given, other.ids) == ()


EDIT = {"filepath": "/srv/app/a.py", "diff": "--- a\n+++ a\n-x\n+y"}
CHANGE = {"type": "update", "unified_diff": "-x\n+y", "move_path": None}


@pytest.mark.parametrize(
    ("kind", "given", "edits"),
    [
        ("edit", EDIT, ("filepath",)),
        ("edit", {"path": "a", "oldText": "x", "newText": "y"}, ("path",)),
        (
            "edit",
            {"call_id": "1", "changes": {"/srv/app/a": CHANGE}, "grant_root": None, "reason": "why"},
            ("changes",),
        ),
        ("move", EDIT, ()),
        ("delete", EDIT, ()),
        ("other", EDIT, ()),
        ("edit", {**EDIT, "diff": "--- a\n+++ /dev/null\n-x"}, ()),
        ("edit", {**EDIT, "files": ["b"]}, ()),
        ("edit", {**EDIT, "path": "b"}, ()),
        ("edit", {**EDIT, "new_path": "b"}, ()),
        ("edit", {**EDIT, "command": "rm"}, ()),
        ("edit", {"call_id": "1", "changes": {"/srv/app/a": {"type": "delete"}}}, ()),
        ("edit", {"call_id": "1", "changes": {"/srv/app/a": {**CHANGE, "move_path": "b"}}}, ()),
        ("edit", {"call_id": "1", "changes": {"/srv/app/a": {"update": {"unified_diff": ""}}}}, ()),
        ("edit", {"call_id": "1", "changes": {"/srv/app/a": "x"}}, ()),
        ("edit", {"call_id": "1", "changes": {"/srv/app/a": CHANGE}, "grant_root": "/srv"}, ()),
        ("edit", None, ()),
        ("edit", ["a"], ()),
    ],
)
def test_an_edit_of_an_agent_is_one_whose_fields_say_nothing_else(kind, given, edits):
    """A deletion, a move, a command and a field that is not known are no edits, whatever kind the agent calls them."""
    made = request(kind=kind, rawInput=given)
    assert edits_in(made.tool, made.given, made.ids) == edits
