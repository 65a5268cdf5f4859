"""A7: rules compare arguments that are paths by where they lead, not by how they are spelled."""

import pytest

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.rules import Rule, allow, ask, checked_rule, deny, named_paths, policy_of
from supervisor.core.declarations.tool_spec import tool

FILE = "/srv/app/supervisor.toml"
SPELLINGS = [
    "/srv/app//supervisor.toml",
    "/srv/app/./supervisor.toml",
    "/srv/app/x/../supervisor.toml",
    "//srv/app/supervisor.toml",
    "///srv/app/supervisor.toml",
    "/srv/../srv/app/supervisor.toml",
    "supervisor.toml",
    "./supervisor.toml",
    "../app/supervisor.toml",
    "/../srv/app/supervisor.toml",
    "/srv/app/supervisor.toml/",
]


@tool(paths=["source", "target"])
async def move(source: str, target: str) -> None: ...


def said(rules, name, arguments, cwd="/srv/app", settled=None, ours=(), is_former=False, **more):
    content = shown_content(name, arguments, folder=cwd, **more)
    asked = {"root_session": None, "settled": {} if settled is None else settled, "ours": ours}
    found = policy_of(rules, content, **asked, is_former=is_former)
    return None if found is None else found[0]


def settling(links):
    """Return where every path leads, with these links."""

    class Disk(dict):
        def get(self, path, default=None):
            for link, target in links.items():
                if path == link or path.startswith(f"{link}/"):
                    return target + path.removeprefix(link)
            return path

        def __contains__(self, path):
            return True

        def __getitem__(self, path):
            return self.get(path)

    return Disk()


@pytest.mark.parametrize("name", ["Edit", "Write", "Read", "MultiEdit", "other"])
@pytest.mark.parametrize("path", SPELLINGS)
def test_a_deny_of_a_path_matches_each_of_its_spellings(name, path):
    """As an object and as a path, of a tool that declares it; an absolute path of any tool is one."""
    arguments = {"file_path": path, "content": "x"}
    assert said([allow(name), deny(name, f'{{"file_path":"{FILE}"}}')], name, arguments) == "deny"
    if name != "other":
        assert said([allow(name), deny(name, FILE)], name, arguments) == "deny"
        assert said([allow(name), ask(name, "/srv/app/**")], name, arguments) == "ask"
        assert said([allow(name), deny(name, f'{{"file_path":"{FILE}"}}')], name, {"file_path": "/srv/a"}) == "allow"


@pytest.mark.parametrize("path", ["/proc/self/cwd/supervisor.toml", "/dev/fd/3", "~/x", "/proc/../proc/1/root/srv"])
def test_a_path_that_may_lead_anywhere_asks_where_a_path_is_denied(path):
    """Until it is settled."""
    rules = [allow("Edit"), deny("Edit", FILE)]
    assert said(rules, "Edit", {"file_path": path}) == "ask"
    assert said([allow("Edit")], "Edit", {"file_path": path}) == "allow"
    if not path.startswith("~"):
        assert said(rules, "Edit", {"file_path": path}, settled=settling({"/proc": "/x", "/dev": "/y"})) == "allow"


NOT_GIVEN = [{}, {"path": None}, {"path": ""}]
SECRET = ["/srv/secret/**", '{"path":"/srv/secret/**"}']


@pytest.mark.parametrize("name", ["Glob", "Grep", "LS"])
@pytest.mark.parametrize("pattern", SECRET)
def test_a_search_without_a_path_is_one_of_the_folder_in_which_it_works(name, pattern):
    """A deny matches it there, also by a link; an allow of that folder still wants a path."""
    rules, linked = [allow(name), deny(name, pattern)], settling({"/l": "/srv/secret"})
    for arguments in NOT_GIVEN:
        assert said(rules, name, arguments, cwd="/srv/secret/a") == "deny"
        assert said(rules, name, arguments, cwd="/l", settled=linked) == "deny"
        assert said(rules, name, arguments, cwd="/srv/app") == "allow"
        assert said(rules, name, arguments, cwd=None) == "ask"
        assert said([allow(name, "/srv/app/**")], name, arguments, settled=settling({})) is None
        assert "/l" in named_paths(rules, arguments, ["path"], "/l")
    assert said([allow(name), deny(name, '{"path":null}')], name, {"path": None}) == "deny"


@pytest.mark.parametrize("path", ["/srv", "/", "..", "/l", "/proc/self/cwd"])
@pytest.mark.parametrize("pattern", [*SECRET, "/srv/secret", "/s/**"])
def test_a_search_from_above_what_is_denied_asks(path, pattern):
    """Whether it would read what is denied cannot be proved. A tool that reads one file reads nothing below it."""
    links = settling({"/l": "/srv", "/s": "/srv/secret", "/proc/self/cwd": "/srv"})
    for name in ("Glob", "Grep", "LS"):
        rules = [allow(name), allow(name, "/**"), deny(name, pattern)]
        assert said(rules, name, {"path": path}, settled=links) == "ask"
        assert said(rules, name, {"path": "/srv/secrets"}, settled=links) == "allow"
    assert said([allow("Read"), deny("Read", "/srv/secret/**")], "Read", {"file_path": path}, settled=links) == "allow"


