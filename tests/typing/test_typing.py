"""The public face is typed end to end: mypy --strict takes what is right, and refuses each thing that is wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLE = "../../examples/chat_loop.py"


@pytest.fixture(scope="module")
def refused():
    """Return the lines that mypy reports: {(file, line)}."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-pretty",
        "--hide-error-context",
        "api.py",
        "wrong.py",
        EXAMPLE,
    ]
    config = ["--config-file", str(HERE.parents[1] / "pyproject.toml")]
    place = {**os.environ, "MYPYPATH": str(HERE.parents[1])}
    done = subprocess.run([*command, *config], cwd=HERE, env=place, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {(file, int(line)): text for file, line, text in re.findall(r"(?m)^(\S+?):(\d+): error: (.*)$", done.stdout)}


def test_every_public_generic_keeps_its_types(refused):
    """Inputs, results, values and outcomes have the types that the functions' annotations say."""
    assert {place: text for place, text in refused.items() if place[0] != "wrong.py"} == {}


def test_whatever_is_called_wrongly_is_a_type_error(refused):
    """Every marked line is one, and no other; so a line that becomes right by accident is noticed."""
    lines = (HERE / "wrong.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if "# error: " in line}
    assert {line for file, line in refused if file == "wrong.py"} == marked
    assert len(marked) > 40
