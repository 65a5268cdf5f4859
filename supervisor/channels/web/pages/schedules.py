"""The page of schedules: what begins by the clock, and buttons for operators (R11)."""

from typing import Final

from starlette.responses import RedirectResponse, Response

from supervisor.channels.web import rendering
from supervisor.channels.web.pages.visits import Visit
from supervisor.channels.web.problems import problem_of
from supervisor.channels.wording.schedules import schedule_facts
from supervisor.core.errors import InvalidInput, NotEntitled
from supervisor.core.ids import new_session_id
from supervisor.core.schedules import ScheduleChange
from supervisor.core.text.visible import visible

_CHANGES: Final[dict[str, ScheduleChange]] = {"pause": "paused", "resume": "running", "remove": "removed"}
"""What a button does."""


async def list_schedules(visit: Visit, status: int = 200, *, told: str = "") -> Response:
    model = {
        "schedules": await visit.supervisor.find_schedules(),
        "told": told,
        "may_change": visit.person.is_operator,
        "facts": schedule_facts,
        "labels": {"pause": "Pause", "resume": "Resume", "run": "Run now", "remove": "Remove"},
        "new_session": new_session_id,
    }
    return await visit.page("schedules.html", "schedules", model, status=status)


async def change_schedule(visit: Visit) -> Response:
    """Do what the pressed button says. A session that it starts has an id from the page: the same again is the same."""
    name, does, by = visit.path("name"), visit.form.get("do", ""), visit.person.name
    try:
        if does == "run":
            run = await visit.supervisor.run_schedule(name, session=visit.form.get("session") or None, by=by)
            return RedirectResponse(rendering.url("sessions", run.session), 303)
        if (to := _CHANGES.get(does)) is None:
            raise InvalidInput("a schedule can be paused, resumed, run and removed")
        await visit.supervisor.change_schedule(name, to, by=by)
    except (NotEntitled, InvalidInput) as error:
        told = visible(f"Not done: {error}", kind="words")
        return await list_schedules(visit, problem_of(error).status, told=told)
    return RedirectResponse(rendering.url("schedules"), 303)
