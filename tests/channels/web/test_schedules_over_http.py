"""Schedules over HTTP and on their page: what an operator does there is done, and what others do is refused (A4)."""

import re

import pytest
from anyio import wait_all_tasks_blocked
from sites import world
from test_pages_of_a_site import site

from supervisor import Schedule
from supervisor.core.documents import schedule_document

pytestmark = pytest.mark.anyio
DAILY = {"name": "daily", "agent": "chatting", "input": "hello", "cron": "0 3 * * *"}


async def test_the_api_adds_lists_pauses_and_removes_a_schedule():
    async with world() as here, here.client("olga") as client:
        assert (await client.post("/api/schedules", json=DAILY)).status_code == 201
        (shown,) = (await client.get("/api/schedules")).json()["items"]
        (view,) = await here.supervisor.find_schedules()
        assert shown == schedule_document(view)
        assert (view.schedule, view.by) == (Schedule(**DAILY), "olga")
        paused = (await client.post("/api/schedules/daily", json={"to": "paused"})).json()
        assert (paused["is_paused"], paused["next"]) == (True, None)
        await client.post("/api/schedules/daily", json={"to": "removed"})
        assert (await client.get("/api/schedules")).json()["items"] == []


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"cron": "x"}, 422),
        ({"timezone": "Mars"}, 422),
        ({"agent": "no"}, 422),
        ({"name": "A b"}, 422),
        ({"x": 1}, 422),
    ],
)
async def test_a_schedule_that_cannot_be_is_refused(changed, status):
    async with world() as here, here.client("olga") as client:
        answer = await client.post("/api/schedules", json=DAILY | changed)
        assert answer.status_code in (422, 404)
        assert not await here.supervisor.find_schedules()


async def test_a_run_of_a_schedule_is_one_session_for_each_id():
    async with world() as here, here.client("olga") as client:
        await client.post("/api/schedules", json=DAILY)
        statuses = [
            (await client.post("/api/schedules/daily/run", json={"session": "s"})).status_code for _ in range(2)
        ]
        assert statuses == [201, 200]
        assert [each.id for each in await here.supervisor.find_sessions()] == ["s"]


async def test_an_operator_pauses_runs_and_removes_a_schedule_on_its_page(tmp_path):
    async with site(tmp_path) as (supervisor, browser):
        await wait_all_tasks_blocked()  # it is served
        await supervisor.add_schedule(Schedule(**DAILY | {"input": "<b>&"}), by="ana")
        person = await browser("ana")
        page = await person.get("/schedules")
        assert "&lt;b&gt;&amp;" in page.text
        assert {"Pause", "Run now", "Remove"} <= {*re.findall(r">([A-Z][a-z ]+)</button>", page.text)}
        assert (await person.post("/schedules/daily", do="pause")).status_code == 303
        assert "paused" in (await person.get("/schedules")).text
        ran = await person.post("/schedules/daily", do="run", session="s")
        assert ran.headers["location"] == "/sessions/s"
        await person.post("/schedules/daily", do="remove")
        assert not await supervisor.find_schedules()
        assert (await person.post("/schedules/daily", do="nonsense")).status_code == 422


async def test_a_person_who_is_no_operator_reads_the_page_and_changes_nothing(tmp_path):
    async with site(tmp_path) as (supervisor, browser):
        await wait_all_tasks_blocked()  # it is served
        await supervisor.add_schedule(Schedule(**DAILY), by="ana")
        for name in ("bob", "eve"):
            person = await browser(name)
            assert "<button" not in (await person.get("/schedules")).text.split("<main")[1]
            assert (await person.post("/schedules/daily", do="remove")).status_code == 403
        assert len(await supervisor.find_schedules()) == 1
