"""The routes for browsers: pages, and the forms on them.

    GET  /                         the inbox            POST /approvals/{id}/decision   decide; answers with the card
    GET  /approvals/{id}           one card             POST /sessions/{id}/messages    send a message or a chat word
    GET  /sessions, /sessions/{id}                      POST /sessions/{id}/cancel
    GET  /agents, /agents/{name}                        POST /agents/{name}             start a session
    GET  /rules                                         POST /rules/{id}/revoke
    GET  /schedules                                     POST /schedules/{name}          pause, resume, run or remove
    GET  /docs                     the HTTP API
    POST /decisions                several calls, shown whole, and then decided
    POST /hushes                   a person is on what waits, or wants to hear of it later
    GET  /history                  what was asked before, and a search
    GET  /count                    pending approvals    GET  /static/{name}             style sheet, script, icon

Rules
- A request without a valid login is sent to the login page. A form that changes something carries the CSRF token of our
  pages.
- The answer to a decision is the card after the decision, with the status of A3: a person who was slower reads who
  decided first. A browser may repeat this request. After any other form the browser is redirected to the page.
- An error is a page, too, and says what to do next.

The module is longer than 400 lines because the pages of approvals and of sessions share their parts.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Final, get_args
from urllib.parse import urlencode

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from supervisor.channels.web import rendering
from supervisor.channels.web.endpoints import cursor_of_now, read_run_number
from supervisor.channels.web.login import ask_to_log_in, read_form
from supervisor.channels.web.pages import (
    history,
    hushing,
    inbox,
    reference,
    schedules,
    starting,
    story,
    timeline,
    together,
    tree,
)
from supervisor.channels.web.pages.forms import Misfilled
from supervisor.channels.web.pages.visits import Visit, html, stream_url
from supervisor.channels.web.problems import DECISION_STATUS, Problem, problem_of
from supervisor.channels.web.state import Site
from supervisor.channels.wording import cards
from supervisor.core.cursors import cursor_at
from supervisor.core.errors import InvalidInput, NotEntitled, NotFound, SessionConflict
from supervisor.core.events import SessionCreated, ToolCallStarted
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.activity import StreamedText
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval, SendResult, SessionStatus, SessionView
from supervisor.seam.supervisor import Supervisor

SESSIONS_A_PAGE: Final = 50
MOST_ASKED: Final = 10
"""The most cards on the page of a session; the inbox has the others."""
MOST_LANES: Final = 40
MOST_ROWS: Final = 5_000
"""The most journal entries that one page reads. Every other client waits meanwhile."""
MOST_FIELDS: Final = 5_000
"""The most fields of a form that an authenticated person sends. Every other client waits while it is parsed."""
FILTERS: Final = {
    "": "all",
    "waiting_approval": "waiting",
    "blocked": "blocked",
    "active": "active",
    "completed": "completed",
    "error": "error",
}
"""Statuses of sessions, and the page's words for them."""
STATUSES: Final[dict[str, SessionStatus]] = {each: each for each in get_args(SessionStatus)}
Show = Callable[[Visit], Awaitable[Response]]
SAID: Final = {
    "delivered": "Delivered: the agent was waiting for it.",
    "begun": "A turn begins with it.",
    "kept": "Kept; the agent gets it afterwards.",
    "decided": "It was a decision, and it is made.",
}
"""The page's text for each result of a message."""


# -- approvals ---------------------------------------------------------------------------------------------------------


async def show_inbox(visit: Visit) -> Response:
    first = await visit.supervisor.find_approvals(limit=inbox.MOST_ROWS)
    page = inbox.inbox(first, await visit.count_pending(), visit.now, visit.refusal)
    are_open = {card.id for card in page.cards}
    visit.show(*(each for each in first if each.id in are_open))
    spent = await _spent_by(visit.supervisor, [section.root for section in page.sections if section.root])
    stream = stream_url("/api/events", first.cursor, brief="true")
    model = {
        "page": page,
        "most": inbox.MOST_ROWS,
        "stream": stream,
        "spent": spent,
        "equal": together.count_equal(first),
    }
    return await visit.long_page("inbox.html", "inbox", model)


