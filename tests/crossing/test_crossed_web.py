"""What waits in the recorded store `calls` is shown and decided on the web, over HTTP and on the command line."""

import json
import subprocess
import sys

import crossing_agents
import preloaded
import pytest
from crossed import CROSSINGS, RELEASE, opened, unpacked
from sites import person, world_of

from supervisor import People

pytestmark = pytest.mark.anyio
OLGA = People([person("olga", "operator")])


@pytest.fixture(params=CROSSINGS)
def path(request, tmp_path):
    crossing_agents.effects.clear()
    return unpacked(request.param, "calls", tmp_path)


async def test_the_inbox_shows_and_decides_what_waits(path):
    """The page of each approval and of each session; a call that is approved and a question that is answered."""
    async with opened(path, people=OLGA) as supervisor, world_of(supervisor, OLGA).client("olga") as client:
        runs = {run.session: run for run in await supervisor.resume_all()}
        found = (await client.get("/api/approvals")).json()["items"]
        asked = {each["root_session"]: each["id"] for each in found}
        assert {"own", "text", "choices", "schema", "sub", "tree", "passive", "secret"} <= asked.keys()
        assert asked["own"] in (await client.get("/")).text
        for approval in asked.values():
            page = await client.get(f"/approvals/{approval}")
            assert (page.status_code, "hunter2" in page.text) == (200, False)
        for session in ("tree", "blocked", "turns", "done", "failed"):
            assert (await client.get(f"/sessions/{session}")).status_code == 200
        for session, decision in (
            ("own", {"decision": "approve"}),
            ("schema", {"decision": "answer", "value": RELEASE}),
        ):
            decided = await client.post(f"/api/approvals/{asked[session]}/decision", json=decision)
            assert decided.json()["kind"] == "accepted", decided.text
        assert await runs["own"].result() == ["ok", "deployed a"]
        assert await runs["schema"].result() == "beta 1.2.3 2026-11-24 2 True"
    assert crossing_agents.effects.count("deploy a 1") == 1


def test_the_command_line_lists_shows_and_decides_what_waits(path):
    """In processes that know no agent of the store."""

    def run(*command):
        ran = preloaded.run([sys.executable, "-m", "supervisor", *command, "--store", path], stdout=subprocess.PIPE)
        assert ran.returncode == 0, (command, ran)
        return ran.stdout

    asked = {each["root_session"]: each["id"] for each in json.loads(run("approvals", "--json"))}
    sessions = {each["id"]: each["status"] for each in json.loads(run("sessions", "--json"))}
    assert (sessions["own"], sessions["blocked"], sessions["done"]) == ("waiting_approval", "blocked", "completed")
    assert run("show", "tree")
    run("deny", asked["own"], "--by", "ana")
    assert asked["own"] not in {each["id"] for each in json.loads(run("approvals", "--json"))}
