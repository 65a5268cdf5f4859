"""The benchmarks still run. What they measure is no test's business."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_every_benchmark_runs_small_and_says_what_it_found(tmp_path):
    """`python -m benchmarks --smoke --json` ends well, on the base install, with rows of every benchmark."""
    command = [sys.executable, "-m", "benchmarks", "--smoke", "--json"]
    env = {**os.environ, "BENCHMARK_FOLDER": str(tmp_path)}
    root = Path(__file__).parent.parent
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=root, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    measured = [name for name in found if name not in ("machine", "smoke", "repair")]
    assert len(measured) == 17
    assert all(found[name]["rows"] for name in measured)
