"""The oldest releases of the frameworks that we support, in an environment of its own; by hand, with `-m oldest`."""

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITES = ("test_frameworks.py", "test_pydantic_ai.py", "test_openai_agents.py", "test_langgraph.py")


@pytest.mark.oldest
def test_the_oldest_supported_releases_pass_the_suites(tmp_path):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    floors = [extras[name][0].replace(">=", "==") for name in ("pydantic-ai", "openai-agents", "langgraph")]
    venv.create(tmp_path, with_pip=True)
    python = tmp_path / "bin" / "python"
    tools = [
        "pytest",
        "pytest-xdist",
        "hypothesis",
        "httpx",
        "fastmcp-slim[client]",
        "langchain",
        "langgraph-checkpoint-sqlite",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    install = [python, "-m", "pip", "install", "--quiet", "-e", ROOT, *floors, *tools]
    assert subprocess.run(install, env=environment).returncode == 0
    suites = [ROOT / "tests" / "agents" / suite for suite in SUITES]
    run = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suites]
    assert subprocess.run(run, cwd=ROOT, env=environment, stdout=sys.stderr).returncode == 0