async def _spent_by(supervisor: Supervisor, roots: Iterable[str]) -> dict[str, str]:
    """Return what each tree has spent on models, where that is known."""
    found: dict[str, str] = {}
    for root in roots:
        with suppress(NotFound):  # it was pruned just now
            if usage := (await supervisor.get_session(root)).usage:
                found[root] = str(usage)
    return found


async def _card(
    visit: Visit,
    asked: str,
    status: int = 200,
    *,
    told: str = "",
    problem: str = "",
    typed: dict[str, str] | None = None,
) -> Response:
    after = await cursor_of_now(visit.supervisor)
    approval = await visit.supervisor.get_approval(asked)
    if approval.blocked and approval.status == "approved" and await _has_begun(visit.supervisor, approval, after):
        approval = replace(approval, blocked=False)
    refusal = visit.refusal(approval)
    has_facts = "x-has-facts" in visit.request.headers
    view = inbox.card_view(approval, visit.now, refusal=refusal, typed=typed, problem=problem, has_facts=has_facts)
    part = "card" if "x-requested-by" in visit.request.headers else ""
    part = "row" if "folded" in visit.request.query_params else part
    if part != "row":
        visit.show(approval)
    model = {
        "view": view,
        "told": told,
        "problem": problem,
        "typed": typed,
        "stream": stream_url("/api/events", after, brief="true"),
        "part": part,
    }
    return await visit.page("approval.html", "inbox", model, status=status)


async def _has_begun(supervisor: Supervisor, approval: Approval, cursor: str) -> bool:
    """Return whether the call that an approval let run has begun."""
    after: str | None = cursor_at(cursor, approval.position)
    while after is not None:
        page = await supervisor.find_entries(approval.session, after=after)
        if any(isinstance(each.event, ToolCallStarted) and each.event.operation == approval.operation for each in page):
            return True
        after = page.next
    return False


async def decide(visit: Visit) -> Response:
    approval = await visit.supervisor.get_approval(visit.path("id"))
    if "press" in visit.form:  # a button inside the form; nothing is decided
        return await _card(visit, approval.id, typed=visit.form)
    try:
        result = await visit.supervisor.decide(
            approval.id, inbox.decision_of(approval, visit.form, visit.person.name), channel="web"
        )
    except Misfilled:  # the form says what is wrong, and where
        return await _card(visit, approval.id, 422, typed=visit.form)
    except (InvalidInput, NotEntitled) as error:
        what = "Not counted" if isinstance(error, NotEntitled) else "Nothing was decided"
        return await _card(visit, approval.id, problem_of(error).status, problem=f"{what}: {error}", typed=visit.form)
    told = "" if result.kind == "accepted" and not result.released else cards.told(result, visit.now)
    if not result.running and result.is_accepted:
        told = "Kept; it counts as soon as the session runs again. A daemon runs it by itself."
    typed = {**visit.form, "seen": result.seen} if result.kind == "unseen" else None
    return await _card(visit, approval.id, DECISION_STATUS[result.kind], told=told, typed=typed)


async def count(visit: Visit) -> Response:
    return html(f'<span id="count">{await visit.count_pending()}</span>')


# -- sessions ----------------------------------------------------------------------------------------------------------


async def list_sessions(visit: Visit) -> Response:
    status = visit.request.query_params.get("status", "")
    status = status if status in FILTERS else ""
    before = visit.request.query_params.get("before") or None
    try:
        roots, older = await newest(visit.supervisor, STATUSES.get(status), before)
    except InvalidInput:  # a link to a page of an older store
        before = None
        roots, older = await newest(visit.supervisor, STATUSES.get(status), before)
    model = {
        "found": tree.nodes(roots, visit.now),
        "counts": await visit.supervisor.get_counts(),
        "status": status,
        "words": FILTERS,
        "older": older,
        "is_first": before is None,
    }
    return await visit.page("sessions.html", "sessions", model)


async def newest(
    supervisor: Supervisor, status: SessionStatus | None, before: str | None
) -> tuple[list[SessionView], str | None]:
    """Return root sessions of a status, newest first, and the cursor of older ones; None if there are none."""
    found, page = list[SessionView](), None
    while page is None or (page.next is not None and len(found) < SESSIONS_A_PAGE):
        before = page.next if page is not None else before
        page = await supervisor.find_sessions(status=status, newest_first=True, after=before, limit=SESSIONS_A_PAGE)
        found += [view for view in page if view.parent is None]
    return found, page.next


