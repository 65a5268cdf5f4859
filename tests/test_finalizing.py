"""How a process ends that has threads of native code."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys
from supervisor.__main__ import main
from supervisor.system.finalizing import note_native_threads

class Finalized:
    def __del__(self):
        print("finalized")

kept = Finalized()
atexit.register(print, "exit handler")
sys.argv = ["supervisor", "show", "it", "--store", "nowhere.db"]
if {noted}:
    note_native_threads()
main()
"""


@pytest.mark.parametrize(("noted", "ends"), [(False, ["exit handler", "finalized"]), (True, ["exit handler"])])
def test_a_command_with_native_threads_ends_without_finalization(tmp_path, noted, ends):
    """A thread that calls Python meanwhile would end it by SIGABRT. Its output, exit handlers and code are as ever."""
    code = PROGRAM.format(noted=noted)
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == ends
    assert (ran.returncode, ran.stderr.count("\n")) == (5, 1)
