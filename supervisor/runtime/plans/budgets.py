"""Plans of budgets: the question about one, what a decision does to it, and how an operator raises one (B2, B3).

Rules
- Decision, raise and result are one append, of whichever process decides. So no crash separates them.
- A denial, and an expiry, ends the run whose budget it is, with all below it. So does `on_exhausted="end"`.
- A budget that is raised while its question is open ends the question, if it is enough.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from supervisor.core import events as e
from supervisor.core.budgets import (
    KINDS,
    TOOL,
    Budget,
    Scope,
    Used,
    aside_of,
    budget_text,
    proposed,
    raised,
    scope_of,
    used_text,
)
from supervisor.core.calls.content import content_of
from supervisor.core.encoding import JSON_NULL, printable_text, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.sessions.state import Operation, SessionState
from supervisor.core.usage import LARGEST, LARGEST_USD, Spent
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.end import cancel_events
from supervisor.runtime.plans.results import finished_call

BY_ITSELF: Final = "its budget"
"""Who has cancelled a run whose budget asks no person."""


def limits_now(state: SessionState, base: Budget, scope: Scope) -> Budget:
    """Return a budget as it is raised."""
    return raised(base, state.budgeting.raised.get(scope, {}))


def whose(state: SessionState, scope: Scope) -> str:
    """Say whose budget it is."""
    name = state.facts.path[-1]
    return f"the budget of the tree of {name}" if scope == "tree" else f"the budget of {name}"


def question(
    state: SessionState,
    scope: Scope,
    base: Budget,
    used: Used,
    wanted: Used,
    spent: Spent,
    spent_by: Iterable[str],
    *,
    approval: str,
    at: datetime,
    expires_at: datetime | None,
) -> e.ToolCallRequested:
    """Return the question whether a budget is raised. `wanted`: what the first that waits reserves; the proposed limits
    let it go on. `spent_by`: lines that say who has spent what."""
    now = limits_now(state, base, scope)
    limits = proposed(now, base, used + wanted)
    raw = to_json(limits, "limits")
    number = sum(scope_of(name) == scope for name in state.budgeting.asides) + 1
    least = {"usd": ("number", LARGEST_USD)}
    properties: dict[str, Any] = {}
    for kind, limit in now.limits.items():
        type_, largest = least.get(kind, ("integer", LARGEST))
        properties[kind] = {"type": type_, "exclusiveMinimum": limit, "maximum": largest}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    content = content_of(TOOL, raw, msgspec.json.decode(raw), folder=state.facts.cwd)
    note = "\n".join(["it counts the session and everything below it; spent so far:", *spent_by])
    return e.ToolCallRequested(
        at=at,
        operation=aside_of(scope, number),
        approval=approval,
        tool=TOOL,
        arguments=raw,
        digest=content.digest,
        schema=to_json(schema, "a schema"),
        parameters=to_json(schema, "a schema"),
        why=printable_text(
            f"{whose(state, scope)} is used up ({used_text(now, used, spent)}); approve new limits, or end it"
        ),
        note=printable_text(note),
        expires_at=expires_at,
    )


def follow_decision(view: View, state: SessionState, event: Any, now: datetime) -> Iterator[Entry]:
    """Yield what is journaled together with the decision of a question about a budget, or with its expiry."""
    record, scope = state.budgeting.asides[event.operation], scope_of(event.operation)
    if isinstance(event, e.ApprovalDecided) and event.decision == "approve":
        limits = _limits(record, event)
        yield state.id, e.BudgetRaised(at=now, by=event.by, scope=scope, approval=event.approval, **limits)
        text = f"{whose(state, scope)} is {budget_text(limits)} from now on"
        yield state.id, finished_call(event.operation, now, "ok", text, {}, to_json(limits, "limits"))
        return
    assert isinstance(record.request, e.ToolCallRequested)
    used = record.request.why.partition(" (")[2].partition(")")[0]
    by = event.by if isinstance(event, e.ApprovalDecided) else BY_ITSELF
    why = f"{whose(state, scope)} is used up ({used})"
    said = getattr(event, "reason", None)
    if not isinstance(event, e.ApprovalDecided):
        why += ", and no person has decided in time"
    elif said:
        why += f": {said}"
    text = f"{why}; denied by {by}" if isinstance(event, e.ApprovalDecided) else why
    yield state.id, finished_call(event.operation, now, "denied", text, {"reason": "budget", "effect": "none"})
    yield from end_run(view, state, by, why, now, but=event.approval)


def end_run(
    view: View, state: SessionState, by: str, why: str, now: datetime, *, but: str | None = None
) -> Iterator[Entry]:
    """Yield what tells a run and everything below it to end. `but`: the approval that is being decided."""
    for session, event in cancel_events(view, state.id, by, why, now):
        if not (isinstance(event, e.ApprovalWithdrawn) and event.approval == but):
            yield session, event


def _limits(record: Operation, event: e.ApprovalDecided) -> dict[str, Any]:
    assert isinstance(record.request, e.ToolCallRequested)
    given = event.edited if event.edited is not None else record.request.arguments
    return {kind: value for kind, value in msgspec.json.decode(given).items() if kind in KINDS}


def raise_events(state: SessionState, given: Budget, by: str, now: datetime) -> Iterator[Entry]:
    """Yield what raises the budgets of a session by an operator. A question about a limit that is raised ends; if that
    is not enough, the runner asks again."""
    limits: dict[str, Any] = given.limits
    if not limits:
        raise InvalidInput("name a limit to raise, such as usd=10")
    if state.phase in ("stopping", "imported"):
        why = "is about to end" if state.phase == "stopping" else "is being imported"
        raise InvalidInput(f"session {state.id} {why}, and nothing in it waits for a budget")
    known = [state.budgeting.raised.get(scope, {}) for scope in ("tree", "run")]
    if all(found.get(kind, 0) >= limit for found in known for kind, limit in limits.items()):
        return  # it was raised so far before
    yield state.id, e.BudgetRaised(at=now, by=printable_text(by), **limits)
    for name, record in state.budgeting.asides.items():
        if record.pending_approval is not None and state.phase == "open" and _raises(record, limits):
            yield from withdraw(state, name, f"{by} raised the budget", now)


def _raises(record: Operation, limits: Mapping[str, float]) -> bool:
    assert isinstance(record.request, e.ToolCallRequested)
    asked = msgspec.json.decode(record.request.schema)["properties"]
    return any(limit > asked[kind]["exclusiveMinimum"] for kind, limit in limits.items() if kind in asked)


def withdraw(state: SessionState, name: str, reason: str, now: datetime) -> Iterator[Entry]:
    """Yield what ends a question that needs no decision any more."""
    approval = state.budgeting.asides[name].pending_approval
    assert approval is not None
    reason = printable_text(reason)
    yield state.id, e.ApprovalWithdrawn(at=now, operation=name, approval=approval, reason=reason)
    details = {"reason": "withdrawn", "effect": "none"}
    yield state.id, finished_call(name, now, "interrupted", reason, details, JSON_NULL)