async def _session(visit: Visit, session: str, status: int = 200, *, told: str = "", typed: str = "") -> Response:
    async with visit.supervisor.watch_text(session) as watch:  # before the journals: a message since then is in them
        written = await anext(watch, StreamedText())
    found = await visit.supervisor.get_tree(session, entries=MOST_ROWS)
    view = next(each for each in found.sessions if each.id == session)
    (root,) = tree.nodes(found.sessions, visit.now)
    node = tree.find([root], view.id) or tree.nodes([view], visit.now)[0]  # the tree leaves it out
    rows = _journals(node, found.entries)
    lanes = [timeline.lane(session, entries, visit.now) for session, entries in rows.items()]
    most = len(rows[view.id]) if "all" in visit.request.query_params else story.MOST_ENTRIES
    asked = view.pending_approvals[:MOST_ASKED]
    visit.show(*asked)
    told = told or SAID.get(visit.request.query_params.get("said", ""), "")
    model = {
        "view": view,
        "path": cards.path_text(view.path),
        "node": node,
        "tree": [root],
        "cards": [inbox.card_view(each, visit.now, refusal=visit.refusal(each)) for each in asked],
        "cards_left_out": len(view.pending_approvals) - len(asked),
        "timeline": timeline.draw(lanes),
        "kinds": timeline.WORDS,
        "shown_kinds": {kind for lane in lanes for kind, _ in lane.totals},
        "lanes_left_out": node.size - len(lanes),
        "story": story.story(rows[view.id], {each.id: each.path for each in found.sessions}, most),
        "may_cancel": visit.person.is_operator,
        "hears": view.outcome is None or _begins_turns(rows[view.id]),
        "told": told,
        "typed": typed,
        "written": written,
        "poll": 5 + sum(map(len, rows.values())) // 500 if view.outcome is None and node.below else 0,
        "stream": stream_url(f"/api/sessions/{view.id}/events", found.cursor, shows="all"),
    }
    return await visit.page("session.html", "sessions", model, status=status)


def _begins_turns(rows: list[JournalEntry]) -> bool:
    """Whether a message to a session that has ended begins another turn (runtime/plans/turns.py)."""
    created = next((row.event for row in rows if isinstance(row.event, SessionCreated)), None)
    return created is not None and created.takes_text and created.parent is None and bool(created.agent)


def _journals(node: tree.Node, entries: Iterable[JournalEntry]) -> dict[str, list[JournalEntry]]:
    """Return the journals of a session and of those below it, for as many sessions as the page has lanes."""
    found: dict[str, list[JournalEntry]] = {}
    for entry in entries:
        found.setdefault(entry.session, []).append(entry)
    known = (each.id for each in tree.walk([node]) if each.id in found)
    return {session: found[session] for session in islice(known, MOST_LANES)}


async def say(visit: Visit) -> Response:
    session, text = visit.path("id"), visit.form.get("text", "")
    if not text.strip():
        return await _session(visit, session, 422, told="Not sent: there is no text.")
    message, by = visit.form.get("message") or None, visit.person.name
    try:
        heard = await visit.supervisor.chat(session, text, by=by, shown_before=visit.seen_at, message=message)
    except (NotEntitled, InvalidInput, SessionConflict) as error:
        told = visible(f"Not sent: {error}", kind="words")
        return await _session(visit, session, problem_of(error).status, told=told, typed=text)
    if heard.kind == "listed" or "x-requested-by" in visit.request.headers:
        told = "\n".join(cards.heard_lines(heard, visit.now)) or _received(heard.sent)
        return await _session(visit, session, told=told)
    said = heard.kind if heard.sent is None else heard.sent.kind  # redirected, so that a reload does not send it again
    return RedirectResponse(f"{rendering.url('sessions', session)}?{urlencode({'said': said})}#reply", 303)


def _received(sent: SendResult | None) -> str:
    """Return the page's text for the result of a message (R7)."""
    assert sent is not None, "a text that is no chat word is sent"
    waits = f" First {len(sent.waiting_for)} open decision(s) must be made." if sent.waiting_for else ""
    kept = "" if sent.running else " It is kept until the session runs again. A daemon runs it by itself."
    return SAID[sent.kind] + waits + kept


