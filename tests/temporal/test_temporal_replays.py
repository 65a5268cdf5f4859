"""The histories of other tests are replayed in fresh processes, with other hash seeds: 20 times, in the soak."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from clusters import replay_files

TESTS = Path(__file__).parents[1]
SCENES = ["rules", "messages", "serving", "turns", "moving", "deaths", "commands", "limits"]
NOT_REPLAYED = {
    "test_a_command_that_is_not_there_is_refused_in_one_line": "no worker has its agent, nor has the replay",
    "test_a_decision_that_comes_while_a_tree_moves_counts_in_the_next_workflow": "shortens a wait within the workflow",
    "test_a_journal_that_grows_too_large_while_its_tree_waits_to_move_stays": "lowers a limit within the workflow",
    "test_a_journal_that_is_too_large_needs_the_folder_to_move": "lowers a limit within the workflow",
}


@pytest.mark.soak
def test_the_histories_of_other_tests_are_replayed_20_times(tmp_path):
    """And those of the suite of all Supervisors, whose agents are others."""
    files = [TESTS / "temporal" / f"test_temporal_{name}.py" for name in SCENES] + [TESTS / "client/test_both_sides.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "temporal", *map(str, files)]
    env = {**os.environ, "KEEP_HISTORIES": str(tmp_path)}
    ran = subprocess.run(command, cwd=TESTS.parent, env=env, capture_output=True, text=True, timeout=1800)
    assert ran.returncode == 0, ran.stdout[-3000:]
    kept = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("*.json"))]
    kept = [each for each in kept if each["test"].partition("[")[0] not in NOT_REPLAYED]
    assert len(kept) > 50
    assert sum(len(each["histories"]) for each in kept) > 100
    replay_files(kept, processes=20, PYTHONPATH=os.pathsep.join([*sys.path, str(TESTS / "client")]))
