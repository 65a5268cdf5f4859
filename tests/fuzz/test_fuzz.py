"""Random programs with all operations, in processes that end in every way: a sample, and cases that once failed. Each
test is a process of its own, since the fuzzer forks."""

import json
import sys
from pathlib import Path

import preloaded
import pytest

HERE = Path(__file__).parent
KEPT = sorted((HERE / "cases").glob("*.json"))


@pytest.fixture(params=["asyncio", "trio"])
def backend(request):
    return request.param


def fuzz(folder, *words):
    """Run the fuzzer. Return its output if it found a problem."""
    command = [sys.executable, HERE / "__main__.py", "--keep", folder / "failures", *words]
    ran = preloaded.run([str(word) for word in command], capture_output=True, text=True, timeout=3600)
    print(ran.stdout)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_case_that_once_failed_holds(tmp_path, backend, file):
    assert fuzz(tmp_path, file, "--backend", backend) == ""


@pytest.mark.parametrize("what", ["effects", "told", "index", "uses", "spent", "budget", "instant", "time"])
def test_the_oracles_find_lost_and_repeated_effects(tmp_path, what):
    """They find an extra effect, acknowledgement, use of an allowance or request, one that its budget does not allow,
    an index without an outcome, an instant without a session, and a use of an allowance after its end."""
    ordinary = {"at": 0.0, "passivate_after": 60.0, "disk": [], "person": 0.0, "others": []}
    lives = [{"end": "natural", **ordinary}, {"end": "sabotage", "what": what, **ordinary}]
    call = {"op": "call", "id": "c1", "tool": "safe"}
    case = {"seed": 1, "backend": "asyncio", "agent": "worker", "program": [call], "lives": lives}
    case |= {"allows": {"risky": 1}, "allows_tree": True, "allows_for": 5, "budget": {"requests": 6}}
    case |= {"schedule": {"if_running": "skip"}}
    (tmp_path / "case.json").write_text(json.dumps(case))

    said = fuzz(tmp_path, tmp_path / "case.json", "--backend", "asyncio")

    assert {"effects": "twice", "told": "lost"}.get(what, what) + ":" in said


@pytest.mark.slow
def test_a_sample_of_random_programs_and_deaths_loses_nothing_and_does_nothing_twice(tmp_path, backend):
    """The cases are the same each time, plus a few whose seed is printed."""
    assert fuzz(tmp_path, "--backend", backend, "--jobs", 3, "--cases", 15, "--seed", 1) == ""
    assert fuzz(tmp_path, "--backend", backend, "--jobs", 3, "--cases", 6) == ""


@pytest.mark.slow
def test_a_storm_and_a_sample_over_postgresql_lose_nothing_and_do_nothing_twice(tmp_path, server, backend):
    """Three owners are killed, stopped for longer than they are waited for, and cut off in the midst of COMMIT, and the
    server is killed; in the cases after that one process dies in its way."""
    case = ("--postgres", "--storms", "--short", "--backend", backend, "--cases", 3, "--seed", 5)
    assert fuzz(tmp_path, *case) == ""


@pytest.mark.soak
def test_storms_for_ten_minutes(tmp_path, server, backend):
    """Three owners die, with their connections and the server itself."""
    assert fuzz(tmp_path, "--storms", "--backend", backend, "--seconds", 600) == ""


@pytest.mark.soak
def test_random_programs_and_deaths_for_ten_minutes(tmp_path, backend):
    assert fuzz(tmp_path, "--backend", backend, "--jobs", 2, "--seconds", 600) == ""
