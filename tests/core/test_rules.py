"""Rules: what they say about a call, what a person is offered, and which rules are refused."""

from itertools import permutations

import msgspec
import pytest
from hypothesis import given, strategies as st

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.rules import (
    Rule,
    allow,
    ask,
    deny,
    find_option,
    grantable,
    inherit,
    make_rule,
    offer,
    policy_of,
)
from supervisor.core.declarations.tool_spec import tool
from supervisor.core.errors import InvalidInput
from supervisor.core.values import Option
from supervisor.tools import shell

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(max_size=4), JSON, max_size=3)


COMMANDS = {"shell": "command", "run": "script"}
"""The tools with a command, and its argument."""


@tool
async def deploy(environment: str) -> None: ...


def said(rules, name, arguments, *, cwd="/srv/app", root="root"):
    content = shown_content(name, arguments, folder=cwd, command=COMMANDS.get(name))
    answer = policy_of(rules, content, root_session=root)
    return answer[0] if answer else None


def options_for(name, arguments, *, cwd=None):
    return offer(grantable(shown_content(name, arguments, folder=cwd, command=COMMANDS.get(name))), arguments)


def command(text, **more):
    return {"command": text, "cwd": None, "env": None, "timeout": 30.0, **more}


@given(kinds=st.permutations(["allow", "deny", "ask", "allow", "other tool"]), dropped=st.sets(st.integers(0, 4)))
def test_deny_beats_ask_beats_allow_in_every_order(kinds, dropped):
    """The order of the rules does not matter, and another tool's rule does not count."""
    made = {"allow": allow, "deny": deny, "ask": ask, "other tool": lambda _: deny("other")}
    left = [kind for at, kind in enumerate(kinds) if at not in dropped]
    answer = policy_of([made[kind]("deploy") for kind in left], shown_content("deploy", {"x": 1}), root_session=None)
    strongest = next((kind for kind in ("deny", "ask", "allow") if kind in left), None)
    assert answer == (strongest and (strongest, made[strongest]("deploy")))


def test_a_doubtful_deny_asks_whatever_allows_in_every_order():
    """A call that a deny may mean never runs unasked, and a certain deny among the rules denies it."""
    doubtful, certain = deny("shell", "rm *"), deny("shell", "cat *")

    def said_of(rules, text):
        return policy_of(rules, shown_content("shell", command(text), command="command"), root_session=None)

    for rules in permutations([allow("shell"), allow("shell", "cat $x"), doubtful]):
        assert said_of(rules, "$x y") == ("ask", doubtful)
    for rules in permutations([allow("shell"), doubtful, certain]):
        assert said_of(rules, "cat `x`") == ("deny", certain)


def test_without_a_matching_rule_the_tools_own_policy_decides():
    """The rules return None, which is neither yes nor no."""
    assert said([], "deploy", {}) is said([allow("deploy", '{"x":1}')], "deploy", {"x": 2}) is None


def test_an_allow_names_all_arguments_and_a_deny_some_of_them():
    """With one argument more it is another call for an allow, and the same call for a deny."""
    call = {"environment": "staging", "options": {"force": True, "dry": False}, "count": 1}
    part = '{"options":{"force":true}}'
    assert said([allow("deploy", part)], "deploy", call) is None
    assert said([deny("deploy", part)], "deploy", call) == "deny"
    assert said([ask("deploy", ' { "count": 1.0 } ')], "deploy", call) == "ask"
    assert said([deny("deploy", '{"options":{"force":false}}')], "deploy", call) is None


@given(first=ARGUMENTS, second=ARGUMENTS)
def test_an_exact_pattern_allows_the_same_arguments_only(first, second):
    """Each offered pattern covers its call; another call is covered only if its JSON is the same."""
    for option in options_for("deploy", first)[1:]:
        rule = Rule(kind="allow", tool="deploy", pattern=option.pattern)
        assert said([rule], "deploy", first) == "allow"
        is_same = msgspec.json.encode(first, order="sorted") == msgspec.json.encode(second, order="sorted")
        assert said([rule], "deploy", second) is None or is_same
    assert not ("nan" in repr(first) and options_for("deploy", first)[1:])


@pytest.mark.parametrize("pattern", ["", "*", "[1]", "staging", '{"a":', '"x"', "null"])
def test_a_pattern_that_is_not_understood_is_refused_and_if_stored_never_allows(pattern):
    """A newer version may have written it: its allow does not count, its deny asks."""
    for make in (allow, deny, ask):
        with pytest.raises(InvalidInput):
            make(deploy, pattern)
    assert said([Rule(kind="allow", tool="deploy", pattern=pattern)], "deploy", {"a": 1}) is None
    assert said([Rule(kind="deny", tool="deploy", pattern=pattern)], "deploy", {"a": 1}) == "ask"


