"""The whole way with local-slack, an independent Slack: mention, card, refusal, kill -9, press, answer.

    npm install --prefix .peers --ignore-scripts local-slack-linux-x64@0.1.8

It listens on every address of its machine, so it lives in a network namespace of its own (root on Linux).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BINARY = Path(__file__).parents[3] / ".peers" / "node_modules" / "local-slack-linux-x64" / "bin" / "local-slack"


def can_make_namespaces():
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not BINARY.exists(), reason="local-slack is not installed")
@pytest.mark.skipif(not can_make_namespaces(), reason="no network namespace can be made here (unshare -n, ip)")
@pytest.mark.parametrize(("backend", "mode"), [("asyncio", "events"), ("trio", "events"), ("trio", "socket")])
def test_a_button_posted_before_a_crash_works_after_it(tmp_path, backend, mode):
    """R2, R3: over signed HTTP and over Socket Mode; the answer is told in the thread, once."""
    script = Path(__file__).with_name("slack_peer_story.py")
    BINARY.chmod(0o755)
    done = subprocess.run(
        ["unshare", "-n", sys.executable, script, BINARY, tmp_path, backend, mode],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")},
    )
    assert done.returncode == 0, done.stderr[-3000:] + (tmp_path / "daemon.log").read_text()[-3000:]
    told = json.loads(done.stdout)
    in_channel = {"in_thread": True, "refused": 1, "said": 1, "cards": 1, "ran": "web-1\n"}
    assert told == in_channel | {"in_direct_message": True}
