"""Decisions: one person's answer to one approval, counted once, and the rule that it makes, in one append (A1, A3).

Rules
- The first decision wins; who says the same again (verdict, scope, pattern, arguments) is told that it is so already.
- What is decided is held against what was offered and asked before anything is written (A5, A8).
- An edit in which the mask stands keeps the value that is behind it, which the approver need not know.
- What cannot answer what was asked (an approval of a question, an answer to a call) raises, and nothing is decided.
- Who decides behind the expiry decides nothing: that it came too late is noted, if nobody has noted it yet (A10).
- Any process that has the store open may decide; nobody needs to own the tree.
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
from supervisor.core.values import (
    Answer,
    Approval,
    ApprovalStatus,
    Approve,
    Decision,
    Scope,
    Verdict,
    check_identity,
)
from supervisor.runtime.journal import Entry, View
from supervisor.runtime.ruling import granted
from supervisor.storage import Store

if TYPE_CHECKING:
    from supervisor.runtime.runner import Runner


_STATUS: Final[Mapping[str, ApprovalStatus]] = {"approve": "approved", "deny": "denied", "answer": "answered"}


class _Answer(msgspec.Struct, frozen=True):
    """A decision as it is compared and journaled."""

    decision: Literal["approve", "deny", "answer"]
    value: msgspec.Raw = JSON_NULL
    """The answer to a question."""
    reason: str | None = None
    edited: msgspec.Raw | None = None
    scope: Scope = "once"
    rule: Rule | None = None


async def decide(runner: "Runner", approval: str, decision: Decision, channel: str | None = None) -> Verdict:
    """Decide an approval; see Supervisor.decide."""
    store, by = runner.journal.store, printable(check_identity(decision.by))
    found = store.get_approval(approval)
    if found is None:
        return Verdict(kind="unknown", approval=approval)
    answer = _read(found, decision)
    won: list[e.ApprovalDecided | e.QuestionAnswered] = []

    def plan(view: View) -> list[Entry]:
        won.clear()
        record = view.session(found.session).operations.get(found.operation)
        if record is None or record.pending_approval != approval:
            return []
        now, rule = runner.clock.now(), answer.rule
        about: dict[str, Any] = {"at": now, "operation": found.operation, "approval": approval}
        if record.expires_at is not None and record.expires_at <= now:
            return [(found.session, e.ApprovalExpired(**about))]
        event: e.ApprovalDecided | e.QuestionAnswered
        if answer.decision == "answer":
            event = e.QuestionAnswered(**about, value=answer.value, by=by, channel=channel)
        else:
            edited: dict[str, Any] = {}
            if answer.edited is not None and isinstance(record.request, e.ToolCallRequested):
                edited = {"arguments": _restore(answer.edited, record.request), "secret": record.request.secret}
            event = e.ApprovalDecided(
                **about,
                decision=answer.decision,
                by=by,
                scope=answer.scope,
                pattern=None if rule is None else rule.pattern,
                rule=None if rule is None else (runner.rules.book(view).find_same(rule) or rule).id,
                reason=answer.reason,
                channel=channel,
                **edited,
            )
        won.append(event)
        added = () if rule is None else runner.rules.add(view, rule, by, now, approval)
        return [(found.session, event), *added, *runner.follow(view.session(found.session), event)]

    await runner.journal.append(plan)
    running = store.owns(found.root_session) or store.get_owner(found.root_session) is not None
    if won:
        status, at, rule = _STATUS[answer.decision], won[0].at, getattr(won[0], "rule", None)
        return Verdict(kind="won", approval=approval, status=status, by=by, decided_at=at, rule=rule, running=running)
    now = store.get_approval(approval)
    assert now is not None
    if now.secret and answer.edited is not None:
        now, answer = _unmask(store, now, answer)
    return Verdict(
        kind=_kind(now, answer),
        approval=approval,
        status=now.status,
        by=now.by,
        decided_at=now.decided_at,
        rule=now.rule,
        running=running,
    )


def _read(found: Approval, decision: Decision) -> _Answer:
    """Hold a decision against what was asked and offered. Raises InvalidInput."""
    if isinstance(decision, Answer):
        if found.kind != "question":
            raise InvalidInput(f"{found.id} asks about a call of {found.tool}: approve or deny it, no answer fits")
        return _Answer("answer", value=check_answer(found, decision.value))
    if not isinstance(decision, Approve):
        return _Answer("deny", reason=printable(decision.reason) if decision.reason else None)
    if found.kind == "question":
        raise InvalidInput(f"{found.id} is a question: answer it, or deny to leave it unanswered")
    edited = _check_edit(found, decision.arguments)
    return _Answer("approve", edited=edited, scope=decision.scope, rule=granted(found, decision))


def _check_edit(approval: Approval, arguments: Mapping[str, Any] | None) -> msgspec.Raw | None:
    """Encode edited arguments; raises InvalidInput unless they are the whole object that the tool takes (A8).

    Names are checked here, types again by the process that runs the call: the tool may not be importable in this one.
    """
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        raise InvalidInput("edited arguments are a JSON object: all of the call's arguments, not a patch")
    asked, given = set(approval.arguments), set(arguments)
    if asked != given:
        problems = [f"{name} is missing" for name in sorted(asked - given)]
        problems += [f"{name} is not an argument of {approval.tool}" for name in sorted(given - asked)]
        raise InvalidInput(f"edited arguments replace all of the call's arguments: {', '.join(problems)}")
    return to_json(dict(arguments), "an edited argument")


def _restore(edited: msgspec.Raw, request: e.ToolCallRequested) -> msgspec.Raw:
    """Return edited arguments with the values that the approver left masked."""
    if not request.secret:
        return edited
    return to_json(unmask(msgspec.json.decode(edited), request.arguments, request.secret), "an edited argument")


def _unmask(store: Store, approval: Approval, answer: _Answer) -> tuple[Approval, _Answer]:
    """Return an approval that is decided, and an edit that came too late, with what is secret, to compare them."""
    assert answer.edited is not None
    events = [row.event for row in store.journal(approval.session)]
    (request,) = (each for each in events if isinstance(each, e.ToolCallRequested) and each.approval == approval.id)
    decided = (each for each in events if isinstance(each, e.ApprovalDecided) and each.approval == approval.id)
    stands = next((each.edited for each in decided if each.edited is not None), request.arguments)
    edited = _restore(answer.edited, request)
    return replace(approval, arguments=msgspec.json.decode(stands)), replace(answer, edited=edited)


def _kind(now: Approval, answer: _Answer) -> Literal["same", "conflict", "gone"]:
    """Say what a decision came to that did not win, by what is on disk after it."""
    if now.status in ("withdrawn", "expired"):
        return "gone"
    if now.decision != answer.decision:
        return "conflict"
    if answer.decision == "answer":
        given = msgspec.json.decode(answer.value)
        return "same" if msgspec.json.encode(now.answer) == msgspec.json.encode(given) else "conflict"
    asked = now.arguments if answer.edited is None else msgspec.json.decode(answer.edited)
    pattern = None if answer.rule is None else answer.rule.pattern
    is_same = (now.arguments, now.scope, now.pattern) == (asked, answer.scope, pattern)
    return "same" if answer.decision == "deny" or is_same else "conflict"
