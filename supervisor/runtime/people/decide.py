"""Decisions: one person's answer to one approval, counted once, and the rule that it makes, in one append (A1, A3).

Rules
- The first decision wins. A later one that is the same (decision, scope, pattern, arguments) is answered `already`. A
  later one that contains a secret value is always answered `conflict`: `already` would confirm a guess of the secret.
- A decision is checked against what was asked and offered before anything is written (A5, A8).
- A call that is not editable is approved as it is, or denied.
- An edit that leaves the mask in place of a secret value keeps that value, which the approver need not know.
- A decision that does not fit (an approval of a question, an answer to a call) raises, and nothing is decided.
- A decision made after the expiry is ignored. If the expiry has not been journaled yet, it is journaled now (A10).
- Any process that has the store open may decide; it need not own the tree.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.encoding import JSON_NULL, printable, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.masking import unmask
from supervisor.core.questions import check_answer
from supervisor.core.rules import Rule
from supervisor.core.session import Operation, SessionState
from supervisor.core.values import (
    Answer,
    Approval,
    ApprovalStatus,
    Approve,
    Decision,
    DecisionResult,
    Deny,
    Scope,
    check_identity,
)
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.plans.rules import add, book, granted
from supervisor.storage import Store

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner


_ONCE: Final = (None, "once", None)
"""The arguments, scope and pattern of a plain approval: it edits nothing, and allows nothing beyond this call."""
_STATUS: Final[Mapping[str, ApprovalStatus]] = {"approve": "approved", "deny": "denied", "answer": "answered"}


class _Answer(msgspec.Struct, frozen=True):
    """A decision in the form in which it is compared and journaled."""

    decision: Literal["approve", "deny", "answer"]
    value: msgspec.Raw = JSON_NULL
    """The answer to a question."""
    reason: str | None = None
    edited: msgspec.Raw | None = None
    scope: Scope = "once"
    rule: Rule | None = None


async def decide(runner: "Runner", approval: str, decision: Decision, channel: str | None = None) -> DecisionResult:
    """Decide an approval; see Supervisor.decide."""
    store, by = runner.journal.store, printable(check_identity(decision.by))
    asking, answer = store.find_asking(approval), _answer(store, approval, decision)
    if asking is None or answer is None:
        return DecisionResult(kind="unknown", approval=approval)
    new = None if answer.rule is None else replace(answer.rule, id=runner.environment.new_rule_id())

    def plan(view: View) -> tuple[list[Entry], tuple[SessionState, e.ApprovalDecided | e.QuestionAnswered] | None]:
        session, operation = asking
        state = view.find_session(session)
        record = None if state is None else state.operations.get(operation)
        if state is None or record is None or record.pending_approval != approval:
            return [], None
        now = runner.clock.now()
        if record.expires_at is not None and record.expires_at <= now:
            return [(session, e.ApprovalExpired(at=now, operation=operation, approval=approval))], None
        rule = None if new is None else book(view).find_same(new) or new
        event = _event(record, answer, rule, at=now, operation=operation, approval=approval, by=by, channel=channel)
        added = () if rule is None else add(view, rule, by, now, approval)
        return [(session, event), *added, *runner.follow(state, event)], (state, event)

    accepted = await runner.journal.append_with_answer(plan)
    if accepted is None:
        return _lost(store, approval, decision)
    state, event = accepted
    return DecisionResult(
        kind="accepted",
        approval=approval,
        status=_STATUS[answer.decision],
        by=by,
        decided_at=event.at,
        rule=getattr(event, "rule", None),
        running=_is_running(store, state.facts.root),
        blocked=state.blocked is not None,
    )


def _lost(store: Store, approval: str, decision: Decision) -> DecisionResult:
    """Return the result of a decision that changed nothing, by the state on disk."""
    now = store.get_approval(approval)
    if now is None:  # its tree was removed
        return DecisionResult(kind="unknown", approval=approval)
    answer, running = _read(now, decision), _is_running(store, now.root_session)
    kind = _kind(now, answer)
    if kind == "already" and now.decision == "approve" and now.secret and not _keeps_secrets(store, now):
        kind = "conflict"
    return DecisionResult(
        kind=kind,
        approval=approval,
        status=now.status,
        by=now.by,
        decided_at=now.decided_at,
        rule=now.rule,
        running=running,
        blocked=(row := store.get_session(now.session)) is not None and row.blocked is not None,
    )


def _is_running(store: Store, root: str) -> bool:
    return store.owns(root) or store.get_owner(root) is not None


def _event(
    record: Operation, answer: _Answer, rule: Rule | None, **about: Any
) -> e.ApprovalDecided | e.QuestionAnswered:
    """Return the event of a decision. Raises InvalidInput for an approval of a question."""
    if answer.decision == "answer":
        return e.QuestionAnswered(**about, value=answer.value)
    if answer.decision == "approve":
        _check_call(about["approval"], record.kind == "call")
    edited: dict[str, Any] = {}
    if answer.edited is not None and isinstance(record.request, e.ToolCallRequested):
        edited = {"arguments": _restore(answer.edited, record.request), "secret": record.request.secret}
    return e.ApprovalDecided(
        **about,
        decision=answer.decision,
        scope=answer.scope,
        pattern=None if rule is None else rule.pattern,
        rule=None if rule is None else rule.id,
        reason=answer.reason,
        **edited,
    )


def _answer(store: Store, approval: str, decision: Decision) -> _Answer | None:
    """Check a decision against what was asked and offered; return None for an unknown approval. Raises InvalidInput.

    A plain decision is checked in the plan, against the call alone. Most decisions are plain, and reading the whole
    approval would take longer than everything else before the commit.
    """
    if isinstance(decision, Deny):
        return _denial(decision)
    if isinstance(decision, Approve) and (decision.arguments, decision.scope, decision.pattern) == _ONCE:
        return _Answer("approve")
    found = store.get_approval(approval)
    return None if found is None else _read(found, decision)


def _denial(decision: Deny) -> _Answer:
    return _Answer("deny", reason=printable(decision.reason) if decision.reason else None)


def _check_call(approval: str, is_call: bool) -> None:
    if not is_call:
        raise InvalidInput(f"{approval} is a question: answer it, or deny it to leave it unanswered")


def _read(found: Approval, decision: Decision) -> _Answer:
    """Check a decision against what was asked and offered. Raises InvalidInput."""
    if isinstance(decision, Answer):
        if found.kind != "question":
            raise InvalidInput(f"{found.id} is about a call of {found.tool}: approve or deny it instead of answering")
        return _Answer("answer", value=check_answer(found, decision.value))
    if isinstance(decision, Deny):
        return _denial(decision)
    _check_call(found.id, found.kind == "call")
    edited = _check_edit(found, decision.arguments)
    return _Answer("approve", edited=edited, scope=decision.scope, rule=granted(found, decision))


def _check_edit(approval: Approval, arguments: Mapping[str, Any] | None) -> msgspec.Raw | None:
    """Encode edited arguments. Raises InvalidInput unless they are all of the call's arguments (A8).

    Only names are checked here. The process that runs the call checks types, since this one may not have the tool.
    """
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        raise InvalidInput("edited arguments are a JSON object with all of the call's arguments; a patch is not enough")
    if not approval.editable:
        raise InvalidInput(
            f"{approval.id} may not be approved with other arguments: {approval.tool} takes them only as it asked with "
            "them; approve or deny it as it is"
        )
    asked, given = set(approval.arguments), set(arguments)
    if asked != given:
        problems = [f"{name} is missing" for name in sorted(asked - given)]
        problems += [f"{name} is not an argument of {approval.tool}" for name in sorted(given - asked)]
        raise InvalidInput(f"edited arguments replace all of the call's arguments: {', '.join(problems)}")
    return to_json(dict(arguments), "an edited argument")


def _restore(edited: msgspec.Raw, request: e.ToolCallRequested) -> msgspec.Raw:
    """Return edited arguments with the secret values in place of the masks that the approver left."""
    if not request.secret:
        return edited
    return to_json(unmask(msgspec.json.decode(edited), request.arguments, request.secret), "an edited argument")


def _keeps_secrets(store: Store, approval: Approval) -> bool:
    """Return whether the decision that won left every secret argument unchanged."""
    events = [row.event for row in store.journal(approval.session)]
    (request,) = (each for each in events if isinstance(each, e.ToolCallRequested) and each.approval == approval.id)
    decided = (each for each in events if isinstance(each, e.ApprovalDecided) and each.approval == approval.id)
    stands = next((each.edited for each in decided if each.edited is not None), request.arguments)
    asked, runs = msgspec.json.decode(request.arguments), msgspec.json.decode(stands)
    return all(asked[name] == runs[name] for name in approval.secret)


def _kind(now: Approval, answer: _Answer) -> Literal["already", "conflict", "closed"]:
    """Return the result kind of a decision that did not win, by the approval on disk."""
    if now.status in ("withdrawn", "expired"):
        return "closed"
    if now.decision != answer.decision:
        return "conflict"
    if answer.decision == "answer":
        given = msgspec.json.decode(answer.value)
        return "already" if msgspec.json.encode(now.answer) == msgspec.json.encode(given) else "conflict"
    # Compared with the masked arguments: an edit that contains a secret value is never the same, so that no caller can
    # learn the secret by guessing.
    is_as_asked = not now.edited if answer.edited is None else now.arguments == msgspec.json.decode(answer.edited)
    pattern = None if answer.rule is None else answer.rule.pattern
    is_same = is_as_asked and (now.scope, now.pattern) == (answer.scope, pattern)
    return "already" if answer.decision == "deny" or is_same else "conflict"