PREFIXES = (
    "$x|git|npm|python|env|find . -delete|ls;|git push|git -c a=b log|cd|tar|foo --bar|cp|m4|./git status|in /srv:|"
)
OTHERS = ["*", "", "  ", "git status\u200b", "in srv: ls", "x" * 1001]


@pytest.mark.parametrize("pattern", [*(f"{prefix} *" for prefix in PREFIXES.split("|")), *OTHERS])
def test_an_allow_that_could_not_work_as_written_is_refused(pattern):
    """Its author gets the error at once."""
    with pytest.raises(InvalidInput):
        allow(shell, pattern)


@pytest.mark.parametrize("pattern", ["*", "rm | x", "rm*", "$x", "in /srv: rm *", "for 60 s: rm", '{"command":"rm"}'])
def test_a_deny_that_is_easy_to_evade_is_refused(pattern):
    """A deny names a program; folder and time cannot be part of it."""
    with pytest.raises(InvalidInput):
        deny(shell, pattern)


def test_a_rule_names_one_tool():
    """By name or by the tool itself; a wildcard would silently match nothing."""
    assert allow(deploy) == allow("deploy")
    for name in ("", "*", "shell*"):
        with pytest.raises(InvalidInput):
            deny(name)


def test_a_command_is_the_argument_that_its_tool_declares():
    """Whatever the tool and the argument are called: `shell` is no special name, and neither is `command`."""
    call = {"script": "git status", "cwd": None}
    for rule in (allow("run", "git status *"), deny("run", "git"), ask("run", "git status")):
        assert said([rule], "run", call) == rule.kind
    offered = [each.pattern for each in options_for("run", call) if each.scope == "always"]
    assert offered == ["git status", "git status *"]
    other = {"script": "git status", "command": "rm x"}
    assert said([allow("run", "git status *")], "run", other) is said([deny("run", "rm")], "run", other) is None
    assert policy_of([allow("shell", "ls")], shown_content("shell", {"command": "ls"}), root_session=None) is None


def test_a_rule_on_a_tool_that_is_known_by_its_name_only_may_be_a_command_or_an_object():
    """In a tool without a command, a command allows nothing, and its deny asks. A broken object is no command."""
    assert allow("reviewer.execute", "git status *").pattern == "git status *"
    assert said([allow("deploy", "ls")], "deploy", {"command": "ls"}) is None
    assert said([deny("deploy", "ls")], "deploy", {"command": "cat"}) == "ask"
    for wrong in ('{"environment":staging}', "*", " ", "python *", "frob *"):
        with pytest.raises(InvalidInput):
            allow("reviewer.execute", wrong)


def test_a_deny_may_name_other_arguments_of_a_command():
    """The folder, for example. One that names the command itself would be easy to evade, so it asks."""
    assert deny(shell, '{"cwd":"/srv"}') == deny("shell", '{"cwd":"/srv"}')
    here = [deny("run", '{"cwd":"/srv"}')]
    assert said(here, "run", {"script": "ls", "cwd": "/srv/"}) == "deny"
    assert said(here, "run", {"script": "ls", "cwd": "/tmp"}) is None
    assert said([deny("run", '{"script":"rm x"}')], "run", {"script": "ls"}) == "ask"


def test_a_rule_of_a_session_counts_in_its_tree_only():
    """A rule without a session counts always."""
    rule = allow("deploy", session="root")
    assert said([rule], "deploy", {}) == "allow"
    assert said([rule], "deploy", {}, root="another") is said([rule], "deploy", {}, root=None) is None
    assert said([allow("deploy")], "deploy", {}, root="another") == "allow"


def test_a_sub_agent_narrows_its_rules_and_never_widens_them():
    """Its own rules can deny and ask; its own allow does not count."""
    above, own = [allow("a"), deny("b")], [allow("b"), allow("c"), deny("a"), ask("d")]
    rules = inherit(above, own)
    assert [said(rules, name, {}) for name in "abcd"] == ["deny", "deny", None, "ask"]


def test_a_cwd_argument_is_compared_as_the_folder_of_the_call():
    """A9: an allow covers one spelling of the folder on the card, a deny matches each spelling."""
    granted = options_for("build", {"cwd": "src", "fast": True}, cwd="/srv/app")[1].pattern
    assert granted == '{"cwd":"/srv/app/src","fast":true}'
    here, never = [allow("build", granted)], [deny("build", '{"cwd":"/srv/app/src"}')]
    for own, folder, allowed, denied in (
        ("src", "/srv/app", "allow", "deny"),
        ("/srv/app/src", "/tmp", "allow", "deny"),
        (None, "/srv/app/src", "allow", "deny"),
        ("../app/src", "/srv/app", None, "deny"),
        ("src", "/tmp", None, None),
        (7, "/srv/app/src", None, None),
    ):
        arguments = {"cwd": own, "fast": True}
        assert said(here, "build", arguments, cwd=folder) == allowed
        assert said(never, "build", arguments, cwd=folder) == denied


