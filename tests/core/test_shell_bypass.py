"""What an allowed prefix must never cover: a list of bypasses, and commands that hypothesis generates, really run."""

import contextlib
import json
import os
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.programs import BUILTINS, LAUNCHERS, OFFERED, WITH_COMMANDS
from supervisor.core.calls.rules import Rule, allow, deny, policy_of
from supervisor.core.calls.shell_words import simple_list, simple_words

BYPASSES = [json.loads(line) for line in Path(__file__).with_name("shell_bypasses.jsonl").read_text().splitlines()]
RULES = tuple(
    allow("shell", pattern)
    for pattern in ("git status *", "git log *", "git diff *", "npm run *", "ls *", "cat *", "pytest *", "git status")
)
SHELLS = [shell for shell in ("/bin/sh", "/bin/bash") if Path(shell).exists()]
CALM = ["status", "run", "build", "-s", "--short", "--", "HEAD", "a", "b.txt", "./x", "x.py::t", "'a b'", "1.5"]
WILD = [*";|&\n`)'\"\\*?~<>#!=\t\0\r()", "&&", "||", "$(", "$x", "${x}", "{a,b}", "2>", "<<E", "A=b", "PATH=.", "''"]
WILD += ["rm", "env", "sh", "-c", "eval", "exec", "-c x=y", "\\\n", "é", "\u200b", "\u202e", "git", "ls", "cat"]

