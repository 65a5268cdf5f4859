"""Shells complete our commands: the installer's script, in a real bash on a real terminal."""

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

PATIENCE = 60.0


def typed(keys: bytes, until: bytes, home: Path) -> bytes:
    """Return what an interactive bash writes to its terminal after these keys, until it has written `until`."""
    master, slave = pty.openpty()
    env = {**os.environ, "HOME": str(home), "TERM": "dumb", "PS1": "$ "}
    bash = subprocess.Popen(
        ["bash", "-i"], stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True, close_fds=True
    )
    try:
        os.write(master, keys)
        written, end = b"", time.monotonic() + PATIENCE
        while until not in written and select.select([master], [], [], max(0.0, end - time.monotonic()))[0]:
            written += os.read(master, 65536)
        return written
    finally:
        bash.kill()
        bash.wait()
        os.close(master)
        os.close(slave)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_tab_in_bash_completes_a_command(supervisor, tmp_path: Path):
    """By both names of the program. The first TAB completes what is unique, the second one lists the rest."""
    made = supervisor("--install-completion", "--shell", "bash", HOME=str(tmp_path))
    assert (made.code, [Path(line).is_file() for line in made.out.splitlines()]) == (0, [True, True]), made
    for name in (b"supervisor", b"subagent-supervisor"):
        assert b"approvals" in typed(name + b" appr\t\t\t", b"approve ", tmp_path)


def test_a_script_is_written_where_it_is_wanted(supervisor, tmp_path: Path):
    """Then no start-up file is changed. It has the commands, and the options of each."""
    script = tmp_path / "supervisor.fish"
    made = supervisor("--install-completion", "--shell", "fish", "--output", str(script), HOME=str(tmp_path))
    assert made.code == 0
    assert all(word in script.read_text() for word in ("approvals", "check-replay", "older-than"))
    assert [path.name for path in tmp_path.iterdir()] == ["supervisor.fish"]


def test_an_unknown_shell_is_one_clear_line(supervisor):
    answer = supervisor("--install-completion", "--shell", "tcsh")
    assert (answer.code, answer.out, len(answer.err.strip().splitlines())) == (2, "", 1)
