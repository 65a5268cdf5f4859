"""A7: which prefixes may be allowed, which only if they are marked as unreviewed, and which never."""

import re
from pathlib import Path

import pytest

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.looking import LOOKING
from supervisor.core.calls.programs import (
    BUILTINS,
    LAUNCHED_BY,
    LAUNCHERS,
    LOST,
    REVIEWED,
    REVIEWED_BY,
    family,
    is_launcher,
)
from supervisor.core.calls.rules import Rule, allow, checked_rule, deny, policy_of, why_void
from supervisor.core.errors import InvalidInput

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "prefixes.md"
ELSEWHERE = """
python -m unittest install http://127.0.0.1/x.zip pip.main
python -m unittest http.server.test
python -m unittest pip
python3 -m unittest -v http.server.test
python -m unittest ./pip.main
mypy http://x/y
pytest http://x
ruff check git+ssh:x
go test example.org/a/b
go test ./a@v1
go build example.org/a@latest
go list -m example.org/a
npm run x git+https://x/y
npm ls a@1
pip show git+https://x
cargo test https://x
docker images https://x
kubectl get https://x
"""
EVERYDAY = """
python -m unittest tests/test_a.py -v
python -m unittest discover ./tests
go test ./...
go vet ./cmd/x
npm run build:prod
pytest tests/a.py::test_b
git diff main..dev
git show HEAD:a/b.py
cat node_modules/@types/x.ts
grep a:b f
pip show anyio
docker images repo:tag
kubectl get pods
"""


def said(rules, command):
    arguments = {"command": command, "cwd": None, "env": None, "timeout": 30.0}
    answer = policy_of(rules, shown_content("shell", arguments, folder="/srv", command="command"), root_session="root")
    return answer[0] if answer else None


@pytest.mark.parametrize("name", sorted(LAUNCHERS))
def test_a_launcher_with_digits_in_its_name_is_recognised(name):
    """`m4` is not `m`: the whole name is looked up before digits are cut off."""
    assert family(name) == name
    assert all(map(is_launcher, (name, f"/usr/bin/{name}")))
    if not any(words[0] == name for words in REVIEWED) and (name,) not in LOOKING and name not in BUILTINS:
        for unreviewed in (False, True):
            with pytest.raises(InvalidInput):
                allow("shell", f"{name} x *", unreviewed=unreviewed)


@pytest.mark.parametrize("words", REVIEWED, ids=" ".join)
def test_a_reviewed_prefix_covers_operands_and_known_options_and_nothing_else(words):
    """Its author need not mark it; a mark that is not needed is not kept."""
    prefix = " ".join(words)
    rule = allow("shell", f"{prefix} *", unreviewed=True)
    assert rule == allow("shell", f"{prefix} *")
    assert not rule.unreviewed
    operand = {"python -m unittest": "tests/test_a.py"}.get(prefix, "a")
    assert said([rule], f"{prefix} {operand}") == "allow"
    for option in REVIEWED[words]:
        assert said([rule], f"{prefix} {option}") == "allow"
    elsewhere = ("--frobnicate", "-x=y", "/etc/passwd", "../x", "@x", "a=b", "ext::sh", "sh")
    for more in elsewhere if words not in LOOKING else elsewhere[:2]:
        assert said([rule], f"{prefix} {more}") is None


def begins_of(command):
    """Return the longest reviewed prefix of a command."""
    words = command.replace("python3", "python").split()
    return next(" ".join(words[:count]) for count in (3, 2, 1) if (*words[:count],) in REVIEWED)


@pytest.mark.parametrize("command", ELSEWHERE.strip().splitlines())
def test_no_operand_is_an_address_or_a_name_of_code_elsewhere(command):
    """The program would fetch it, or call it: `python -m unittest` imports what an operand names, from anywhere."""
    begins = begins_of(command)
    assert said([allow("shell", f"{begins} *")], command.replace("python3", "python")) is None


@pytest.mark.parametrize("command", EVERYDAY.strip().splitlines())
def test_an_operand_is_a_path_a_name_or_a_revision(command):
    """As people write them every day."""
    assert said([allow("shell", f"{begins_of(command)} *")], command) == "allow"


@pytest.mark.parametrize("prefix", LOST)
def test_a_prefix_that_lost_its_review_allows_nothing_and_stops_no_start(prefix):
    """Rules in code and in a configuration stay as they are written, and a new one is refused."""
    for rule in (allow("shell", f"{prefix} *"), Rule(kind="allow", tool="shell", pattern=f"{prefix} *", id="r1")):
        assert said([rule], prefix) is said([rule], f"{prefix} a") is None
        assert LOST[prefix] in (why_void(rule) or "")
        with pytest.raises(InvalidInput):
            checked_rule(rule)
    assert said([checked_rule(allow("shell", f"{prefix} *", unreviewed=True))], f"{prefix} a") == "allow"
    assert why_void(allow("shell", "git status *")) is why_void(deny("shell", f"{prefix} *")) is None