RARE = settings(
    max_examples=2 * settings.default.max_examples, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
"""Most generated commands are rightly not allowed, and are thrown away."""


def said(rules, command, **more):
    arguments = command if isinstance(command, dict) else {"command": command}
    filled = {"cwd": None, "env": None, "timeout": 30.0, **arguments, **more}
    answer = policy_of(rules, shown_content("shell", filled, command="command"), root_session=None)
    return answer[0] if answer else None


class Stage:
    """A folder, and another with all programs that can be found: stubs that only record how they were called."""

    def __init__(self, folder, stubs, real=()):
        self.bin, self.work, self.record = folder / "bin", folder / "work", folder / "record"
        for each in (self.bin, self.work):
            each.mkdir()
        for name in stubs:
            (self.bin / name).write_text(f"#!/bin/sh\nprintf '%s\\0' \"$#\" {name} \"$@\" >> '{self.record}'\n")
            (self.bin / name).chmod(0o755)
        for name, path in real:
            (self.bin / name).symlink_to(path)
        for name in ("a", "b.txt", "rm"):
            (self.work / name).write_text(name)

    def run(self, command, shell):
        """Return how each stub was called, and whether the folder is unchanged."""
        self.record.write_bytes(b"")
        before = {path.name: path.read_bytes() for path in self.work.iterdir()}
        words = command if isinstance(command, list) else ["sh", "-c", command]
        process = subprocess.Popen(
            words,
            executable=None if isinstance(command, list) else shell,
            cwd=self.work,
            env={"PATH": str(self.bin), "HOME": str(self.work)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        words = self.record.read_bytes().decode().split("\0")[:-1]
        after = {path.name: path.read_bytes() for path in self.work.iterdir()}
        for path in self.work.iterdir():
            if path.name not in before:
                path.unlink()
        for name, content in before.items():
            (self.work / name).write_bytes(content)
        return words, before == after


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    return Stage(tmp_path_factory.mktemp("allowed"), ("git", "ls", "npm", "cat", "rm", "env", "sh", "pytest"))


@pytest.fixture(scope="module")
def hostile_stage(tmp_path_factory):
    real = [("sh", "/bin/sh"), ("env", "/usr/bin/env"), ("xargs", "/usr/bin/xargs")]
    return Stage(tmp_path_factory.mktemp("denied"), ("git", "ls", "rm"), real)


@pytest.mark.parametrize(("reason", "command"), BYPASSES, ids=[reason for reason, _ in BYPASSES])
def test_a_bypass_is_never_allowed(reason, command):
    """Not even under a prefix that names its first word, as a store could have one that was never checked."""
    named = command.get("command") if isinstance(command, dict) else command
    words = named.split() if isinstance(named, str) else named if isinstance(named, list) else []
    known = [word for word in words[:1] if word in LAUNCHERS | BUILTINS | WITH_COMMANDS]
    patterns = [*(f"{word} *" for word in known), "*", " *", ""]
    unchecked = [Rule(kind="allow", tool="shell", pattern=pattern) for pattern in patterns]
    assert said([*RULES, *unchecked], command) != "allow"


def test_there_are_enough_bypasses_each_with_its_own_reason():
    """A list with duplicates is shorter than it looks."""
    assert len({reason for reason, _ in BYPASSES}) == len(BYPASSES) >= 120
    assert len({json.dumps(command) for _, command in BYPASSES}) == len(BYPASSES)


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status -s",
        "git  status   --short -- a/b.txt",
        "git log --oneline -n 5",
        "npm run build",
        "pytest -q tests/x.py::test_a",
        "ls -la src",
        "cat a.txt b.txt",
        ["git", "status"],
        ["git", "diff", "--stat", "HEAD"],
        "git log main..feature -- a/b..c",
        "ls ./a .b ...",
        "git status\n",
        "git status 2>&1",
        "git stat'us'",
        "git ''status",
        "git status 'a b'",
    ],
)
def test_the_normal_uses_of_a_prefix_are_allowed(command):
    """To refuse everything would be safe, too."""
    assert said(RULES, command) == "allow"


def test_words_of_the_prefix_itself_may_be_outside_the_folder():
    """Further words stay in the folder; the author of the prefix chose those in it."""
    rules = [allow("shell", "ls /srv *")]
    assert said(rules, "ls /srv a") == "allow"
    assert said(rules, "ls /srv /etc") is said(rules, "ls /etc") is None


def test_no_offered_prefix_covers_a_word_that_leaves_the_folder():
    """For any program, and any words before and after it."""
    for words in OFFERED:
        rule = [allow("shell", f"{' '.join(words)} *")]
        for outside in ("/etc/shadow", "/", "..", "../x", "a/../../x", "./..", "x/.."):
            for call in ([*words, outside], [*words, "a", outside], [*words, outside, "a"]):
                assert said(rule, call) is None
        assert said(rule, [*words, "a", "b/c"]) == "allow"


def commands(calm, wild):
    """Make a command from words of both kinds, joined or separated, perhaps with something inserted anywhere."""
    word = st.one_of(st.sampled_from(calm), st.sampled_from(calm), st.sampled_from(wild))
    parts = st.lists(st.tuples(st.sampled_from([" ", " ", " ", ""]), word), max_size=4)
    begun = st.tuples(st.sampled_from(["git status", "ls", "npm run", "cat", "git log", ""]), parts)
    whole = begun.map(lambda pair: pair[0] + "".join(gap + word for gap, word in pair[1]))
    extra = st.one_of(st.just(""), st.just(""), st.sampled_from(wild), st.characters(max_codepoint=0x2100))
    return st.builds(lambda text, at, put: text[: at % (len(text) + 1)] + put + text[at % (len(text) + 1) :],
                     whole, st.integers(0, 40), extra)  # fmt: skip


@RARE
@given(command=commands(CALM, WILD), as_list=st.booleans())
@example(command="git status -s a", as_list=False)
@example(command="git 'status' \"x\"", as_list=False)
def test_commands_that_prefixes_allow_run_their_programs_with_these_words_only(stage, command, as_list):
    """The command is really run, by every shell that is installed, with a path that has only stubs."""
    call = command.split(" ") if as_list else command
    assume(said(RULES, call) == "allow")
    prefixes = [tuple(each.pattern.removesuffix(" *").split()) for each in RULES]
    parts = [tuple(call)] if as_list else [part.words for part in simple_list(command)]
    for shell in SHELLS:
        called, is_unchanged = stage.run(call, shell)
        assert is_unchanged
        commands = set(each_command(called))
        assert commands <= set(parts)
        assert commands or parts[0][0] == "cd"
        assert all(any(words[: len(each)] == each for each in prefixes) for words in commands)


def each_command(called):
    """Yield the words of each command that a stage has recorded."""
    while called:
        count = int(called[0])
        yield tuple(called[1 : count + 2])
        called = called[count + 2 :]


@RARE
@given(text=commands(CALM, WILD))
@example(text="git a~ ~")
@example(text="git >x")
def test_every_shell_reads_a_simple_command_as_the_same_words(stage, text):
    """Only the words are compared, not what the program does with them."""
    words = simple_words(text)
    assume(words is not None and words[0] in ("git", "ls", "npm", "cat"))
    for shell in SHELLS:
        assert stage.run(text, shell) == ([str(len(words) - 1), *words], True)


HOSTILE = [*";|&\n`)'\"\\<>=#", "&&", "$(", "$x", "x=rm", "x=r", "${x}", "2>", "sh -c", "env", "xargs", "eval", "''"]
HOSTILE += ["command", "exec", "r", "m", "!", "{ ", "; }", "if", "then", ";fi", "A=b", ">&2", "printf rm", "<<E", "r?"]


@RARE
@given(parts=st.lists(st.tuples(st.sampled_from([" ", " ", ""]), st.sampled_from(["rm", "ls", "a", *HOSTILE]))))
@example(parts=[("", "printf rm"), ("", "|"), ("", "xargs")])
@example(parts=[("", ">&2"), (" ", "rm")])
@example(parts=[("", "x=rm"), ("", ";"), ("", "$x")])
def test_a_command_in_which_a_deny_finds_nothing_does_not_run_the_program(hostile_stage, parts):
    """A deny may match a command that does not run the program; it must not miss one that does."""
    command = "".join(gap + word for gap, word in parts)
    assume(said([deny("shell", "rm *")], command) is None)
    for shell in SHELLS:
        called, _ = hostile_stage.run(command, shell)
        assert not any(word == "rm" and count.isdigit() for count, word in pairwise(called))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rm x", "deny"),
        ("ls; rm -rf ~", "deny"),
        ("make && /bin/rm x", "deny"),
        ("sudo -u root rm x", "deny"),
        ("r''m x", "deny"),
        ("\\rm x", "deny"),
        ("A=b rm x", "deny"),
        ("RM x", "deny"),
        ('echo "$(rm x)"', "deny"),
        ("sh -c 'ls; rm x'", "deny"),
        ("find . -exec rm {} +", "deny"),
        ("if true; then rm x; fi", "deny"),
        (["env", "rm", "x"], "deny"),
        ("$x y", "ask"),
        ("/bin/?m x", "ask"),
        ("python -c 'import os'", "ask"),
        ("cat x | sh", "ask"),
        ("cp /bin/rm y && ./y", "ask"),
        ("ls # it's", "ask"),
        ("ls # 'x\nrm y # '", "ask"),
        ("cat <<E\nE", "ask"),
        ("a " * 10_001, "ask"),
        (7, "ask"),
        ("git rm x", None),
        ("git commit -m 'rm x'", None),
        ("ls *.txt && cat $HOME/x > y 2>&1", None),
        ("python x.py", None),
        (["a"] * 100_000, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_deny_finds_its_program_wherever_it_runs(command, expected):
    """A program that is found is denied, one that may be hidden is asked, and others do not match."""
    assert said([deny("shell", "rm *")], command) == expected


def test_a_deny_with_options_and_commands_matches_after_other_options():
    """Options may be in any place and spelling: literal ones are denied, other spellings ask."""
    rules = [deny("shell", "git push --force")]
    assert said(rules, "git -C x push origin --force") == "deny"
    assert said(rules, "git push -f") == said(rules, "git $x --force") == "ask"
    assert said(rules, "git push") is said(rules, "git log -f") is None
