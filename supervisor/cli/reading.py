"""Commands that only read: sessions, show, approvals, audit. They never create a store."""

import sys
from collections.abc import Awaitable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from cyclopts import Parameter

from supervisor.channels.wording.cards import GUTTER, path_text
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.asked import MOST_WHOLE, find_all, find_approval, print_approvals, print_rows
from supervisor.cli.exits import Exit, not_found
from supervisor.cli.options import ANYWHERE, AS_ME, AnyPlace, ApprovalId, JsonOption, PersonPlace, Place, SessionId
from supervisor.core.approvals.facts import ago, instant_text
from supervisor.core.blocking import Block
from supervisor.core.documents import approval_document, event_document, session_document
from supervisor.core.errors import NotFound
from supervisor.core.rows import JournalEntry, as_trees
from supervisor.core.text.visible import visible
from supervisor.core.usage import NOTHING, spent_text
from supervisor.core.values import ApprovalStatus, SessionView
from supervisor.seam.supervisor import Supervisor
from supervisor.system.loading import command_of

T = TypeVar("T")
MOST_FOUND: Final = 100
"""The most approvals whose audit trail a search lists."""
_STYLES: Final = {"active": "", "waiting": "yellow", "ok": "green", "error": "red", "cancelled": "dim"}


def sessions(
    *,
    open: Annotated[bool, Parameter(negative=(), help="List only sessions that have not ended.")] = False,  # noqa: A002 # --open
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """List sessions and their status."""
    views = place.read(lambda supervisor: supervisor.find_sessions(is_open=True if open else None, limit=None))
    if json:
        answers.print_json([session_document(view) for view in views])
    elif views:
        _print_sessions(views)
        waiting = any(view.pending_approvals for view in views)
        say_on_stderr(f"\nsupervisor {'approvals' if waiting else 'show SESSION'}{place.option}")
    else:
        say_on_stderr(f"No {'open ' if open else ''}sessions in {place.where}. Try: supervisor demo{place.option}")
    return Exit.DONE


def show(session: SessionId, /, *, place: AnyPlace = ANYWHERE, json: JsonOption = False) -> int:
    """Show what happened in a session, event by event."""
    view, rows, children = place.read(partial(_show, session, place), wanted=("session", session))
    if json:
        timeline = [event_document(row) for row in rows]
        answers.print_json({**session_document(view), "timeline": timeline})
    else:
        _print_story(view, rows, children, place)
    return Exit.DONE


def approvals(
    *ids: ApprovalId,
    all: Annotated[bool, Parameter(negative=(), help="Also list those that have ended.")] = False,  # noqa: A002 # --all
    reveal: Annotated[
        str | None,
        Parameter(
            help="Show the arguments of the call with this approval, with the credentials that are masked elsewhere. "
            "Only an operator may; the audit trail says who has looked."
        ),
    ] = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """List the calls and questions that wait for a person, oldest first. Up to three are shown whole. More are a line
    each: name some to see those whole."""
    if reveal is not None:
        answers.print_json(_reveal(place, reveal))
        return Exit.DONE
    found = place.read(partial(find_all, ids, place, pending=not all))
    if json:
        answers.print_json([approval_document(approval) for approval in found])
    elif found:
        if ids or len(found) <= MOST_WHOLE:
            print_approvals(found)
        else:
            print_rows(found)
        if ways := answers.ways_to_decide(found, place.option):
            say_on_stderr(f"\n{ways}")
    else:
        say_on_stderr(f"Nothing waits for a person in {place.where}.")
    return Exit.DONE


def _reveal(place: PersonPlace, approval: str) -> Any:
    async def look(supervisor: Supervisor, who: str) -> Any:
        found = await find_approval(supervisor, approval, place)
        return await supervisor.reveal(found.id, by=who, channel="command line")

    return place.give(None, look, wanted=("approval", approval))


def audit(
    *,
    text: Annotated[
        str | None, Parameter(help="Only approvals that asked something with these words, or words that begin so.")
    ] = None,
    by: Annotated[str | None, Parameter(help="Only what this person decided.")] = None,
    tool: Annotated[str | None, Parameter(help="Only calls of this tool.")] = None,
    agent: Annotated[str | None, Parameter(help="Only what agents of this name asked.")] = None,
    session: Annotated[str | None, Parameter(help="Only this session and all below it.")] = None,
    decided: Annotated[
        ApprovalStatus | None, Parameter(help="Only approvals of this status; a search looks at all.")
    ] = None,
    before: Annotated[datetime | None, Parameter(help="Only what was asked before this date or time.")] = None,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """List what was asked and shown, who decided it, and what then ran: all of it, or of approvals that a search finds.

    Of more than 100 found approvals it lists the newest.
    """
    search: dict[str, Any] = {
        "text": text,
        "by": by,
        "tool": tool,
        "agent": agent,
        "session": session,
        "decided": decided,
    }
    search |= {"before": before and before.astimezone()}
    given = {name: value for name, value in search.items() if value is not None}
    rows, names = place.read(partial(_found_audit, given) if given else _audit)
    if json:
        answers.print_json([event_document(row) for row in rows])
        return Exit.DONE
    from supervisor.cli.story import Story

    story, now = Story(), _now()
    for session, path in names.items():
        story.knows(session, path)
    for row in rows:
        print(f"{row.event.at.astimezone():%Y-%m-%d %H:%M:%S}  {story.name(row.session)}  {story.tell(row, now)}")
    if not rows and given:
        say_on_stderr(f"No approval in {place.where} was found.")
    elif not rows:
        say_on_stderr(f"Nothing has been asked or run yet in {place.where}.")
    return Exit.DONE


async def _audit(supervisor: Supervisor) -> tuple[list["JournalEntry"], dict[str, tuple[str, ...]]]:
    entries = await supervisor.find_audit(limit=None)
    return list(entries), {view.id: view.path for view in await supervisor.find_sessions(limit=None)}


async def _found_audit(
    search: dict[str, Any], supervisor: Supervisor
) -> tuple[list["JournalEntry"], dict[str, tuple[str, ...]]]:
    """Return what became of the newest approvals that a search finds, the oldest of them first."""
    from supervisor.seam.shown import read_course

    page = await supervisor.find_approvals(pending=False, newest_first=True, limit=MOST_FOUND, **search)
    if page.next is not None:
        say_on_stderr(f"These are the newest {MOST_FOUND}; search for less, or --before an earlier time.")
    found = page.items[::-1]
    rows = [row for each in found for row in await read_course(supervisor, each)]
    return rows, {each.session: each.path for each in found}


async def _show(
    session: str, place: AnyPlace, supervisor: Supervisor
) -> tuple[SessionView, tuple[JournalEntry, ...], list[SessionView]]:
    tree = await _found(supervisor, session, supervisor.get_tree(session, entries=0), place)
    (view,) = (each for each in tree.sessions if each.id == session)
    return view, tree.entries, [each for each in tree.sessions if each.parent == session]


async def get_session(supervisor: Supervisor, session: str, place: AnyPlace) -> SessionView:
    """Return a session. Raises NotFound, which names the closest ids."""
    return await _found(supervisor, session, supervisor.get_session(session), place)


async def _found(supervisor: Supervisor, session: str, reading: Awaitable[T], place: AnyPlace) -> T:
    try:
        return await reading
    except NotFound:
        known = [view.id for view in await supervisor.find_sessions(limit=None)]
        raise not_found("session", session, known, place.option) from None


def _print_sessions(views: Sequence[SessionView]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from supervisor.core.telling import how_it_is

    now = _now()
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False)
    table.add_column("session", no_wrap=False, overflow="fold", min_width=22)
    for name in ("agent", "status", "began"):
        table.add_column(name, overflow="fold")
    for view in as_trees(views, lambda view: view.id):
        indent = "  " * (len(view.path) - 1)
        tone, status = how_it_is(view, now)
        began = Text(ago(view.created_at, now), style="dim")
        table.add_row(Text(view.id), Text(indent + visible(view.path[-1])), Text(status, style=_STYLES[tone]), began)
    answers.open_console().print(table)


def _print_story(view: SessionView, rows: Sequence[JournalEntry], children: list[SessionView], place: AnyPlace) -> None:
    from supervisor.cli.story import Story
    from supervisor.core.telling import TRACEBACK, drawn, how_it_is, told_at

    now = _now()
    story = Story()
    for child in children:
        story.knows(child.id, child.path)
    owner = f", run by {view.owner}" if view.owner else ""
    spent = "" if view.usage == NOTHING else f"\nspent: {spent_text(view.usage)}"
    print(f"{path_text(view.path)} [{view.id}]: {how_it_is(view, now)[1]}{owner}{spent}\n")
    day = None
    width = len(str(len(rows)))
    for number, row in enumerate(rows, start=1):
        when = told_at(row).astimezone(now.tzinfo)
        if when.date() != day:
            day = when.date()
            print(f"{day:%A, %Y-%m-%d}")
        print(f"  {when:%H:%M:%S}  {number:>{width}}  {story.tell(row, now)}")
        for line in drawn(TRACEBACK(getattr(row.event, "traceback", "")), lines=True).splitlines():
            print(f"  {' ' * 8}  {' ' * width}  {GUTTER}{line}")
    for child in children:
        print(f"\n  below it: {visible(child.path[-1])} [{child.id}]: {how_it_is(child, now)[1]}", end="")
    if children:
        print()
    for line in block_lines(view, place):
        print(line)
    sys.stdout.flush()
    if view.pending_approvals:
        say_on_stderr(f"\nsupervisor approvals{place.option}")
    elif view.outcome is None and not view.running:
        command = command_of(view.path[0], view.root)
        say_on_stderr(
            f"\nsupervisor resume {view.root}{place.option}" if command is None else f"\nonly {command} runs it"
        )


def block_lines(view: SessionView, place: Place) -> list[str]:
    """Return why a session is blocked, where, and what to do; no lines if it is not."""
    if view.status != "blocked":
        return []
    if view.blocked is None:
        return ["", "blocked: a sub-agent below it is blocked; show that one"]
    seems = "seems blocked" if view.blocked.is_presumed else "blocked"
    return [
        "",
        f"{seems}: today's code does not do what this session's journal holds",
        *told_block(view.blocked),
        f"Nothing is lost. To go on, {GUIDE}.",
        *(
            f"Or start a new session from before that entry: supervisor fork {view.id} --before {n}{place.option}"
            for n in _entry_of(view)
        ),
        f"Or end it: supervisor cancel {view.id}{place.option}"
        if place.temporal is None
        else f"A cancel waits for such code, too. Or end it without: temporal workflow terminate -w {view.root}",
    ]


def _entry_of(view: SessionView) -> list[int]:
    return [view.blocked.entry] if view.blocked is not None and view.blocked.entry else []


GUIDE = "run it with code that does: the old code, ctx.patched, or @agent(versions=...)"


def told_block(block: Block) -> list[str]:
    """Return what the journal holds, what the code did instead, and where."""
    when = f", of {instant_text(block.held_at, _now())}" if block.held_at else ""
    entry = f"entry {block.entry}{when}: " if block.entry else ""
    lines = [f"  its journal  {entry}{visible(block.held, kind='words')}"] if block.held else []
    lines.append(f"  its code     {visible(block.cause, kind='words')}")
    places = dict.fromkeys(line for line in (block.where, block.in_agent) if line)
    return lines + [f"  at           {visible(line, kind='words')}" for line in places]


def _now() -> datetime:
    return datetime.now().astimezone()
