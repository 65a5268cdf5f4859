"""A test that hangs fails after its time limit."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = """
import time

def test_that_hangs():
    while True:
        time.sleep(1)

def test_that_ends():
    pass
"""


def test_a_test_that_hangs_shows_where_and_fails_and_the_others_go_on(tmp_path: Path):
    """By the options of pyproject.toml, with no more than its seconds changed."""
    (tmp_path / "test_two.py").write_text(TESTS)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take longer than the test
    options = ["-p", "xdist", "-n1", "-c", str(ROOT / "pyproject.toml"), "-o", "faulthandler_timeout=1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_two.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "in test_that_hangs" in done.stderr
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]
