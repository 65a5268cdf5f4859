"""The benchmarks still run. What they measure is no test's business."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from temporal_server import find_program

from benchmarks.__main__ import NAMES


def run_small(folder: Path, *names: str, **env: str) -> dict:
    """Run benchmarks with small numbers, and return what they found."""
    command = [sys.executable, "-m", "benchmarks", *names, "--smoke", "--json"]
    given = {**os.environ, "BENCHMARK_FOLDER": str(folder), **env}
    root = Path(__file__).parent.parent
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=root, env=given)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "temporal", "postgres"])
def test_a_benchmark_runs_small_and_says_what_it_found(name, tmp_path, request):
    """`python -m benchmarks NAME --smoke --json` ends well, on the base install; two need a server."""
    env = {"temporal": lambda: {"BENCHMARK_TEMPORAL": find_program()}}
    env |= {"postgres": lambda: {"BENCHMARK_POSTGRES": request.getfixturevalue("server")}}
    found = run_small(tmp_path, name, **env.get(name, dict)())[name]
    if name == "repair":
        assert found
    else:
        assert found["rows"]
    if name == "postgres":
        backends = {(row["sessions"], row["backend"]) for row in found["rows"]}
        assert backends == {(sessions, backend) for sessions in (1, 10, 100) for backend in ("asyncio", "trio")}


@pytest.mark.parametrize("corpus", ["published", "labels"])
def test_a_level_of_fewer_questions_lets_nothing_dangerous_through(corpus, tmp_path):
    """Each level asks less, and none leaves out what a person must see. The page has the shares of the session."""
    if corpus == "published" and "SUPERVISOR_CORPUS" not in os.environ:
        pytest.skip("SUPERVISOR_CORPUS names no folder of real sessions")
    env = {} if corpus == "published" else {"SUPERVISOR_CORPUS": ""}
    rows = run_small(tmp_path, "questions", **env)["questions"]["rows"]
    assert [row["dangerous"] for row in rows] == [0] * len(rows)
    shares = [round(100 * row["asked"]) for row in rows]
    if corpus == "labels":
        assert shares == [100] * 4
        return
    *levels, edits = shares
    docs = Path(__file__).parents[1] / "docs"
    page, rules = ((docs / each).read_text() for each in ("explanation/benchmarks.md", "how-to/rules.md"))
    assert f'of lists; with "always" | {"; ".join(map(str, levels))} % |' in page
    assert f"at each level | {edits} %; 0 |" in page
    assert re.findall(r"(\d+) % with", rules) == [str(each) for each in levels[1:]]


@pytest.mark.soak
def test_a_cancel_on_temporal_reaches_the_process_of_a_call_within_two_seconds(tmp_path):
    """On a machine with nothing else to do; in CI, tests/temporal/test_temporal_limits.py counts signs of life."""
    assert worst_cancel(run_small(tmp_path, "temporal", BENCHMARK_TEMPORAL=find_program())) < 2


def worst_cancel(found: dict) -> float:
    """Return the seconds of the slowest cancel on Temporal."""
    (row,) = [row for row in found["temporal"]["rows"] if row["name"] == "cancel on Temporal, worst"]
    return row["value"]
