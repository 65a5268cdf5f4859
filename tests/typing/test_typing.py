"""The public face is typed end to end: mypy and pyright, both strict, take what is right and refuse what is wrong."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "chat_loop.py"


def run_checker(*command: str) -> str:
    """Return what a type checker says of the examples."""
    place = {**os.environ, "MYPYPATH": str(HERE.parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=HERE, env=place, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def refused_by_mypy() -> dict[tuple[str, int], str]:
    config = ["--config-file", str(HERE.parents[1] / "pyproject.toml")]
    said = run_checker(
        "mypy",
        "--strict",
        "--no-pretty",
        "--hide-error-context",
        *config,
        "api.py",
        "seam.py",
        "wrong.py",
        str(EXAMPLE),
    )
    return {
        (Path(file).name, int(line)): text for file, line, text in re.findall(r"(?m)^(\S+?):(\d+): error: (.*)$", said)
    }


def refused_by_pyright() -> dict[tuple[str, int], str]:
    """pyrightconfig.json has its options. basedpyright is pyright as a wheel: it needs no Node.js and no npm."""
    if importlib.util.find_spec("basedpyright") is None and not os.environ.get("CI"):
        pytest.skip("basedpyright is not installed (pip install -e '.[dev]')")
    said = run_checker("basedpyright", "--project", str(HERE), "--pythonpath", sys.executable, "--outputjson")
    found = json.loads(said)
    assert found["summary"]["filesAnalyzed"] == 4
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in found["generalDiagnostics"]
    }


@pytest.fixture(scope="module", params=[refused_by_mypy, refused_by_pyright], ids=["mypy", "pyright"])
def refused(request):
    """Return the lines that a type checker reports: {(file, line): why}."""
    return request.param()


def test_every_public_generic_keeps_its_types(refused):
    """Inputs, results, values and outcomes have the types that the functions' annotations say."""
    assert {place: text for place, text in refused.items() if place[0] != "wrong.py"} == {}


def test_a_wrong_use_of_the_api_is_a_type_error(refused):
    """Every marked line is one, and no other; so a line that becomes right by accident is noticed."""
    lines = (HERE / "wrong.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if "# error: " in line}
    assert {line for file, line in refused if file == "wrong.py"} == marked
    assert len(marked) > 40
