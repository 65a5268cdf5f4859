"""Agents are imported where their sessions say; what goes wrong there is one clear error."""

import pytest

from supervisor import UnknownAgent
from supervisor.loading import load_agent


@pytest.mark.parametrize("body", ["import sys\nsys.exit(9)\n", "raise LookupError('9')\n", "def (9\n"])
def test_a_file_that_fails_or_ends_the_program_when_it_is_imported_is_refused(tmp_path, body):
    """R1: a process that resumes it goes on with its other sessions."""
    (tmp_path / "exits.py").write_text(body)
    with pytest.raises(UnknownAgent, match=r"exits\.py"):
        load_agent(f"{tmp_path / 'exits.py'}:agent")
