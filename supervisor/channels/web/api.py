"""The HTTP API: sessions, approvals, decisions. Handlers only translate; the Supervisor does the work.

Rules
- The credential of a request names the person who decides, never a name in its body.
- The status of a decision (A3): 200 it counts, or repeats the decision that counts; 404 unknown; 409 another decision
  counts, with its person and time; 410 expired or withdrawn; 202 recorded, with a result that is not known yet.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.responses import Response

from supervisor.channels.web.endpoints import Call, Endpoints, cursor_of_now, json_document, page_document
from supervisor.channels.web.problems import DECISION_STATUS, Problem
from supervisor.channels.web.schemas import (
    AcknowledgeBody,
    ApprovalDocument,
    ApprovalQuery,
    ApproveBody,
    Batch,
    BatchBody,
    BudgetBody,
    CancelBody,
    ChatResultDocument,
    DecisionBody,
    DecisionResultDocument,
    EventDocument,
    Hushed,
    JournalQuery,
    MessageBody,
    MessageDocument,
    RevealBody,
    Revealed,
    SaidDecision,
    SessionDocument,
    SessionQuery,
    SnoozeBody,
    StartBody,
    Started,
    TreeDocument,
    TreeQuery,
    page_of,
)
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.documents import (
    approval_document,
    chat_document,
    decision_document,
    event_document,
    session_document,
    tree_document,
)
from supervisor.core.errors import NotFound, TreeOwned
from supervisor.core.values import Answer, Approve, Decision, DecisionResult, Deny
from supervisor.seam import commands
from supervisor.seam.runs import Page

_GOES_WITH: Final = {
    "approve": {"scope", "pattern", "uses", "until", "minutes", "arguments", "seen"},
    "deny": {"reason", "scope", "pattern"},
    "answer": {"value"},
}
"""The further fields of a decision; null means that a field is absent."""
ENDPOINTS: Final = Endpoints()


@ENDPOINTS.add("GET /api/sessions", {200: page_of(SessionDocument, "SessionPage")}, query=SessionQuery)
async def list_sessions(call: Call) -> Response:
    """List sessions, parents before children."""
    query: SessionQuery = call.query
    page = await call.supervisor.find_sessions(
        is_open=query.open,
        status=query.status,
        agent=query.agent,
        root=query.root,
        newest_first=query.newest,
        after=query.after,
        limit=query.limit,
    )
    for view in page:
        call.show(*view.pending_approvals)
    return page_document(page, session_document)


@ENDPOINTS.add("POST /api/sessions", {201: Started, 200: Started}, command=commands.Start, body=StartBody)
async def start_session(call: Call) -> Response:
    """Start an agent; idempotent by `session`."""
    body: StartBody = call.body
    given = () if body.input is msgspec.UNSET else (body.input,)
    budget = None if body.budget is None else body.budget.made()
    try:
        run = await call.supervisor.start(body.agent, *given, session=body.session, by=call.person.name, budget=budget)
    except TreeOwned:  # this session exists, and another process runs it
        return json_document(Started(str(body.session), 1))
    return json_document(Started(run.session, run.number), 201 if run.is_new else 200)


@ENDPOINTS.add("GET /api/sessions/{id}", {200: SessionDocument})
async def get_session(call: Call) -> Response:
    """A session as it is now, with the pending approvals in it and below it."""
    view = await call.supervisor.get_session(call.path("id"))
    call.show(*view.pending_approvals)
    return json_document(session_document(view))


@ENDPOINTS.add("GET /api/sessions/{id}/journal", {200: page_of(EventDocument, "JournalPage")}, query=JournalQuery)
async def get_journal(call: Call) -> Response:
    """The journal of a session."""
    query: JournalQuery = call.query
    page = await call.supervisor.find_entries(call.path("id"), tree=query.tree, after=query.after, limit=query.limit)
    return page_document(page, event_document)


@ENDPOINTS.add("GET /api/sessions/{id}/tree", {200: TreeDocument}, query=TreeQuery)
async def get_tree(call: Call) -> Response:
    """The tree of a session, and the journals of the session and those below it, at one instant."""
    query: TreeQuery = call.query
    tree = await call.supervisor.get_tree(call.path("id"), entries=query.entries)
    for view in tree.sessions:
        call.show(*view.pending_approvals)
    return json_document(tree_document(tree))


@ENDPOINTS.add("GET /api/sessions/{id}/transcript", {200: page_of(MessageDocument, "TranscriptPage")})
async def get_transcript(call: Call) -> Response:
    """The transcript of a session, with each approval in its place."""
    cursor = await cursor_of_now(call.supervisor)
    messages = await call.supervisor.get_transcript(call.path("id"))
    return page_document(Page(messages, None, cursor), lambda message: message)


@ENDPOINTS.add("POST /api/sessions/{id}/messages", {200: ChatResultDocument}, command=commands.Chat, body=MessageBody)
async def send_message(call: Call) -> Response:
    """Send a message to a session; a chat word decides instead, and the answer says which it was."""
    body: MessageBody = call.body
    session, now = call.path("id"), datetime.now(UTC)
    if not body.decides:
        sent = await call.supervisor.send(session, body.text, by=call.person.name, message=body.message)
        call.show(*sent.waiting_for)
        return json_document(chat_document(ChatResult(kind="sent", sent=sent)))
    seen_at, name = min(body.shown_before or now, now), call.person.name
    given = call.site.shown.to(name)
    shown: Collection[str] | None = given if body.shown_before is None else None
    if body.shown is not None:
        shown = [approval for approval in body.shown if approval in given]
    heard = await call.supervisor.chat(
        session,
        body.text,
        by=name,
        shown_before=seen_at,
        channel=body.channel,
        shown=shown,
        message=body.message,
    )
    call.show(*heard.approvals, *heard.not_shown)
    return json_document(chat_document(heard))


@ENDPOINTS.add(
    "POST /api/sessions/{id}/approve",
    {200: DecisionResultDocument, 202: DecisionResultDocument},
    command=commands.Decide,
    decides="session",
    body=ApproveBody,
    may_omit_body=True,
)
async def approve_in_session(call: Call) -> Response:
    """Approve the pending approval of a session; name it if there are several.

    The body names it also if the person was not shown it before (A12).
    """
    body: ApproveBody = call.body
    pending = [approval.id for approval in (await call.supervisor.get_session(call.path("id"))).pending_approvals]
    if body.approval is None and len(pending) > 1:
        detail = f"{len(pending)} approvals are pending here: say which, with `approval`"
        raise Problem(422, detail, members={"pending": pending})
    if body.approval is None and not pending:
        raise Problem(409, "nothing is pending in this session")
    chosen = body.approval or pending[0]
    if body.approval is None and chosen not in call.site.shown.to(call.person.name):
        detail = "it was not shown to you before: look at it, and say it again, or say which you mean, with `approval`"
        raise Problem(422, detail, members={"pending": pending})
    if chosen not in pending and not await _is_asked_by(call, chosen, call.path("id")):
        raise Problem(404, f"{chosen} is no approval of this session")
    return await _decide(call, chosen, approval_by(call, body))


@ENDPOINTS.add(
    "POST /api/sessions/{id}/cancel",
    {202: SessionDocument},
    command=commands.Cancel,
    body=CancelBody,
    may_omit_body=True,
)
async def cancel_session(call: Call) -> Response:
    """Cancel a session and everything below it; the cancellation is on disk before the answer."""
    body: CancelBody = call.body
    await call.supervisor.cancel(call.path("id"), reason=body.reason, by=call.person.name, run=body.run)
    return json_document(session_document(await call.supervisor.get_session(call.path("id"))), 202)


@ENDPOINTS.add("POST /api/sessions/{id}/budget", {200: SessionDocument}, command=commands.RaiseBudget, body=BudgetBody)
async def raise_budget(call: Call) -> Response:
    """Raise what a session and everything below it may spend; a lower limit changes nothing."""
    body: BudgetBody = call.body
    await call.supervisor.raise_budget(call.path("id"), body.made(), by=call.person.name)
    return json_document(session_document(await call.supervisor.get_session(call.path("id"))))


@ENDPOINTS.add("GET /api/approvals", {200: page_of(ApprovalDocument, "ApprovalPage")}, query=ApprovalQuery)
async def list_approvals(call: Call) -> Response:
    """List approvals, oldest first."""
    query: ApprovalQuery = call.query
    decided: Any = {"all": None, "ended": True}.get(query.status or "all", query.status)
    pending = None if query.status is None else False
    names = ("session", "text", "by", "tool", "agent", "before", "after", "limit")
    search: dict[str, Any] = {name: getattr(query, name) for name in names}
    page = await call.supervisor.find_approvals(pending=pending, decided=decided, newest_first=query.newest, **search)
    call.show(*page)
    return page_document(page, approval_document)


@ENDPOINTS.add("GET /api/approvals/{id}", {200: ApprovalDocument})
async def get_approval(call: Call) -> Response:
    """One approval, in any state."""
    found = await call.supervisor.get_approval(call.path("id"))
    call.show(found)
    return json_document(approval_document(found))


@ENDPOINTS.add(
    "POST /api/approvals/{id}/decision",
    {200: DecisionResultDocument, 202: DecisionResultDocument},
    command=commands.Decide,
    decides="approval",
    body=DecisionBody,
)
async def decide(call: Call) -> Response:
    """Decide an approval; the first decision wins."""
    body: DecisionBody = call.body
    return await _decide(call, call.path("id"), _decision(call, body), body.channel)


@ENDPOINTS.add("POST /api/acknowledgements", {200: Hushed}, command=commands.Acknowledge, body=AcknowledgeBody)
async def acknowledge(call: Call) -> Response:
    """Say that you are on approvals: no step of the escalation comes for half an hour."""
    body: AcknowledgeBody = call.body
    done = await call.supervisor.acknowledge(body.approvals, by=call.person.name, channel=body.channel)
    return json_document(Hushed(done))


@ENDPOINTS.add("POST /api/snoozes", {200: Hushed}, command=commands.Snooze, body=SnoozeBody)
async def snooze(call: Call) -> Response:
    """Hear nothing of approvals until an instant."""
    body: SnoozeBody = call.body
    done = await call.supervisor.snooze(body.approvals, body.until, by=call.person.name, channel=body.channel)
    return json_document(Hushed(done))


@ENDPOINTS.add("POST /api/decisions", {200: Batch}, command=commands.DecideAll, body=BatchBody)
async def decide_all(call: Call) -> Response:
    """Decide several calls, each by itself; questions are answered one by one."""
    body: BatchBody = call.body
    decisions = [(each.approval, _decision(call, each)) for each in body.decisions]
    shown = {each.approval: each.digest for each in body.decisions if each.digest is not None}
    found = await call.supervisor.decide_all(decisions, channel=body.channel, shown=shown, batch=body.batch)
    return json_document({"results": [decision_document(each) for each in found]})


@ENDPOINTS.add(
    "POST /api/approvals/{id}/reveal", {200: Revealed}, command=commands.Reveal, body=RevealBody, may_omit_body=True
)
async def reveal(call: Call) -> Response:
    """See the credentials in the arguments of a call; the audit trail says who has."""
    body: RevealBody = call.body
    found = await call.supervisor.reveal(call.path("id"), by=call.person.name, channel=body.channel)
    return json_document({"arguments": found}, 200)


def _decision(call: Call, body: SaidDecision) -> Decision:
    by = call.person.name
    beside = set[str]().union(*_GOES_WITH.values())
    given = {name for name in beside if getattr(body, name) not in (None, "once", msgspec.UNSET)}
    if strange := given - _GOES_WITH[body.decision]:
        raise Problem(422, f"{', '.join(sorted(strange))} does not go with {body.decision}")
    match body.decision:
        case "approve":
            return approval_by(call, body)
        case "deny":
            return Deny(by=by, reason=body.reason, scope=body.scope, pattern=body.pattern)
        case _:
            if body.value is msgspec.UNSET:
                raise Problem(422, "an answer has a value")
            return Answer(value=body.value, by=by)


def approval_by(call: Call, body: SaidDecision | ApproveBody) -> Approve:
    return Approve(by=call.person.name, **{name: getattr(body, name) for name in _GOES_WITH["approve"]})


async def _decide(call: Call, approval: str, decision: Decision, channel: str = "web") -> Response:
    result = await call.supervisor.decide(approval, decision, channel=channel)
    status = DECISION_STATUS[result.kind]
    if status < 400:
        return json_document(decision_document(result), status)
    raise Problem(status, _why(result), members={"result": decision_document(result)})


def _why(result: DecisionResult) -> str:
    if result.kind == "unknown":
        return f"there is no approval {result.approval}"
    when = f" at {result.decided_at:%Y-%m-%d %H:%M:%S} UTC" if result.decided_at else ""
    by = f" by {result.by}" if result.by else ""
    return f"it was {result.status}{by}{when}; that stands"


async def _is_asked_by(call: Call, approval: str, session: str) -> bool:
    try:
        return (await call.supervisor.get_approval(approval)).session == session
    except NotFound:
        return False