def test_a_call_of_which_the_agent_says_what_it_is_may_be_a_search():
    """Its kind is the agent's word."""
    rules, claimed = [allow("a.read", '{"path":"/srv"}'), deny("a.search", "/srv/secret/**")], {"claims": ("title",)}
    given = {"path": "/srv", "title": "Read it"}
    assert said(rules, "a.read", given, paths=("path",), **claimed) == "ask"


def test_a_history_of_former_versions_reads_searches_as_it_did():
    """Each replay of it must make the same journal."""
    rules = [allow("Grep"), deny("Grep", "/srv/secret/**")]
    assert said(rules, "Grep", {"path": "/srv"}, is_former=True) == "allow"
    assert said(rules, "Grep", {}, cwd="/srv/secret", is_former=True) == "allow"


def test_links_are_followed_on_both_sides():
    """A call by a link to what is denied, and a deny by a link to what is called."""
    links = settling({"/srv/app/link": "/etc", "/current": "/srv/app"})
    assert said([allow("Edit"), deny("Edit", "/etc/**")], "Edit", {"file_path": "link/x"}, settled=links) == "deny"
    assert said([allow("Edit"), deny("Edit", "/current/**")], "Edit", {"file_path": "a"}, settled=links) == "deny"
    assert said([allow("Edit", "/srv/app/**")], "Edit", {"file_path": "link/x"}, settled=links) is None
    assert said([allow("Edit", "/current/**")], "Edit", {"file_path": "a"}, settled=links) == "allow"


def test_an_allow_of_a_folder_covers_what_is_settled_below_it():
    """With any other arguments; each path that the tool declares, and not what is only spelled like it."""
    rules = [allow("Edit", "/srv/app/")]
    assert rules[0].pattern == "/srv/app/**"
    anywhere = {"settled": settling({})}
    assert said(rules, "Edit", {"file_path": "a/b", "old_string": "x"}, **anywhere) == "allow"
    for path in ("../apple", "/srv/application/x", "/srv", "", None, 1, "~/x", ["a", "/etc/x"]):
        assert said(rules, "Edit", {"file_path": path}, **anywhere) is None
    assert said(rules, "Edit", {"file_path": "a"}) is None  # not settled
    both = {"paths": move.paths, **anywhere}
    assert said([allow(move, "/srv/app/**")], "move", {"source": "a", "target": "b"}, **both) == "allow"
    assert said([allow(move, "/srv/app/**")], "move", {"source": "a", "target": "/etc/x"}, **both) is None
    assert said([allow(move), deny(move, "/etc/**")], "move", {"source": "a", "target": "/etc/x"}, **both) == "deny"


def test_a_rule_of_a_path_is_kept_as_one():
    """Also if a process that adds it knows the name of the tool only; a command is none."""
    assert checked_rule(allow(move, "/srv/app/")).paths
    assert checked_rule(Rule(kind="deny", tool="x", pattern="/srv/app/**", paths=True)).pattern == "/srv/app/**"
    assert not deny("shell", "/usr/bin/rm").paths
    assert said([allow("shell"), deny("shell", "/srv/**")], "shell", {"command": "ls"}, command="command") == "ask"


def test_no_pattern_covers_a_call_that_names_a_file_of_ours():
    """A rule on the whole tool does; it is what a person wrote who knows."""
    ours = {"ours": [FILE, "/srv/app/state.db"], "settled": settling({"/srv/app/l": "/srv/app/state.db"})}
    for path in ("supervisor.toml", "state.db", "x/../state.db", "l", "state.db/x"):
        assert said([allow("Edit", "/srv/app/**")], "Edit", {"file_path": path}, **ours) is None
        assert said([allow("Edit")], "Edit", {"file_path": path}, **ours) == "allow"
    assert said([allow("Edit", "/srv/app/**")], "Edit", {"file_path": "state.dbx"}, **ours) == "allow"
    for command in ("rm state.db", "touch ./supervisor.toml", "cat /srv/app/state.db", ["rm", "state.db"]):
        arguments = {"command": command, "cwd": None, "env": None, "timeout": 30.0}
        rules = [allow("shell", "rm *"), allow("shell", "touch *"), allow("shell", "cat /srv/app/state.db")]
        assert said(rules, "shell", arguments, command="command", **ours) is None
    arguments = {"command": "rm state.db", "cwd": "/tmp", "env": None, "timeout": 30.0}
    assert said([allow("shell", "in /tmp: rm *")], "shell", arguments, command="command", **ours) == "allow"


def test_the_environment_is_asked_about_paths_of_the_call_and_of_its_rules():
    """Each absolute, and spelled in the shortest way."""
    rules = [deny("Edit", "/current/**"), deny("Edit", '{"file_path":"/etc//x"}'), allow("Edit")]
    assert named_paths(rules, {"file_path": "a/../b"}, ["file_path"], "/srv") == {"/srv/b", "/current", "/etc/x"}


def test_a_tool_declares_the_paths_among_its_parameters():
    with pytest.raises(ValueError, match="nowhere"):
        tool(path="nowhere")(move.fn)
    with pytest.raises(TypeError):
        tool(paths="source")(move.fn)
    assert tool(path="source")(move.fn).paths == ("source",)
