"""Approvals at a shell: how a person finds one by its id, and how lists show them.

Rules
- An id may be short: the first characters of its random part, as lists print it. One that fits none, or several, is an
  error that lists what it may mean.
- Up to MOST_WHOLE approvals are shown whole, with the options that decide them. Of more there is a line each.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

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
    if here := [other for other in everything if approval in (other.session, other.root_session)]:
        first = sorted(here, key=lambda other: other.status != "pending")
        return NotFound("\n".join([f"{approval} is a session, not an approval; it asked:", *candidates(first)]))
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
        console.print("\n" * (number > 0), Text(f"{visible(asked[0].path[0])} [{root}]: {len(asked)}", "dim"), sep="")
        for each in asked:
            is_pending = each.status == "pending"
            below = f", {path_text(each.path[1:])}" if len(each.path) > 1 else ""
            told = Text(summary(each, 200))
            told.append(f"  ({ago(each.created_at, now) if is_pending else each.status}{below})", "dim")
            _hang(console, Text(f"  {short[each.id]}", "bold yellow" if is_pending else "dim").append("  "), told)
    say_on_stderr(f"\nTo see one whole: supervisor approvals {short[found[0].id]}")


def print_approvals(found: Sequence[Approval]) -> None:
    from rich.text import Text

    now = datetime.now().astimezone()
    console, short = answers.open_console(), short_ids([each.id for each in found])
    for number, approval in enumerate(found):
        is_pending = approval.status == "pending"
        when = f"since {instant_text(approval.created_at, now)}, {ago(approval.created_at, now)}"
        begins = Text(("\n" * (number > 0)) + short[approval.id], "bold yellow" if is_pending else "dim")
        console.print(begins.append(f"  {when if is_pending else decided(approval, now)}", "dim"))
        _hang(console, Text("  "), Text(headline(approval)))
        for fact in listed_facts(approval, now):
            first, *more = fact.text.split("\n")
            style = "dim" if fact.is_default else ""
            _hang(console, Text(f"    {fact.label:<8} ", "dim"), Text(f"{GUTTER}{first}" if more else first, style))
            for line in more:
                _hang(console, Text(_MORE), Text(line, style))
        for way in longer_ways(grants(approval, "session")) if is_pending else ():
            begins = Text(f"    longer   {' or '.join(way.options)}, for:", "dim")
            lines = way.pattern.split("\n")
            if len(lines) == 1:
                _hang(console, begins.append(" "), Text(way.pattern))
                continue
            console.print(begins)
            for line in lines:
                _hang(console, Text(_MORE), Text(line))
        if is_pending and not approval.shown:
            console.print(Text("    no channel has shown it yet", "dim"))


def _hang(console: "Console", begins: "Text", told: "Text") -> None:
    """Print a line. What does not fit the screen goes on below `told`, or, where that leaves too little room, below
    what we write; nowhere does it begin as a line of ours."""
    from rich.text import Text

    indent = begins.cell_len
    if indent > console.width // 2:
        begins, told, indent = Text(), begins + told, len(_MORE)
    for line in told.wrap(console, max(console.width - indent, 1), overflow="fold"):
        console.print(begins + line)
        begins = Text(" " * indent)


def listed_facts(approval: Approval, now: datetime) -> list[Fact]:
    """Return what is asked, where, for whom and until when; fewer facts of an approval that has ended. Its short id and
    its age stand above them."""
    told = [fact for fact in all_facts(approval, now) if fact.kind != "ours" or fact.name != "since"]
    if approval.status == "pending":
        return told
    return [fact for fact in told if fact.is_needed or fact.is_id]
