"""Runs over HTTP: their outcomes, and what begins them again."""

import anyio
import pytest
from sites import world

from supervisor.core import events as e

pytestmark = pytest.mark.anyio
NOTE = {"agent": "noting", "input": {"x": "/dev/null"}, "session": "mine"}


async def decide(client, session: str, decision: str = "approve") -> None:
    (asked,) = (await client.get(f"/api/sessions/{session}")).json()["pending_approvals"]
    await client.post(f"/api/approvals/{asked['id']}/decision", json={"decision": decision})


async def started(here, client) -> None:
    """Start a session that asks, and wait until it does."""
    await client.post("/api/sessions", json=NOTE)
    async with here.supervisor.watch_approvals() as watch:
        await anext(watch)


@pytest.mark.parametrize("number", ["1", "latest"])
async def test_a_run_has_no_outcome_until_it_ends(number):
    """By its number, or the latest one."""
    async with world() as here, here.client("olga") as client:
        await started(here, client)
        path = f"/api/sessions/mine/runs/{number}"
        assert (await client.get(path)).json() == {"session": "mine", "run": 1, "outcome": None}
        await decide(client, "mine")
        ended = (await client.get(path, params={"wait": 30})).json()
        assert ended["outcome"] == {"kind": "succeeded", "cause": None, "partial": None, "said": "", "value": "noted x"}


async def test_a_wait_ends_with_the_run_with_its_time_and_with_the_server():
    """Whichever comes first; it is one of the streams meanwhile."""
    async with world() as here, here.client("olga") as client:
        await started(here, client)
        answers = []

        async def wait() -> None:
            answers.append((await client.get("/api/sessions/mine/runs/latest", params={"wait": 30})).json())

        for ends in (lambda: decide(client, "mine", "deny"), None):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                while not here.site.streams.count and not answers:
                    await anyio.lowlevel.checkpoint()
                if ends is None:
                    here.site.stop()
                else:
                    await ends()
            assert here.site.streams.count == 0
            if ends is not None:
                assert answers.pop()["outcome"]["kind"] == "succeeded"
                await client.post("/api/sessions", json={**NOTE, "session": "other"})


@pytest.mark.parametrize(("number", "status"), [("0", 404), ("2", 404), ("x", 404), ("latest", 200), ("-1", 404)])
async def test_a_run_that_is_not_there_is_not_found(number, status):
    """Runs are counted from 1."""
    async with world() as here, here.client("olga") as client:
        await started(here, client)
        assert (await client.get(f"/api/sessions/mine/runs/{number}")).status_code == status
        assert (await client.get(f"/api/sessions/nowhere/runs/{number}")).status_code == 404
        assert (await client.get("/api/sessions/mine/runs/1?wait=31")).status_code == 422


@pytest.mark.parametrize("path", ["/api/sessions/mine/resume", "/api/resume"])
async def test_an_operator_resumes(path):
    """One tree, or all that no process runs; one that runs here already is answered as it is."""
    async with world() as here, here.client("olga") as client:
        await started(here, client)
        answer = await client.post(path)
        assert answer.status_code == 200, answer.text
        run = {"id": "mine", "run": 1}
        assert answer.json() in (run, {"items": [run]})


async def test_the_same_fork_again_is_one_fork():
    """By the id that the client makes; under that id another fork is a conflict."""
    async with world() as here, here.client("olga") as client:
        await started(here, client)
        fork = {"before": 3, "session": "copy"}
        answers = [await client.post("/api/sessions/mine/fork", json=fork) for _ in range(2)]
        assert [each.status_code for each in answers] == [201, 201]
        assert answers[0].json() == answers[1].json()
        assert (await client.post("/api/sessions/mine/fork", json={**fork, "before": 4})).status_code == 409
        taken = [row for row in await here.supervisor.find_entries("mine") if isinstance(row.event, e.ForkTaken)]
        assert len(taken) == 1


async def test_a_retry_is_of_a_run_that_ended_badly():
    """Any other is told what to do instead."""
    async with world() as here, here.client("olga") as client:
        await started(here, client)
        assert (await client.post("/api/sessions/mine/retry")).status_code == 422
        assert (await client.post("/api/sessions/nowhere/retry")).status_code == 404


async def test_a_message_that_decides_nothing_is_sent_whatever_it_says():
    """So a program can say "yes" to an agent."""
    async with world() as here, here.client("olga") as client:
        await started(here, client)
        answer = await client.post("/api/sessions/mine/messages", json={"text": "yes", "decides": False})
        assert (answer.json()["kind"], answer.json()["sent"]["kind"]) == ("sent", "kept")
        async with here.client("ana") as other:
            refused = await other.post("/api/sessions/mine/messages", json={"text": "yes", "decides": False})
        assert refused.status_code == 403
        assert len(await here.supervisor.find_approvals()) == 1