async def cancel(visit: Visit) -> Response:
    """Cancel the run that the page showed: a later one is something that the person has not seen."""
    session, reason = visit.path("id"), visit.form.get("reason", "").strip() or None
    run = read_run_number(visit.form.get("run", ""))
    try:
        await visit.supervisor.cancel(session, reason=reason, by=visit.person.name, run=run)
    except NotEntitled as error:
        return await _session(visit, session, 403, told=visible(f"Not cancelled: {error}", kind="words"))
    if (latest := (await visit.supervisor.get_session(session)).run) != run:
        told = f"Run {latest} was not on your page yet: look at it here, and cancel it if you want that."
        return await _session(visit, session, 409, told=told)
    return RedirectResponse(rendering.url("sessions", session), 303)


# -- rules -------------------------------------------------------------------------------------------------------------


async def list_rules(visit: Visit, status: int = 200, *, told: str = "") -> Response:
    model = {
        "rules": await visit.supervisor.find_rules(),
        "told": told,
        "may_revoke": visit.person.is_operator,
    }
    return await visit.page("rules.html", "rules", model, status=status)


async def revoke(visit: Visit) -> Response:
    try:
        await visit.supervisor.revoke_rule(visit.path("id"), by=visit.person.name)
    except NotEntitled as error:
        return await list_rules(visit, 403, told=f"Not revoked: {error}")
    return RedirectResponse(rendering.url("rules"), 303)


# -- everything --------------------------------------------------------------------------------------------------------

PAGES: Final[tuple[tuple[str, str, Show], ...]] = (
    ("GET", "/", show_inbox),
    ("GET", "/count", count),
    ("POST", "/decisions", together.decide_together),
    ("POST", "/hushes", hushing.hush),
    ("GET", "/approvals/{id}", lambda visit: _card(visit, visit.path("id"))),
    ("POST", "/approvals/{id}/decision", decide),
    ("GET", "/sessions", list_sessions),
    ("GET", "/sessions/{id}", lambda visit: _session(visit, visit.path("id"))),
    ("POST", "/sessions/{id}/messages", say),
    ("POST", "/sessions/{id}/cancel", cancel),
    ("GET", "/agents", starting.list_agents),
    ("GET", "/agents/{name}", starting.show_agent),
    ("POST", "/agents/{name}", starting.start),
    ("GET", "/history", history.show_history),
    ("GET", "/rules", list_rules),
    ("POST", "/rules/{id}/revoke", revoke),
    ("GET", "/schedules", schedules.list_schedules),
    ("POST", "/schedules/{name}", schedules.change_schedule),
    ("GET", "/docs", reference.show_reference),
)


def routes(site: Site) -> list[BaseRoute]:
    pages = [Route(path, _visit(site, show), methods=[method]) for method, path, show in PAGES]
    return [*pages, *(Route(f"/static/{name}", _static, methods=["GET"], name=name) for name in rendering.ASSETS)]


def _visit(site: Site, show: Show) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            identity = site.guard.identify(request)
            if identity is None:
                return ask_to_log_in(request)
            form = await read_form(request, fields=MOST_FIELDS) if request.method == "POST" else {}
            try:
                site.guard.check_csrf(request, identity, form.get("csrf", ""))
            except Problem as problem:
                if show is decide:  # refusals are in the audit trail (A15)
                    approval, by = request.path_params["id"], identity.person.name
                    await site.supervisor.note_refusal(approval, by=by, reason=problem.detail, channel="web")
                raise
            site.guard.check_again(identity)
            return await show(Visit(site, request, identity, form))
        except Exception as error:  # noqa: BLE001 # the page tells the error; problems.py logs an unexpected one
            return _problem(error)

    return answer


def _problem(error: Exception) -> Response:
    problem = problem_of(error)
    body = rendering.render(
        "message.html", datetime.now(UTC), viewer=None, title=problem.document["title"], text=problem.detail
    )
    response = html(body, problem.status)
    response.headers.update(problem.headers)
    return response


async def _static(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    body, version = rendering.asset(name)
    media_type = rendering.MEDIA_TYPES[name.rpartition(".")[2]]
    kept = "public, max-age=31536000, immutable" if request.query_params.get("v") == version else "no-cache"
    return Response(body, media_type=media_type, headers={"cache-control": kept})
