"""The unit for systemd starts what it says, and its rules fit how the daemon ends."""

import configparser
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest


def supervisor(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return preloaded.run(
        [sys.executable, "-m", "supervisor", *words], cwd=folder, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def service(tmp_path):
    """The section `Service` of the unit that `init --systemd` writes next to a configuration."""
    (tmp_path / "supervisor.toml").write_text('store = "state.db"\n[server]\nport = 0\n')
    done = supervisor(tmp_path, "init", "--systemd")
    assert (done.returncode, done.stdout) == (0, "supervisor.service\n"), done.stderr
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(tmp_path / "supervisor.service")
    return unit["Service"]


def test_the_daemon_of_the_unit_serves_and_ends_as_the_unit_expects(service, tmp_path):
    words = shlex.split(service["ExecStart"])
    assert Path(words[0]).name == "supervisor"
    command = [sys.executable, "-m", "supervisor", *words[1:]]
    daemon = preloaded.Popen(command, cwd=service["WorkingDirectory"], text=True, stdin=-3, stdout=-3, stderr=-1)
    try:
        assert re.match(rf"Serving {re.escape(str(tmp_path))}/state.db on http://", daemon.stderr.readline())
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(timeout=int(service["TimeoutStopSec"])) == int(service["SuccessExitStatus"])
    finally:
        daemon.kill()
        daemon.communicate()


def test_a_stop_reaches_the_daemon_alone_so_jobs_go_on(service):
    """T6: a job belongs to its session, not to the process that started it."""
    assert service["KillMode"] == "process"


def test_a_wrong_configuration_is_not_started_again_and_again(service, tmp_path):
    (tmp_path / "supervisor.toml").write_text("nonsense = 1")
    words = shlex.split(service["ExecStart"])[1:]
    assert str(supervisor(tmp_path, *words).returncode) == service["RestartPreventExitStatus"]


def test_a_unit_is_written_once_and_not_for_a_folder_that_systemd_would_read_otherwise(service, tmp_path):
    assert supervisor(tmp_path, "init", "--systemd").returncode == 2
    folder = tmp_path / "100% mine"
    folder.mkdir()
    refused = supervisor(folder, "init", "--systemd")
    assert (refused.returncode, "systemd" in refused.stderr) == (2, True)
    assert list(folder.iterdir()) == []
