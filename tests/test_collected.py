"""A worker that is forked is what a worker is that begins by itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import collected
import pytest


def test_a_forked_worker_has_the_words_signals_and_children_of_a_new_one():
    """A parent that ignored the ends of its children would not learn their codes."""
    if sys.platform != "linux" or int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) < 2:
        pytest.skip("only workers of several are forked, on Linux")  # said here: the module is imported before the fork
    assert b"collected.py" in Path("/proc/self/cmdline").read_bytes()
    assert sys.argv == ["-c"]
    assert not hasattr(sys.modules["__main__"], "__file__")
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) != signal.SIG_DFL
    assert subprocess.run([sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"], check=False).returncode == 3


@pytest.mark.parametrize(("named", "is_whole"), [((".",), True), (("core",), False), ((".", "core"), False)])
def test_a_whole_run_is_given_the_folder_of_all_tests_alone(named, is_whole):
    """Only then does CI leave out what runs on the other backend, and begin what most tests need."""
    assert collected.is_whole_run([os.fspath(Path(__file__).parent / each) for each in named]) == is_whole
