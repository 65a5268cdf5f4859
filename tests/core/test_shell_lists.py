"""Lists of commands, and programs that only look: what an allow of each part covers, and what it never covers."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.looking import LOOKING
from supervisor.core.calls.rules import allow, ask, deny, policy_of
from supervisor.core.calls.shell_words import simple_list

PREFIXES = [" ".join(words) for words in LOOKING]
LOOKS = tuple(allow("shell", f"{prefix} *") for prefix in PREFIXES)
RULES = (*LOOKS, allow("shell", "npm test *"), allow("shell", "make lint"), deny("shell", "git push"))


def said(command, rules=RULES, *, folder="/srv/app", **more):
    content = shown_content("shell", {"command": command, **more}, folder=folder, command="command")
    answer = policy_of(rules, content, root_session=None, ours=("/srv/app/sub/store.db",))
    return answer[0] if answer else None


@pytest.mark.parametrize(
    "command",
    [
        "git status && git log -3",
        "git log --oneline | head -5",
        "npm test 2>&1 | head -20",
        "grep -rn main src | wc -l",
        "grep -n a b 2>/dev/null | head -3; git status",
        "cd packages/a && npm test 2>&1 | tail -20",
        "cd /srv/app && make lint\ngit diff HEAD~1 -- src/a.py",
        'grep -E "(error|success)" a.txt --include="*.go" | sort -u | uniq -c',
        'find src -name "*.ts" -type f -not -path "*/x/*" | head',
        "sed -n '1,9p;$p' a.py",
        "sed -n '/^def/p' a.py",
        "jq -r '.a[] | .name' package.json",
        "cat /srv/app/a.txt; ls -la . || true",
        'echo "Done sleeping"',
        "tail -n +5 a | cut -d, -f2 | tr a-z A-Z",
        "git log --since='2 days ago' --format='%h %s' v1..main -- a/b",
    ],
)
def test_a_list_is_allowed_if_each_of_its_commands_is(command):
    assert said(command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *("git status && rm -rf x", "git log | sh", "git log > x", "git status && $(rm x)", "head x | tee y"),
        *("git log | head -3 & rm x", "head < x", "git status\nrm x", "git log `x` | head", "grep a b | xargs rm"),
        *("X=1 git log | head", "git status &>/dev/null", 'git status >/dev/null"x"', "git log >/dev/null2", "! ls"),
        *("cd .. && ls", "cd /etc && cat passwd", "cd && ls", "cd - && ls", "cd a/../.. && ls", "cd ~ && ls"),
        *("cat a | make lint", "cat a | npm test", "if ls; then ls; fi", "ls; . a", "eval ls", "ls |& cat"),
        *("cat /etc/passwd", "cat ../x", "ls /srv/application", "head -5 /srv/app/../x", "rg --files /etc"),
        *("sort -o a b", "sort --compress-program=sh a", "uniq a b", "tree -R -L 1", "tree -o x", "diff -l a b"),
        *("find . -delete", "find . -exec rm {} +", "find . -ok ls", "find . -fprint x", "find / -name a"),
        *("sed -n '1w x' a", "sed -n 's/a/b/ep' a", "sed -n -i 1p a", "sed -ni 1p a", "sed 1p a", "sed -n -e 1p a"),
        *("jq env a", "jq '$ENV' a", "jq -f a b", "jq 'import \"a\" as b; 1'", "rg --pre sh x", "rg --pre=sh x"),
        *("git reflog expire --all", "git stash", "git log --output=x", "git diff ext::x"),
        *("git log --ext-diff", "git -C /etc log", "date -s 1", "date 01010101", "grep -f /etc/passwd x", "ls @x"),
        *("cd sub && cat store.db", "cat sub/store.db", "cd sub; grep x ./store.db", "git status; git push"),
        *("ls\0", "ls é", "ls $x", "ls *", "ls a?", "ls {a,b}", "ls ~", "ls;;ls", "ls &", "(ls)", "{ ls; }", "ls #x"),
    ],
)
def test_no_part_is_allowed_that_was_not_and_nothing_else_runs(command):
    assert said(command) != "allow"


def test_an_ask_or_a_deny_sees_the_whole_list():
    assert said("git status && git push origin") == "deny"
    assert said("cat a | grep b", (*LOOKS, ask("shell", "grep *"))) == "ask"


def test_a_pattern_of_another_folder_or_time_covers_no_part_that_leaves_them():
    there = (*LOOKS, allow("shell", "in /srv/b: make lint"), allow("shell", "in /srv/b: cat *"))
    assert said("cat x; make lint", there, cwd="/srv/b") == "allow"
    assert said("cat x; make lint", there) is None
    assert said("cd b; make lint", there, folder="/srv") is None  # `cd` may fail
    assert said("cat x; cat y", timeout=31.0) is None
    assert said("cat x; cat y", env={"A": "b"}) is None


SHELLS = [
    [shell, *more]
    for shell, *more in (("/bin/dash",), ("/bin/bash",), ("/bin/bash", "--posix"))
    if Path(shell).exists()
]
PIECES = [
    "git",
    "ls",
    "cd sub",
    "cd",
    "a",
    "b.txt",
    "-x",
    "'a b'",
    '"a\\.b"',
    '"\\$x"',
    '"$"',
    "x'y'",
    "2",
    "HEAD~1",
    "^",
]
PIECES += [" ", " ", " ", " && ", " || ", ";", " | ", "\n", " 2>&1", " >/dev/null", "2>/dev/null", " 2>/dev/null "]
PIECES += [
    "&>/dev/null",
    ">/dev/null",
    "&",
    "$x",
    "`",
    "*",
    "~",
    "#",
    "=",
    "!",
    "\\",
    '"',
    "'",
    "(",
    "if",
    "then",
    "\t",
]


@settings(max_examples=2 * settings.default.max_examples)
@given(text=st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join))
def test_every_shell_reads_a_list_as_the_same_commands(stubs, text):
    """Each is really run. What a shell leaves out, because of what went before, is no other command."""
    parts = simple_list(text)
    if parts is None or any(part.words[0] not in ("git", "ls", "cd") for part in parts):
        return
    for shell in SHELLS:
        (stubs / "record").write_bytes(b"")
        subprocess.run(
            [*shell, "-c", text], cwd=stubs / "work", env={"PATH": str(stubs)}, capture_output=True, check=False
        )
        called = (stubs / "record").read_bytes().decode().split("\0\0")[:-1]
        assert {tuple(each.split("\0")) for each in called} <= {part.words for part in parts}
        assert called or parts[0].words[0] == "cd"
        assert [each.name for each in (stubs / "work").iterdir()] == ["sub"]


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """A folder with programs that record how they are called, and one to work in."""
    folder = tmp_path_factory.mktemp("stubs")
    (folder / "work" / "sub").mkdir(parents=True)
    for name in ("git", "ls"):
        (folder / name).write_text(
            f"#!/bin/sh\n{{ printf '%s' {name}; for each; do printf '\\0%s' \"$each\"; done; printf '\\0\\0'; }} "
            f">> '{folder / 'record'}'\n"
        )
        (folder / name).chmod(0o755)
    return folder


def test_the_table_is_in_order_and_its_prefixes_need_no_mark():
    assert sorted(set(PREFIXES)) == PREFIXES
    assert not any(rule.unreviewed for rule in LOOKS)