@pytest.mark.parametrize(
    "prefix", ["frob", "./git status", "/tmp/ls", "git push", "pytest -n auto", "cp", "frob --bar x"]
)
def test_an_unreviewed_prefix_is_allowed_only_if_it_is_marked(prefix):
    """The mark is an argument in code, kept with the rule; a stored rule without it covers nothing."""
    with pytest.raises(InvalidInput):
        allow("shell", f"{prefix} *")
    rule = allow("shell", f"{prefix} *", unreviewed=True)
    assert rule.unreviewed
    assert said([rule], f"{prefix} a") == "allow"
    assert said([rule], f"{prefix} --frobnicate") is said([rule], f"{prefix} /etc/passwd") is None
    assert said([Rule(kind="allow", tool="shell", pattern=f"{prefix} *")], f"{prefix} a") is None


@pytest.mark.parametrize("prefix", ["python", "python -c x", "git", "git -c a=b log", "cd", "sh", "npm", "docker run"])
def test_a_prefix_that_would_run_anything_is_never_allowed(prefix):
    """Not even if it is marked as unreviewed, in code or in a store."""
    with pytest.raises(InvalidInput):
        allow("shell", f"{prefix} *", unreviewed=True)
    made = Rule(kind="allow", tool="shell", pattern=f"{prefix} *", unreviewed=True)
    assert said([made], f"{prefix} a") is None


@pytest.mark.parametrize(
    "prefix", ["python3.12 -m pytest", "pip3 show", "/usr/bin/git status", "/bin/ls", "echo", "rg"]
)
def test_a_reviewed_prefix_needs_the_exact_name_or_a_system_folder(prefix):
    """A program in another folder is another program."""
    assert said([allow("shell", f"{prefix} *")], f"{prefix} a") == "allow"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("linux64 rm -rf x", "deny"),
        ("frob rm -rf x", "ask"),
        ("frob --with=/bin/rm x", "ask"),
        (["frob", "rm", "x"], "ask"),
        ("./frob.sh 'cd /; rm x'", "ask"),
        ("git -c alias.x=rm status", "ask"),
        ("git bisect run rm", "ask"),
        ("npm exec rm x", "ask"),
        ("sort --compress-program rm x", "ask"),
        ("EDITOR=rm git commit", "ask"),
        ("A=b GIT_SSH_COMMAND='rm -rf' git ls-remote x", "ask"),
        ("EDITOR=rm; git commit", "ask"),
        ("export EDITOR=rm; git commit", "ask"),
        ("export EDITOR=rm && git commit", "ask"),
        ("compgen -C rm x", "ask"),
        ("mapfile -C rm -c 1 <x", "ask"),
        ("test -v 'a[$(rm x)]'", "ask"),
        ("let 'a[$(rm x)]'", "ask"),
        ("git -C rm status", "ask"),
        ("EDITOR=vi git commit", "allow"),
        ("EDITOR=rm", "allow"),
        ("test -f rm", "allow"),
        ("frob x", "allow"),
        ("git rm x", "allow"),
        ("mkdir rm", "allow"),
        ("cp rm x", "allow"),
        ("npm run rm", "allow"),
    ],
)
def test_a_deny_is_in_doubt_after_unknown_programs(command, expected):
    """Also if the whole tool is allowed, as by "approve all for session"."""
    assert said([allow("shell"), deny("shell", "rm *")], command) == expected


def test_a_deny_is_in_doubt_about_a_name_in_the_variables_of_a_call():
    """The argument `env` gives them, as an assignment does."""
    arguments = {"command": "git commit", "cwd": None, "env": {"EDITOR": "rm -rf"}, "timeout": 30.0}
    for rule, expected in ((deny("shell", "rm *"), "ask"), (deny("shell", "rmdir *"), "allow")):
        content = shown_content("shell", arguments, folder="/", command="command")
        found = policy_of([allow("shell"), rule], content, root_session=None)
        assert (found or (None,))[0] == expected


def test_too_many_places_where_a_program_could_begin_deny():
    """Up to a hundred places are examined; a command with more of them is denied."""
    rule = [deny("shell", "rm -rf *")]
    assert said(rule, ["env", *["rm"] * 100]) is None
    assert said(rule, ["env", *["rm"] * 101]) == "deny"


def test_a_deny_with_several_options_matches_if_all_are_there():
    """With one of them it is in doubt: the other may have another spelling."""
    rule = [deny("shell", "git push --force --tags")]
    assert said(rule, "git push --tags --force x") == "deny"
    assert said(rule, "git push --force x") == said(rule, "git push -f --tags") == "ask"


def test_the_documentation_lists_what_may_be_allowed_and_what_may_not():
    """It has each prefix with its reason, and each refused program with its reason."""
    text = DOCUMENT.read_text()
    assert set(re.findall(r"^## (.+)$", text, re.MULTILINE)) >= {
        reason[0].upper() + reason[1:] for reason in (*REVIEWED_BY, *LAUNCHED_BY)
    }
    listed = set(re.findall(r"`([^`]+) \*`", text))
    assert listed >= {" ".join(words) for words in (*REVIEWED, *LOOKING)}
    assert set(re.findall(r"`([^`]+)`", text)) >= LAUNCHERS
