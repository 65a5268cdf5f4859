"""Approvals at a shell: how a person finds one by its id, and how lists show them.

Rules
- An id may be short: the first characters of its random part, as lists print it. One that fits none, or several, is an
  error that lists what it may mean.
- Up to MOST_WHOLE approvals are shown whole, with the options that decide them. Of more there is a line each.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from supervisor.channels.wording.cards import GUTTER, all_facts, decided, headline, path_text, summary
from supervisor.channels.wording.granting import grants, longer_ways
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import not_found
from supervisor.cli.options import AnyPlace
from supervisor.core.approvals.facts import Fact, ago, instant_text
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.ids import LEAST_CHARACTERS, short_ids, with_short_id
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor

MOST_CANDIDATES: Final = 10
MOST_WHOLE: Final = 3
"""The most approvals that a list shows whole."""
_MORE: Final = " " * 13 + GUTTER
"""Begins each further line of a fact."""


async def find_all(ids: Sequence[str], place: AnyPlace, supervisor: Supervisor, *, pending: bool) -> Sequence[Approval]:
    """Return the approvals with these ids, or all."""
    if not ids:
        return await supervisor.find_approvals(pending=pending, limit=None)
    return [await find_approval(supervisor, each, place) for each in ids]


async def find_approval(supervisor: Supervisor, given: str, place: AnyPlace) -> Approval:
    """Return the approval with this id, or with this short id. Raises InvalidInput if several have it, NotFound if none
    has; both name candidates."""
    try:
        return await supervisor.get_approval(given)
    except NotFound:
        pass
    waiting = await supervisor.find_approvals(limit=None)
    meant = with_short_id(given, [each.id for each in waiting])
    everything = waiting if meant else await supervisor.find_approvals(pending=False, limit=None)
    meant = meant or with_short_id(given, [each.id for each in everything])
    found = [each for each in everything if each.id in meant]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput("\n".join([f"{given} may be any of these:", *candidates(found)]))
    raise await _unknown(supervisor, given, place)


def candidates(found: Sequence[Approval]) -> list[str]:
    """Return a line for each of the first approvals, with its short id."""
    short = short_ids([each.id for each in found])
    lines = [f"  {short[each.id]}  {headline(each)}: {summary(each)}" for each in found[:MOST_CANDIDATES]]
    return lines + [f"  and {len(found) - MOST_CANDIDATES} more"] * (len(found) > MOST_CANDIDATES)


async def _unknown(supervisor: Supervisor, approval: str, place: AnyPlace) -> NotFound:
    """Return the error for an id that no approval has. People often give a session's id instead."""
    everything = await supervisor.find_approvals(pending=False, limit=None)
    here = [other.id for other in everything if approval in (other.session, other.root_session)]
    if here:
        return NotFound(f"{approval} is a session, not an approval; it asked {', '.join(here)}")
    error = not_found("approval", approval, [other.id for other in everything], place.option)
    if len(approval) < LEAST_CHARACTERS:
        error = NotFound(f"{approval} is too short for an id: give at least {LEAST_CHARACTERS} characters")
    waiting = [other for other in everything if other.status == "pending"]
    return NotFound("\n".join([str(error), *(["waiting:"] * bool(waiting)), *candidates(waiting)]))


def print_rows(found: Sequence[Approval]) -> None:
    """Print a line for each approval below its root session: its short id, what would run, for whom, since when."""
    from rich.text import Text

    now = datetime.now().astimezone()
    console, short = answers.open_console(), short_ids([each.id for each in found])
    trees: dict[str, list[Approval]] = {}
    for each in found:
        trees.setdefault(each.root_session, []).append(each)
    for number, (root, asked) in enumerate(trees.items()):
        text = Text("\n" * (number > 0)).append(f"{visible(asked[0].path[0])} [{root}]: {len(asked)}", style="dim")
        for each in asked:
            is_pending = each.status == "pending"
            text.append(f"\n  {short[each.id]}", style="bold yellow" if is_pending else "dim")
            text.append(f"  {summary(each, 200)}")
            below = f", {path_text(each.path[1:])}" if len(each.path) > 1 else ""
            text.append(f"  ({ago(each.created_at, now) if is_pending else each.status}{below})", style="dim")
        console.print(text)
    say_on_stderr(f"\nTo see one whole: supervisor approvals {short[found[0].id]}")


def print_approvals(found: Sequence[Approval]) -> None:
    now = datetime.now().astimezone()
    console = answers.open_console()
    from rich.text import Text

    short = short_ids([each.id for each in found])
    for number, approval in enumerate(found):
        text = Text("\n" if number else "")
        is_pending = approval.status == "pending"
        text.append(short[approval.id], style="bold yellow" if is_pending else "dim")
        when = f"since {instant_text(approval.created_at, now)}, {ago(approval.created_at, now)}"
        text.append(f"  {when if is_pending else decided(approval, now)}\n", style="dim")
        text.append(f"  {headline(approval)}\n")
        for fact in listed_facts(approval, now):
            first, *more = fact.text.split("\n")
            style = "dim" if fact.is_default else None
            text.append(f"    {fact.label:<8} ", style="dim").append(f"│ {first}" if more else first, style)
            for line in more:
                text.append(f"\n{_MORE}").append(line, style)
            text.append("\n")
        text.rstrip()
        for way in longer_ways(grants(approval, "session")) if is_pending else ():
            text.append(f"\n    longer   {' or '.join(way.options)}, for:", style="dim")
            several = "\n" in way.pattern
            text.append(
                "".join(f"\n{_MORE}{each}" for each in way.pattern.split("\n")) if several else f" {way.pattern}"
            )
        if is_pending and not approval.shown:
            text.append("\n    no channel has shown it yet", style="dim")
        console.print(text)


def listed_facts(approval: Approval, now: datetime) -> list[Fact]:
    """Return what is asked, where, for whom and until when; fewer facts of an approval that has ended. Its short id and
    its age stand above them."""
    told = [fact for fact in all_facts(approval, now) if fact.kind != "ours" or fact.name != "since"]
    if approval.status == "pending":
        return told
    return [fact for fact in told if fact.is_needed or fact.is_id]