def test_a_command_is_covered_in_its_folder_and_time_only():
    """A pattern without a folder means the session's; one for longer than the tool's default must say so."""
    here, there = allow("shell", "npm run *"), allow("shell", "in '/srv/my app' for 600 s: npm run *")
    assert said([here], "shell", command("npm run build")) == "allow"
    assert said([here], "shell", command("npm run build", cwd="/srv/app")) == "allow"
    assert said([here], "shell", command("npm run build", cwd="/srv/my app")) is None
    assert said([here], "shell", command("npm run build", timeout=31.0)) is None
    assert said([there], "shell", command("npm run build", cwd="/srv/my app", timeout=600.0)) == "allow"
    assert said([there], "shell", command("npm run build"), cwd="/srv/my app") == "allow"
    assert said([there], "shell", command("npm run build")) is None
    assert said([there], "shell", command("npm run build", cwd="/srv/my app", timeout=601.0)) is None


def test_a_command_that_is_not_simple_is_covered_by_its_own_text_only():
    """Literally: with one more space it is another text."""
    rule = allow("shell", "make -j4 2>&1 | tail -n 3")
    assert said([rule], "shell", command("make -j4 2>&1 | tail -n 3")) == "allow"
    assert said([rule], "shell", command("make -j4 2>&1 | tail -n 3 ")) is None
    assert said([rule], "shell", command("make -j4 2>&1 |  tail -n 3")) is None


def test_a_simple_command_is_covered_as_text_and_as_a_list():
    """Only the words matter, except for programs that the shell has built in."""
    assert said([allow("shell", "git  log 'a b'")], "shell", command(["git", "log", "a b"])) == "allow"
    assert said([allow("shell", "cd /srv")], "shell", command("cd /srv")) == "allow"
    assert said([allow("shell", "cd /srv")], "shell", command(["cd", "/srv"])) is None
    assert said([allow("shell", '["git","log"]')], "shell", command(["git", "log"])) == "allow"
    assert said([allow("shell", '["git","log"]')], "shell", command("git log")) is None


@pytest.mark.parametrize(
    ("call", "patterns"),
    [
        (command("git status -s"), ["in /srv/app: git status -s", "in /srv/app: git status *"]),
        (command("npm run x", timeout=90.0), ["in /srv/app for 90 s: npm run x"]),
        (command(["git", "log"], cwd="/a b"), ["in '/a b': git log", "in '/a b': git log *"]),
        (command(["echo", "a\nb"]), ['in /srv/app: ["echo","a\\nb"]']),
        (command("ls; rm -rf ~"), ["in /srv/app: ls; rm -rf ~"]),
        (command("python x.py"), ["in /srv/app: python x.py"]),
        (command("ls *"), ['{"command":"ls *","cwd":"/srv/app","env":null,"timeout":30.0}']),
        (command("ls", env={"A": "b"}), ['{"command":"ls","cwd":"/srv/app","env":{"A":"b"},"timeout":30.0}']),
        (command("ls \u202ex"), []),
        (command("ls " + "x" * 1000), []),
        ({"command": 7}, []),
    ],
)
def test_a_person_is_offered_exact_patterns_and_a_prefix_that_only_looks(call, patterns):
    """Each is shown with its folder and time, covers the call, and can be written as a rule."""
    options = options_for("shell", call, cwd="/srv/app")
    assert options[0] == Option("once")
    assert list(options[1:]) == [Option(s, p) for p in patterns for s in ("session", "always")]
    for pattern in patterns:
        assert said([allow("shell", pattern)], "shell", call) == "allow"
        assert said([allow("shell", pattern)], "shell", call, cwd="/elsewhere") == (
            "allow" if call.get("cwd") else None
        )


def test_a_decision_names_an_option_that_was_offered():
    """Without a pattern it names the exact one; any other pattern was not offered."""
    options = options_for("shell", command("git status"))
    assert find_option(options, "once", None) == Option("once")
    assert find_option(options, "always", None) == Option("always", "git status")
    assert find_option(options, "session", "git status *") == Option("session", "git status *")
    assert find_option(options, "always", "git *") is find_option(options, "forever", None) is None


def test_a_rule_is_the_same_after_it_was_stored():
    """A store keeps it as JSON."""
    rule = make_rule("deny", "shell", "rm *", "configuration", "root")
    assert msgspec.json.decode(msgspec.json.encode(rule), type=Rule) == rule
