"""Every released format can be opened: its fixture is upgraded and listed, and one of its sessions goes on."""

import gzip
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import format_agents
import preloaded
import pytest
from format_steps import NEW, OLD, newer, opened, version_of

from supervisor import Approve, open_supervisor
from supervisor.core.ids import RULES
from supervisor.store.sqlite import schema

FOLDER = Path(__file__).parent / "formats"
FORMATS = range(schema.FORMER + 1, OLD + 1)


def missing():
    """Return the formats that have no fixture."""
    return [number for number in range(schema.FORMER + 1, schema.newest() + 1) if not fixture(number).exists()]


def fixture(number):
    return FOLDER / f"{number}.db.gz"


def test_every_format_has_a_fixture():
    """A step that is added without one fails here: see CONTRIBUTING.md, "A new format of the store"."""
    assert missing() == []
    with newer():
        assert missing() == [NEW]
    assert {found.name for found in FOLDER.glob("*.gz")} == {fixture(number).name for number in FORMATS}


def test_a_fixture_is_made_by_a_script(tmp_path):
    """Two runs make the same bytes, of a store with the content of the fixtures."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        command = [sys.executable, FOLDER / "make.py", tmp_path / name]
        assert preloaded.run(command, stdout=subprocess.DEVNULL).returncode == 0
    (one,), (other,) = ((tmp_path / name).iterdir() for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    assert index_of(one, tmp_path / "new.db") == index_of(fixture(OLD), tmp_path / "kept.db")


def unpack(packed, path):
    with gzip.open(packed) as source, path.open("xb") as file:
        shutil.copyfileobj(source, file)
    path.chmod(0o600)


def index_of(packed, path):
    unpack(packed, path)
    with opened(path) as store:
        sessions = [(row.id, row.agent, row.outcome) for row in store.find_sessions()]
        return sessions, [each.tool for each in store.find_approvals()], len(store.journal(RULES))


@pytest.mark.anyio
@pytest.mark.parametrize("program", [nullcontext, newer], ids=["today's program", "the next one"])
@pytest.mark.parametrize("number", FORMATS)
async def test_a_store_of_each_format_goes_on(number, program, tmp_path):
    """Pending approvals stay pending, finished sessions finished, rules stand, and after a decision a run finishes."""
    path = tmp_path / "state.db"
    unpack(fixture(number), path)
    assert version_of(path) == number
    with program():
        async with open_supervisor(path) as supervisor:
            statuses = {view.id: view.status for view in await supervisor.find_sessions()}
            used = {"used": "completed"} if number >= 10 else {}
            assert statuses == {"done": "completed", "waits": "waiting_approval", **used}
            denies, *allowances = await supervisor.find_rules()
            assert (denies.kind, denies.tool) == ("deny", "rm")
            assert [(each.uses, each.used, each.ended) for each in allowances] == [(2, 1, False)] * (number >= 10)
            run = await supervisor.resume("waits")
            (approval,) = await supervisor.find_approvals()
            assert (approval.tool, approval.arguments) == (format_agents.deploy.name, {"target": "app.tar"})
            await supervisor.decide(approval.id, Approve(by="ann"))
            assert await run.result() == "deployed app.tar"
        assert version_of(path) == schema.newest()
    is_newer = schema.newest() > number or program is newer
    assert path.with_name(f"{path.name}.v{number}.bak").exists() is is_newer
