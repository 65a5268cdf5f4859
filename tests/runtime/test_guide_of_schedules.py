"""docs/how-to/schedules.md: its configuration is served, and begins what it says when it says so."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from supervisor import MemoryStore, open_supervisor
from supervisor.testing import wall_clock
from supervisor.wiring.config import read_configuration
from supervisor.wiring.daemon import settle

pytestmark = pytest.mark.anyio
PAGE = (Path(__file__).parents[2] / "docs/how-to/schedules.md").read_text()


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


async def test_the_configuration_of_the_page_begins_a_session_at_three_in_berlin(tmp_path):
    (program, configuration) = (re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[1] for kind in ("python", "toml"))
    (tmp_path / "agents.py").write_text(program)
    (tmp_path / "supervisor.toml").write_text(configuration)
    found = read_configuration(tmp_path / "supervisor.toml")
    settings = settle(found, store=tmp_path / "s", agents=[], host=None, port=0, operator=None)
    agents = list(settings.agents.values())
    with wall_clock() as wall:
        wall.ahead = (datetime(2027, 1, 1, 1, 30, tzinfo=UTC) - datetime.now(UTC)).total_seconds()
        async with open_supervisor(MemoryStore(), agents=agents, schedules=settings.schedules) as supervisor:
            await anyio.sleep(timedelta(hours=1).total_seconds())
            (session,) = await supervisor.find_sessions()
    assert session.id.startswith("nightly-2027-01-01t02-00-00z--")
    assert session.outcome["value"] == "the report of sales"
