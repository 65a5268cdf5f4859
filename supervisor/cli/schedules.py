"""Schedules: schedules, and schedules add, pause, resume, run and remove (R11).

Only a person may change schedules: a process that a supervised call started is refused (A4). It may list them.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, TypeVar

from cyclopts import App, Parameter

from supervisor.channels.wording.schedules import schedule_line
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import ANYWHERE, AS_ME, AnyPlace, JsonOption, PersonPlace
from supervisor.cli.starting import next_to_a_daemon, offered_there, read_words
from supervisor.core.documents import schedule_document
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.core.ids import new_session_id
from supervisor.core.schedules import IfMissed, IfRunning, Schedule, ScheduleChange, ScheduleView
from supervisor.core.text.visible import visible
from supervisor.seam.supervisor import Supervisor

T = TypeVar("T")


def schedules(*, place: AnyPlace = ANYWHERE, json: JsonOption = False) -> int:
    """List the schedules of the store, oldest first, with the next instant of each and what became of the last one."""
    found = place.read(lambda supervisor: supervisor.find_schedules())
    if json:
        answers.print_json([schedule_document(view) for view in found])
    for view in () if json else found:
        print(schedule_line(view))
    if not (found or json):
        say_on_stderr(
            f"There are no schedules in {place.where}. To add one: supervisor schedules add NAME AGENT INPUT "
            f"--cron '0 3 * * *'{place.option}"
        )
    return Exit.DONE


def add(
    name: str,
    agent: str,
    input: str | None = None,  # noqa: A002 # the word that people know
    /,
    *,
    cron: Annotated[str, Parameter(help="When: minute, hour, day of the month, month, day of the week.")],
    timezone: Annotated[str, Parameter(help="The time zone, such as Europe/Berlin.")] = "UTC",
    if_missed: Annotated[IfMissed, Parameter(help="What to do about instants at which no daemon ran.")] = "once",
    if_running: Annotated[IfRunning, Parameter(help="What to do while the session before is open.")] = "skip",
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Begin an agent by the clock from now on, once for each instant.

    Parameters
    ----------
    name
        The schedule's name: lower-case letters, digits and `-`.
    agent
        The name of an agent that the daemon or the server offers.
    input
        Its input: JSON, or plain words for an agent that takes text.
    """
    when = partial(Schedule, cron=cron, timezone=timezone, if_missed=if_missed, if_running=if_running)

    async def body(supervisor: Supervisor, who: str) -> ScheduleView:
        if input is None:
            return await supervisor.add_schedule(when(name, agent), by=who)
        is_json, value = read_words(input)
        try:
            return await supervisor.add_schedule(when(name, agent, value), by=who)
        except UnknownAgent:
            raise
        except InvalidInput:  # nothing was added
            if not is_json or isinstance(value, str | list | dict):
                raise
            return await supervisor.add_schedule(when(name, agent, input), by=who)

    added = _do(place, body, offers=True)
    return _show(added, "added", as_json=json)


def pause(name: str, /, *, place: PersonPlace = AS_ME, json: JsonOption = False) -> int:
    """Let a schedule begin nothing until it is resumed. What it has begun goes on."""
    return _change(name, "paused", place, as_json=json)


def resume(name: str, /, *, place: PersonPlace = AS_ME, json: JsonOption = False) -> int:
    """Let a paused schedule go on. The instants during the pause are left out."""
    return _change(name, "running", place, as_json=json)


def remove(name: str, /, *, place: PersonPlace = AS_ME, json: JsonOption = False) -> int:
    """Remove a schedule. What it has begun goes on."""
    return _change(name, "removed", place, as_json=json)


def run(name: str, /, *, place: PersonPlace = AS_ME, json: JsonOption = False) -> int:
    """Start a session of a schedule now, and print its id."""
    session = new_session_id()

    async def body(supervisor: Supervisor, who: str) -> str:
        return (await supervisor.run_schedule(name, session=session, by=who)).session

    started = _do(place, body, offers=True)
    if json:
        answers.print_json({"session": started})
    else:
        print(started)
    return Exit.DONE


def _change(name: str, to: ScheduleChange, place: PersonPlace, *, as_json: bool) -> int:
    async def body(supervisor: Supervisor, who: str) -> ScheduleView:
        return await supervisor.change_schedule(name, to, by=who)

    changed = _do(place, body, wanted=("schedule", name))
    return _show(changed, {"running": "resumed"}.get(to, to), as_json=as_json)


def _show(view: ScheduleView, became: str, *, as_json: bool) -> int:
    if as_json:
        answers.print_json(schedule_document(view))
    else:
        print(f"{became} {visible(view.schedule.name)}")
    return Exit.DONE


def _do(
    place: PersonPlace,
    body: Callable[[Supervisor, str], Awaitable[T]],
    *,
    offers: bool = False,
    wanted: tuple[str, str] | None = None,
) -> T:
    """Open the place, and give a command there. `offers`: it needs the agents of the daemon."""
    opened = partial(next_to_a_daemon, place, *offered_there(place)) if offers and not place.is_server else None
    return place.give("changing schedules", body, wanted=wanted, opened=opened)


commands = App(name="schedules", default_command=schedules)
for command in (add, pause, resume, run, remove):
    commands.command(command)
