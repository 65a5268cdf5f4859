"""A daemon's secrets stay its own: other processes of its user read neither its environment nor its memory.

Root may read everything. So where the tests run as root, daemon and reader have given up every capability first, which
makes of them ordinary processes of one user.
"""

import os
import shutil
import subprocess
import sys

import pytest
from daemons import pending_of, until

ORDINARY = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--"] if os.geteuid() == 0 else []
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux closes a process to others of its user"),
    pytest.mark.skipif(bool(ORDINARY) and shutil.which("setpriv") is None, reason="there is no setpriv"),
]


def read(pid, file):
    return subprocess.run([*ORDINARY, "head", "-c", "100000", f"/proc/{pid}/{file}"], capture_output=True)


@pytest.fixture
def ordinary(daemon):
    daemon.prefix = ORDINARY
    daemon.start()
    return daemon


def test_no_process_of_the_same_user_reads_its_environment_or_memory(ordinary):
    """Taken out of os.environ, a token would still be in /proc/PID/environ."""
    for file in ("environ", "mem", "maps"):
        found = read(ordinary.process.pid, file)
        assert (found.returncode, found.stdout) == (1, b""), file


def test_a_closed_daemon_still_sees_to_its_tools(ordinary, tmp_path):
    """A call's orphaned processes are found and ended, and the call itself reads nothing of the daemon."""
    left, seen = tmp_path / "left", tmp_path / "seen"
    command = f"sleep 300 & echo $! > {left}; cat /proc/{ordinary.process.pid}/environ > {seen}"
    with ordinary.client() as client:
        body = {"agent": "running", "input": command, "session": "run"}
        client.post("/api/sessions", json=body).raise_for_status()
        (asked,) = until(lambda: pending_of(client, "run"))
        client.post(f"/api/approvals/{asked['id']}/decision", json={"decision": "approve"}).raise_for_status()
        view = until(lambda: (v := client.get("/api/sessions/run").json())["outcome"] and v)
    assert view["outcome"]["value"] == "error", "cat was refused"
    assert seen.read_bytes() == b""
    with pytest.raises(ProcessLookupError):
        os.kill(int(left.read_text()), 0)
