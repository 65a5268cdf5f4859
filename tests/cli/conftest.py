"""The command line as users see it: a process, its exit code and its two streams. Most processes are forks of an
interpreter that has imported the package; `supervisor.real` starts the installed command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import preloaded
import pytest

AGENTS = Path(__file__).with_name("command_agents.py")


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}\n--- stderr\n{self.err}"

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """Runs commands on one store, away from any terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "state.db"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
        self.env["SUPERVISOR_STORE"] = str(self.store)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **env: str) -> "subprocess.Popen[str]":
        process = preloaded.Popen(
            [sys.executable, "-m", "supervisor", *arguments],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def real(self, *arguments: str) -> Answer:
        """Run the console script in an interpreter of its own."""
        command = [Path(sys.executable).with_name("supervisor"), *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60)
        return Answer(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, **env: str) -> Answer:
        process = self.start(*arguments, **env)
        out, err = process.communicate(timeout=60)
        return Answer(process.returncode, out, err)

    def ask(self, *names: str, session: str = "asking") -> list[str]:
        """Run the agent that asks once for each name. Return the ids of its approvals, oldest first."""
        answer = self("run", f"{AGENTS}:asking", json.dumps(names), "--session", session)
        assert answer.code == 3, answer
        return [found["id"] for found in self("approvals", "--json").json if found["root_session"] == session]


@pytest.fixture
def supervisor(tmp_path: Path):
    command_line = CommandLine(tmp_path)
    yield command_line
    for process in command_line.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
