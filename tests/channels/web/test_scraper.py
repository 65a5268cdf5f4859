"""A scraper reads the metrics, and nothing else: neither the API nor the pages, by any method."""

import pytest
from sites import person, world

from supervisor import People
from supervisor.channels.web.table import endpoints
from supervisor.core.errors import InvalidInput
from supervisor.wiring.config import read_configuration

pytestmark = pytest.mark.anyio
OTHERS = [each for each in endpoints() if each.need not in ("none", "scraper")]
PEOPLE = People([person("prometheus", "scraper"), person("olga", "operator")])


async def test_it_reads_the_metrics():
    async with world(PEOPLE) as here, here.client("prometheus") as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, "supervisor_functions_left 0" in answer.text) == (200, True)


async def test_it_is_refused_everything_else():
    """Each path of the table, and each page."""
    async with world(PEOPLE) as here, here.client("prometheus") as client:
        for endpoint in OTHERS:
            answer = await client.request(
                endpoint.method, endpoint.path.replace("{id}", "x").replace("{n}", "1"), json={}
            )
            assert answer.status_code == 403, endpoint.path
        for page in ("/", "/sessions", "/rules", "/schedules", "/approvals/x", "/docs"):
            assert (await client.get(page)).status_code == 403, page


async def test_it_cannot_log_in():
    """A login would make a cookie, which stands for the person on every page."""
    async with world(PEOPLE) as here, here.client() as client:
        answer = await client.post("/login", data={"token": "prometheus"}, headers={"origin": str(client.base_url)})
        assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('roles = ["scraper", "approver"]', "people.p.roles"),
        ('roles = ["scraper"]\nidentities = { slack = "U1" }', "people.p.roles"),
        ('roles = ["scraper"]\n[agents.a]\nimport = "a.py:a"\napprovers = ["p"]', "agents.a.approvers"),
    ],
)
def test_a_configuration_that_gives_it_more_is_refused(tmp_path, text, key):
    file = tmp_path / "supervisor.toml"
    file.write_text(f"[people.p]\n{text}")
    with pytest.raises(InvalidInput, match=key):
        read_configuration(file)
