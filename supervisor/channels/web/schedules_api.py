"""Schedules over HTTP: list, add, change, run (R11)."""

from typing import Any, Final

import msgspec
from msgspec.structs import asdict
from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoints, json_document, page_document
from supervisor.channels.web.schemas import (
    RequestFields,
    ScheduleDocument,
    SessionId,
    Started,
    page_of,
)
from supervisor.core.documents import schedule_document
from supervisor.core.schedules import IfMissed, IfRunning, Schedule, ScheduleChange
from supervisor.seam import commands


class ScheduleBody(RequestFields, frozen=True, kw_only=True):
    """An agent that begins by the clock. `cron`: minute, hour, day of the month, month, day of the week. `input`: the
    agent gets its default if this is left out. `if_missed`: begin one session for instants at which no process ran, or
    none. `if_running`: while the session before is open, begin none, begin after it, or begin at once."""

    name: str
    agent: str
    input: Any = msgspec.UNSET
    cron: str
    timezone: str = "UTC"
    if_missed: IfMissed = "once"
    if_running: IfRunning = "skip"


class ScheduleChangeBody(RequestFields, frozen=True, kw_only=True):
    """What shall become of the schedule: `paused`, `running` again, or `removed`."""

    to: ScheduleChange


class ScheduleRunBody(RequestFields, frozen=True, kw_only=True):
    """`session`: the id of the new session; if that session exists, nothing is started."""

    session: SessionId | None = None


ENDPOINTS: Final = Endpoints()


@ENDPOINTS.add("GET /api/schedules", {200: page_of(ScheduleDocument, "SchedulePage")})
async def list_schedules(call: Call) -> Response:
    """List the schedules of the store, oldest first."""
    return page_document(await call.supervisor.find_schedules(), schedule_document)


@ENDPOINTS.add("POST /api/schedules", {201: ScheduleDocument}, command=commands.AddSchedule, body=ScheduleBody)
async def add_schedule(call: Call) -> Response:
    """Begin an agent by the clock from now on; adding the same schedule again changes nothing."""
    body: ScheduleBody = call.body
    added = await call.supervisor.add_schedule(Schedule(**asdict(body)), by=call.person.name)
    return json_document(schedule_document(added), 201)


@ENDPOINTS.add(
    "POST /api/schedules/{name}", {200: ScheduleDocument}, command=commands.ChangeSchedule, body=ScheduleChangeBody
)
async def change_schedule(call: Call) -> Response:
    """Pause a schedule, let it go on, or remove it; the answer is the schedule."""
    changed = await call.supervisor.change_schedule(call.path("name"), call.body.to, by=call.person.name)
    return json_document(schedule_document(changed))


@ENDPOINTS.add(
    "POST /api/schedules/{name}/run",
    {200: Started, 201: Started},
    command=commands.RunSchedule,
    body=ScheduleRunBody,
    may_omit_body=True,
)
async def run_schedule(call: Call) -> Response:
    """Start a session of a schedule now, between its instants."""
    session = None if call.body is None else call.body.session
    run = await call.supervisor.run_schedule(call.path("name"), session=session, by=call.person.name)
    return json_document(msgspec.to_builtins(Started(run.session, run.number)), 201 if run.is_new else 200)
