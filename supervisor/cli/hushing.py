"""`supervisor ack` and `supervisor snooze`: say that you are on what waits, or hear nothing of it for a while (A10).

Neither decides anything. Without ids both mean what waits now, of one session or of all: the ids are read once, and
printed. What is asked later is not meant.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated

from cyclopts import Parameter

from supervisor.channels.wording.cards import headline, summary
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import AS_ME, JsonOption, PersonPlace
from supervisor.core.errors import InvalidInput
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor

Ids = Annotated[str, Parameter(help="Ids of approvals, whole or short. None: all that wait now.")]
OfSession = Annotated[
    str | None, Parameter(name="--session", help="Only what this session and those below it ask; by its root's id.")
]
Hush = Callable[[Supervisor, list[str], str], Awaitable[tuple[str, ...]]]


def ack(
    *approvals: Ids,
    session: OfSession = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Say that you are on what waits. For half an hour no reminder of it comes, and its cards say who is on it."""

    async def acknowledge(supervisor: Supervisor, ids: list[str], who: str) -> tuple[str, ...]:
        return await supervisor.acknowledge(ids, by=who, channel="command line")

    return _hush(approvals, session, acknowledge, "acknowledging", place, as_json=json)


def snooze(
    *approvals: Ids,
    until: Annotated[str, Parameter(name="--until", help="07:00, or 2027-01-31T07:00, here; or with a time zone.")],
    session: OfSession = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Hear nothing of what waits until later. Others hear of it, and its cards stay."""
    end = _instant(until, datetime.now().astimezone())

    async def sleep(supervisor: Supervisor, ids: list[str], who: str) -> tuple[str, ...]:
        return await supervisor.snooze(ids, end, by=who, channel="command line")

    return _hush(approvals, session, sleep, "snoozing", place, as_json=json)


def _hush(
    named: tuple[str, ...], session: str | None, hush: Hush, action: str, place: PersonPlace, *, as_json: bool
) -> int:
    from supervisor.cli.asked import find_approval

    if named and session is not None:
        raise InvalidInput("write ids, or --session, but not both")

    async def body(supervisor: Supervisor, who: str) -> tuple[list[Approval], tuple[str, ...]]:
        if named:
            found = [await find_approval(supervisor, each, place) for each in named]
        else:
            waiting = await supervisor.find_approvals(limit=None)
            found = [each for each in waiting if session in (None, each.root_session)]
        ids = [each.id for each in found]
        return found, await hush(supervisor, ids, who) if ids else ()

    found, done = place.give(action, body, wanted=("session", session) if session is not None else None)
    if as_json:
        answers.print_json({"approvals": list(done)})
    for approval in found if not as_json else ():
        if approval.id in done:
            print(f"{headline(approval)}: {summary(approval)} [{approval.id}]")
    if not done:
        say_on_stderr("Nothing of that waits for you.")
    return Exit.DONE if done or not named else Exit.CONFLICT


def _instant(text: str, now: datetime) -> datetime:
    """Return an instant as a person writes it; a time alone is the next one. Raises InvalidInput."""
    try:
        if len(text) <= len("07:00"):
            hour, minute = (int(each) for each in text.split(":"))
            found = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return found if found > now else found + timedelta(days=1)
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"--until {text}: write a time, such as 07:00, or 2027-01-31T07:00") from None
    return found if found.tzinfo is not None else found.astimezone()
