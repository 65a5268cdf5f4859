"""Programs and commands on a terminal, which their fixtures close."""

from pathlib import Path

import pytest
from on_terminal import PtyProgram


@pytest.fixture
def on_terminal(tmp_path: Path):
    """Start `asking.py`, another program next to it, or the demonstration, on a terminal."""
    programs: list[PtyProgram] = []

    def start(backend: str, *names: str, program: str = "asking.py", demo: bool = False, **env: str) -> PtyProgram:
        store = str(tmp_path / "state.db")
        asking = [str(Path(__file__).with_name(program)), backend, store, *names]
        demonstration = ["-m", "supervisor", "demo", "--store", store, "--backend", backend, "--json"]
        programs.append(PtyProgram(demonstration if demo else asking, **env))
        return programs[-1]

    yield start
    for program in programs:
        program.close()


@pytest.fixture
def supervisor_on_terminal(tmp_path: Path):
    """Start a command of the supervisor that has a whole terminal, stdout too."""
    programs: list[PtyProgram] = []

    def start(*arguments: str, **env: str) -> PtyProgram:
        command = ["-m", "supervisor", *arguments, "--store", str(tmp_path / "state.db")]
        programs.append(PtyProgram(command, is_whole=True, **env))
        return programs[-1]

    yield start
    for program in programs:
        program.close()
