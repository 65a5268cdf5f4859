"""Programs that only look, as this machine has them: random commands that their prefixes cover change nothing."""

import os
import shlex
import shutil
import string
import subprocess
from hashlib import sha256
from itertools import product
from pathlib import Path
from random import Random

import pytest

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.looking import LOOKING
from supervisor.core.calls.rules import allow, policy_of

FILES = {"a": "one\ntwo\n", "b": "two\nthree\n", "s.json": '{"a":1}\n', "script": "1w evil\n"}
OPERANDS = ["a", "b", "out", "evil", "1", "2", "s.json", "script", ".git/config", "x", "p", ".", "+1", "1p", "%h", "$"]
OPERANDS += [
    "env",
    "HEAD",
    "v9",
    "sub",
    "1w evil",
    "w evil",
    "-o",
    "--",
    "--output=out",
    "--output",
    "-i",
    "--in-place",
]
OPERANDS += ["-exec", "-delete", "-fprint"]
PROGRAMS = [words for words in LOOKING if words != ("sleep",)]


def contents(folder: Path) -> dict[str, str]:
    """Return what is in a folder. Git may write its index when it looks: it notes what has not changed."""
    found = [each for each in folder.rglob("*") if each != folder / ".git/index"]
    return {str(each): sha256(each.read_bytes()).hexdigest() if each.is_file() else "" for each in found}


def words_of(program: tuple[str, ...], random: Random) -> list[str]:
    """Return words for a program: known options, others that look like them, and operands."""
    known = LOOKING[program]
    given = [*known.alone, *known.numbers, *(f"{name}{'=' * name.startswith('--')}a" for name in known.texts)]
    letter = f"-{random.choice(known.letters or 'n')}"
    return [
        random.choice(
            [
                random.choice(OPERANDS),
                random.choice(OPERANDS[:20]),
                random.choice([*given, "-n"]),
                letter + random.choice(["", *string.ascii_letters]),
            ]
        )
        for _ in range(random.randrange(6))
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="this machine has no git")
@pytest.mark.parametrize("random", [None, pytest.param(Random(1), marks=pytest.mark.soak)], ids=["pairs", "random"])
def test_a_covered_command_of_a_program_that_only_looks_changes_nothing(random, tmp_path):
    """Each program is run with all pairs of these words that it may have. Nothing is made, written or removed."""
    folder, home = tmp_path / "app", tmp_path / "home"
    (folder / "sub").mkdir(parents=True)
    home.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    env |= {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run("git init -q && git add -A && git commit -qm x", shell=True, check=True, cwd=folder, env=env)
    pairs = [list(each) for count in (1, 2) for each in product(("a", "out", "-o", "--output=out", "-i"), repeat=count)]
    before, ran = contents(folder), set()
    for program in filter(lambda words: shutil.which(words[0]), PROGRAMS):
        rule = allow("shell", f"{' '.join(program)} *")
        given = pairs if random is None else [words_of(program, random) for _ in range(500)]
        for command in (shlex.join([*program, *words]) for words in given):
            content = shown_content("shell", {"command": command}, folder=str(folder), command="command")
            if policy_of([rule], content, root_session="r") is not None:
                ran.add(program)
                subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=folder, env=env)
        assert contents(folder) == before, program
    assert len(ran) > 20
    assert list(home.iterdir()) == []
