"""A moment of repair, and ways to repair a file and to read it again."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from supervisor.transcripts.repair import Options, repair

CORPUS = Path(__file__).parent / "corpus"
NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


@pytest.fixture
def session(tmp_path):
    """Copy a file of the corpus to a folder that may be written."""

    def copy(name):
        return Path(shutil.copy(CORPUS / f"{name}.jsonl", tmp_path))

    return copy


@pytest.fixture
def mend():
    """Repair a file in place, whatever its format; return the report."""

    def mend(path, **options):
        return repair(path, NOW, Options(**{"write": True, "in_place": True, **options}))

    return mend


@pytest.fixture
def read():
    """Read the entries of a file that are JSON, as a maker's program would."""

    def read(path):
        entries = []
        for line in path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            try:
                entries.append(json.loads(line.decode("utf-8", "replace")))
            except ValueError:
                continue
        return entries

    return read
