"""What a server on Temporal does not do, and says before it connects: each refusal names what is refused."""

import pytest

from supervisor import InvalidInput
from supervisor.core.approvals.people import ApproverRule, People, Person
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal import run_worker
from supervisor.temporal.mirror.store import MirrorFile
from supervisor.wiring.cluster import open_cluster
from supervisor.wiring.config import read_configuration
from supervisor.wiring.daemon import settle

NOWHERE = read_temporal_url("temporal://127.0.0.1:1/default")
REFUSED = {
    "[limits]": "[limits.model]\nat_once = 2\n",
    "[budget]": "[budget]\nusd = 5\n",
    "[[rules]]": '[[rules]]\ntool = "shell"\nkind = "allow"\n',
    "[agents]": '[agents.helper]\nimport = "helper.py:helper"\n',
    "[schedules]": '[schedules.nightly]\nagent = "report"\ncron = "0 3 * * *"\n',
}


@pytest.mark.parametrize("named", REFUSED)
def test_a_section_that_workers_decide_is_refused_by_name(tmp_path, named):
    """A server would keep it for itself, and no worker would know of it."""
    file = tmp_path / "supervisor.toml"
    file.write_text(REFUSED[named])
    found = read_configuration(file)
    with pytest.raises(InvalidInput) as refused:
        settle(found, store=tmp_path / "m.db", agents=[], host=None, port=0, operator=None, temporal=NOWHERE)
    assert str(refused.value).startswith(named)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_quorum_is_refused_before_the_server_connects(tmp_path):
    """One person decides there: a tree knows no people."""
    people = People(
        [Person(name="ana"), Person(name="bob")], [ApproverRule(agent="asker", approvers=("ana", "bob"), quorum=2)]
    )
    store = MirrorFile(tmp_path / "m.db", str(NOWHERE))
    given = {"agents": {}, "channels": [], "people": people, "reminders": Reminders(), "routes": []}
    with pytest.raises(InvalidInput, match="one person decides"):
        async with open_cluster(NOWHERE, store, **given):
            pass


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("room", [{"bodies": 0}, {"tasks": 0}, {"pollers": -1}, {"leave": -1.0}])
async def test_a_worker_without_room_is_refused(room):
    """It would take no work."""
    with pytest.raises(InvalidInput, match="at least 1"):
        await run_worker(str(NOWHERE), [], **room)
