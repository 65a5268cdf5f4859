"""What the README shows runs, as it is shown."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
LINES = README.splitlines()
SECTIONS = (
    "Use it in a program",
    "Use it from a shell",
    "What it does not do",
    "Run the tests",
    "Where things are",
)
PROGRAM = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "async def main" in block)


def section(title):
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_it_is_read_in_one_sitting():
    """At most 150 lines: what a reader looks up later is in docs/. Six commands are enough to begin with."""
    assert len(LINES) <= 150
    assert len(re.findall(r"^\$ supervisor (\w+)", section("Use it from a shell"), re.MULTILINE)) == 6
    assert sum(1 for line in PROGRAM.splitlines() if line.strip()) <= 25


def test_it_has_what_a_stranger_looks_for():
    """A kill to try, four promises, a table of what survives, a picture, limits, security, cost, a map of documents."""
    assert [line[3:] for line in LINES if line.startswith("## ")] == list(SECTIONS)
    begin = README.partition("\n## ")[0]
    for shown in ("git clone URL", "Python 3.11", "Linux or macOS", "supervisor demo", "kill -9 PID"):
        assert shown in begin
    assert len(re.findall(r"^- \*\*", begin, re.MULTILINE)) == 4
    assert len(re.findall(r"^\| ", section("Use it in a program"), re.MULTILINE)) == 6
    assert "](docs/inbox.png)" in section("Use it from a shell")
    for said in ("**Security.**", "**Cost.**"):
        assert section("What it does not do").partition(said)[2].partition("\n\n")[0].count(".") >= 3
    assert "](docs/README.md)" in section("Where things are")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_program_runs_as_shown_and_goes_on_when_run_again(tmp_path, backend):
    """Without a terminal it waits for decisions made elsewhere; run again it returns what it had found."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        (folder / "old.tmp").touch()
    text = PROGRAM.replace('"/srv/a", "/srv/b"', ", ".join(f'"{folder}"' for folder in folders))
    text = text.replace("anyio.run(main)", f'anyio.run(main, backend="{backend}")')
    (tmp_path / "program.py").write_text(text)
    decide = [sys.executable, "-m", "supervisor", "resume", "cleanup", "--store", "state.db", "--unattended", "allow"]
    program = subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=-1)
    try:
        assert program.stderr.readline()
        program.kill()
    finally:
        program.communicate()
    assert subprocess.run(decide, cwd=tmp_path, capture_output=True).returncode == 0
    assert not any(folder.joinpath("old.tmp").exists() for folder in folders)
    again = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert again.returncode == 0, again.stderr
    assert all(str(folder / "old.tmp") in again.stdout for folder in folders)
