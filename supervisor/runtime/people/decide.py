"""Decisions: one person's answer to one approval, counted once, and the rule that it makes, in one append (A1, A3).

Rules
- The first decision wins. A later one that is the same (decision, scope, pattern, arguments) is answered `already`. A
  later one that contains a secret value is always answered `conflict`: `already` would confirm a guess of the secret.
- What a decision means, and which entries it makes, is planned in runtime/plans/decisions.py.
- Any process that has the store open may decide; it need not own the tree.
"""

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.state import PENDING, ends_approval
from supervisor.core.encoding import printable_text
from supervisor.core.values import Approval, Decision, DecisionResult, decider_of
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.plans.decisions import (
    Checked,
    Decided,
    check,
    check_plain,
    check_types,
    decision_entries,
    kind_of,
    rule_of,
)
from supervisor.runtime.plans.release import Made, MayDecide, Released, covered, released
from supervisor.runtime.reading.journals import find_first
from supervisor.runtime.reading.pieces import PIECE, Pieces, read_pieces
from supervisor.seam.store import Store

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner


async def decide(
    runner: "Runner",
    approval: str,
    decision: Decision,
    channel: str | None = None,
    may: MayDecide = lambda by, found: True,
) -> DecisionResult:
    """Decide an approval; see Supervisor.decide. `may`: whether a person may decide another approval, which the rule
    that this decision makes would decide, too."""
    store, by = runner.journal.store, printable_text(decider_of(decision))
    asking, checked = store.find_asking(approval), _check(runner, approval, decision)
    if asking is None or checked is None:
        return DecisionResult(kind="unknown", approval=approval)
    claims = runner.environment.claims_decisions
    released_here: list[str] = []
    if checked.rule is not None:
        checked = replace(checked, rule=replace(checked.rule, id=runner.environment.new_rule_id()))

    def plan(view: View) -> tuple[list[Entry], Decided | None]:
        released_here.clear()
        now = runner.clock.now()
        entries, decided = decision_entries(
            view,
            asking,
            approval,
            checked,
            by=by,
            channel=channel,
            now=now,
            is_in_time=lambda expires_at: claims or runner.clock.is_ahead(expires_at),
            shares_rules=runner.environment.shares_rules,
            is_former=runner.environment.is_former,
        )
        if decided is None:
            return entries, None
        entries += runner.follow(*decided)
        if checked.rule is not None and not runner.environment.is_former:
            for state, event in _released(runner, view, checked, decided, by, now, may):
                entries += [(state.id, event), *runner.follow(state, event)]
                released_here.append(event.approval)
        return entries, decided

    decided = await runner.journal.append_with_answer(plan)
    if decided is None:
        return await lost(store, approval, decision)
    state, event = decided
    return DecisionResult(
        kind="accepted",
        approval=approval,
        status=PENDING.apply(event).status,
        by=by,
        decided_at=event.at,
        rule=getattr(event, "rule", None),
        released=tuple(released_here),
        running=_is_running(store, state.facts.root),
        blocked=state.blocked is not None,
    )


def _released(
    runner: "Runner", view: View, checked: Checked, decided: Decided, by: str, now: datetime, may: MayDecide
) -> list[Released]:
    """Return what the rule of a decision decides of the other calls that wait in the tree of that decision."""
    rule, (state, event) = rule_of(view, checked), decided
    assert rule is not None
    made = Made(rule, by, event.approval, now, view.position + len(view.rows))
    found, after = list[Approval](), 0
    while some := view.store.find_approvals(root=state.facts.root, after=after, limit=PIECE):
        found += covered(made, some)
        after = some[-1].position
    said = released(
        view,
        runner.rules,
        made,
        found,
        now=now,
        has_passed=runner.clock.has_passed,
        may=may,
        settle=runner.environment.settle,
        ours=runner.environment.files_of_ours,
    )
    return list(said)


def _check(runner: "Runner", approval: str, decision: Decision) -> Checked | None:
    """Check a decision; return None for an unknown approval. Raises InvalidInput."""
    if (plain := check_plain(decision)) is not None:
        return plain
    found = runner.journal.store.get_approval(approval)
    if found is None:
        return None
    checked = check(found, decision)
    if checked.edited is not None and found.status == "pending" and not runner.environment.is_former:
        if (check_edit := runner.asking.get(approval)) is not None:
            check_edit(checked.edited)
        else:
            check_types(found, checked)
    return checked


def check_decision(found: Approval, decision: Decision) -> None:
    """Raise InvalidInput for a decision that does not fit what was asked and offered."""
    decider_of(decision)
    check_types(found, check(found, decision))


async def lost(store: Store, approval: str, decision: Decision) -> DecisionResult:
    """Return the result of a decision that changed nothing, by the state on disk."""
    return await read_pieces(store, _lost(store, approval, decision))


def _lost(store: Store, approval: str, decision: Decision) -> Pieces[DecisionResult]:
    now = store.get_approval(approval)
    if now is None:  # its tree was removed
        return DecisionResult(kind="unknown", approval=approval)
    checked, running = check(now, decision), _is_running(store, now.root_session)
    kind = kind_of(now, checked)
    if kind == "already" and now.decision == "approve" and now.secret and not (yield from _keeps_secrets(store, now)):
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


def _keeps_secrets(store: Store, approval: Approval) -> Pieces[bool]:
    """Return whether the decision that won left every secret argument unchanged."""
    if not approval.edited:
        return True
    (asked,) = store.journal(approval.session, approval.position - 1, 1)
    won = yield from find_first(
        store,
        approval.session,
        approval.position,
        lambda event: ends_approval(event) and event.approval == approval.id,
    )
    assert isinstance(asked.event, e.ToolCallRequested)
    assert won is not None
    if (edited := PENDING.apply(won.event).edited) is None:
        return True
    before, runs = msgspec.json.decode(asked.event.arguments), msgspec.json.decode(edited)
    return all(before[name] == runs[name] for name in approval.secret)
