"""What people read and what waits on disk is as it was: each golden is made again, byte for byte."""

import pytest
from all_goldens import BACKENDS, KEPT, MAKERS, ON_BOTH, difference, kept
from api_page import lines_of_commands
from golden_commands import ELSEWHERE, STEPS

CASES = [(kind, backend) for kind in MAKERS for backend in BACKENDS if backend == "asyncio" or kind in ON_BOTH]


@pytest.mark.parametrize(("kind", "backend"), CASES)
def test_nothing_that_people_read_or_that_waits_has_changed(kind, backend):
    """If a change is meant, `python -m tests.goldens` writes it, and its diff is part of the commit."""
    if changed := difference(kept(kind), MAKERS[kind](BACKENDS[backend])):
        pytest.fail(f"{changed}\n\nIf this is meant: python -m tests.goldens", pytrace=False)


def test_each_file_is_made_by_something():
    """A file that nothing makes would look like a golden and hold nothing."""
    files = {file.relative_to(KEPT).as_posix() for file in KEPT.rglob("*") if file.is_file()}
    assert files == {name for kind in MAKERS for name in kept(kind)}


def test_each_command_that_prints_json_has_a_golden():
    """Or a reason to have none."""
    said = (line.removeprefix("supervisor ").split() for line in lines_of_commands() if " --json" in line)
    named = {" ".join(word for word in words if word.islower() and word[0].isalpha()) for words in said}
    tried = {step[0] if step[0].startswith("rules") else step[0].split()[0] for step in STEPS}
    assert named == {*tried, *ELSEWHERE}
