"""The recorded crossings themselves: small, complete, and made by one command whose two runs write the same bytes."""

import subprocess
import sys
from pathlib import Path

import pytest
from crossed import CROSSINGS, RECORDED

PLAIN = [
    "acp",
    "calls",
    "claude",
    "discord",
    "frameworks",
    "jobs",
    "langgraph",
    "langgraph-threads",
    "slack",
    "telegram",
]
FILES = {f"{name}.db.gz" for name in PLAIN} | {
    f"{name}.json.gz" for name in ("acp", "discord", "slack", "telegram", "temporal")
}
ONCE = {"langgraph.db.gz", "langgraph-threads.db.gz", "temporal.json.gz"}
"""Files that the program records once."""


@pytest.mark.parametrize("crossing", CROSSINGS)
def test_a_crossing_is_complete_and_small(crossing):
    """It stays in the tree for good."""
    files = {file.name: file.stat().st_size for file in (RECORDED / crossing).iterdir()}
    assert files.keys() == FILES
    assert sum(files.values()) < 200_000


@pytest.mark.soak
def test_two_runs_write_the_same_bytes(tmp_path):
    """Of what today's code leaves."""
    made = []
    for name in ("one", "other"):
        (tmp_path / name / "1").mkdir(parents=True)
        for each in ONCE:
            (tmp_path / name / "1" / each).touch()
        command = [sys.executable, "-m", "tests.crossing.record", "1", tmp_path / name]
        subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True, timeout=300)
        made.append({file.name: file.read_bytes() for file in (tmp_path / name / "1").iterdir()})
    assert made[0].keys() == FILES
    assert made[0] == made[1]
