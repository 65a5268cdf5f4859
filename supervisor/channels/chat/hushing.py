"""Words by which a person in a chat says that they are on what waits, or hears nothing of it for a while (A10).

    on it, I'm on it, ack              for half an hour no step of what waits comes, and its cards say who is on it
    snooze 30m, snooze 2h              the person hears nothing of it for so long
    snooze 07:00, snooze until 07:00   until then, in the time zone of the person's quiet hours, or else of this machine

Rules
- A word is the whole message; ids of approvals may follow it. Without ids it means what waits there and this person may
  decide. Nothing is decided.
- The command checks who may say it. What it refuses, and what does not wait any more, the reply says.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final

import msgspec

from supervisor.channels.wording.cards import summary
from supervisor.core.approvals.facts import instant_text
from supervisor.core.approvals.people import Person
from supervisor.core.errors import InvalidInput, NotEntitled, NotFound
from supervisor.core.ids import APPROVAL_ID
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval
from supervisor.seam.commands import MOST_HUSHED
from supervisor.seam.supervisor import Supervisor

_WORD: Final = re.compile(
    r"(?:(?P<ack>ack|on it|i(?:['\u2019]?m| am) on it)"
    r"|snooze +(?:until +)?(?:(?P<hour>\d\d?):(?P<minute>\d\d)|(?P<number>\d{1,3}) ?(?P<unit>m|min|h)))"
    rf"(?P<ids>(?: +{APPROVAL_ID})*)[.!]?",
    re.IGNORECASE | re.ASCII,
)
_MOST_TOLD: Final = 5
"""The most approvals that a reply names."""
HOW: Final = "ack or snooze 30m (also 2h, 07:00), with ids or for all that waits for you"
"""For a person who asks what they can write."""


class Hushed(msgspec.Struct, frozen=True):
    """What a person says. `until`: of a snooze; None: the person is on it."""

    until: datetime | None
    approvals: tuple[str, ...] = ()


def read_hush(text: str, now: datetime, person: Person) -> Hushed | None:
    """Return what a message says; None for another text, or one with a time of day that does not exist."""
    if (found := _WORD.fullmatch(text.strip())) is None:
        return None
    ids = tuple(found["ids"].lower().split())
    if found["ack"]:
        return Hushed(None, ids)
    if found["number"]:
        size = timedelta(hours=1) if found["unit"].lower() == "h" else timedelta(minutes=1)
        return Hushed(now + int(found["number"]) * size, ids)
    until = _next(int(found["hour"]), int(found["minute"]), now, person.quiet.zone if person.quiet else now.tzinfo)
    return None if until is None else Hushed(until, ids)


def _next(hour: int, minute: int, now: datetime, zone: tzinfo | None) -> datetime | None:
    if hour > 23 or minute > 59:
        return None
    local = now.astimezone(zone)
    at = local.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return at if at > local else at + timedelta(days=1)


async def hush(
    supervisor: Supervisor, said: Hushed, waiting: Sequence[Approval], person: Person, channel: str, now: datetime
) -> str:
    """Do what a person says, and return what to tell them. `waiting`: what they mean if they name nothing. Raises
    StoreError."""
    ids = said.approvals or tuple(each.id for each in waiting)
    if not ids:
        return "Nothing waits for you here."
    if len(ids) > MOST_HUSHED:
        return f"Nothing was done: {len(ids)} wait, and one message can name {MOST_HUSHED}. Write ids."
    try:
        if said.until is None:
            done = await supervisor.acknowledge(ids, by=person.name, channel=channel)
        else:
            done = await supervisor.snooze(ids, said.until, by=person.name, channel=channel)
    except (InvalidInput, NotEntitled, NotFound) as error:
        return f"Nothing was done: {visible(str(error), kind='words')}."
    if not done:
        return "Nothing of that waits any more."
    zone = person.quiet.zone if person.quiet else now.tzinfo
    what = (
        "You are on it: for half an hour nothing reminds of it, and its cards say so"
        if said.until is None
        else f"You hear nothing of it until {instant_text(said.until, now.astimezone(zone))}"
    )
    told = [f"  {summary(each)}" for each in waiting if each.id in done][:_MOST_TOLD]
    more = len(done) - len(told)
    named = [*told, f"  and {more} more"] if told and more else told
    return "\n".join([f"{what}. Nothing was decided{':' if named else '.'}", *named])
