"""The history: approvals of all states, newest first, as a search finds them, with what became of each.

Rules
- The search is a form without scripts: its address has all of it, so it can be kept and sent.
- A row is that of the inbox. Below it stands what the journal says: where it was shown, and whether whole, who decided
  and where, and what came of the call.
- Nothing is decided here: a row leads to its card.
"""

from datetime import datetime, time
from typing import Any, Final, get_args
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from supervisor.channels.web.pages.rows import Row, row_of
from supervisor.channels.web.pages.visits import Visit
from supervisor.core import events as e
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.telling import Parts, Telling
from supervisor.core.values import Approval, ApprovalStatus
from supervisor.seam.runs import Page
from supervisor.seam.shown import read_course

A_PAGE: Final = 25
FIELDS: Final = ("text", "by", "tool", "agent", "session")
STATUSES: Final = {"": "any", "true": "all that ended", **{each: each for each in get_args(ApprovalStatus)}}
"""What an approval may have become, and the page's words for it."""
_SILENT: Final = (e.ToolCallRequested, e.QuestionAsked, e.ToolCallStarted, e.CardBegun, e.CardRetired)
"""What the row says itself, or what follows says better."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One approval, and what became of it."""

    row: Row
    told: tuple[Parts, ...]


async def show_history(visit: Visit) -> Response:
    asked = {name: visit.request.query_params.get(name, "").strip() for name in (*FIELDS, "decided", "before")}
    asked["decided"] = asked["decided"] if asked["decided"] in STATUSES else ""
    after = visit.request.query_params.get("after") or None
    problem, page = "", Page[Approval]((), None, "")
    try:
        page = await visit.supervisor.find_approvals(
            pending=False, newest_first=True, after=after, limit=A_PAGE, **_search(asked)
        )
    except (InvalidInput, NotFound) as error:
        problem = str(error)
    said = {name: value for name, value in asked.items() if value}
    model = {
        "found": [await _found(visit, each) for each in page],
        "asked": asked,
        "statuses": STATUSES,
        "problem": problem,
        "is_search": bool(said),
        "this": urlencode(said),
        "older": page.next and urlencode({**said, "after": page.next}),
        "is_first": after is None,
    }
    return await visit.page("history.html", "history", model, status=422 if problem else 200)


def _search(asked: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of a search. Raises InvalidInput."""
    search: dict[str, Any] = {name: asked[name] for name in FIELDS if asked[name]}
    if asked["decided"]:
        search["decided"] = asked["decided"] == "true" or asked["decided"]
    if asked["before"]:
        try:
            day = datetime.fromisoformat(asked["before"])
        except ValueError:
            raise InvalidInput("a day is written as 2026-01-31") from None
        search["before"] = datetime.combine(day, time.min).astimezone()
    return search


async def _found(visit: Visit, approval: Approval) -> Found:
    course = await read_course(visit.supervisor, approval)
    telling = Telling(is_grouped=True)
    told = tuple(telling.tell(row) for row in course if not isinstance(row.event, _SILENT))
    return Found(row=row_of(approval, visit.now), told=told)
