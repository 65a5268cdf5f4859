"""What the README shows runs, as it is shown."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
PROGRAM = next(block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "async def main" in block)


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
