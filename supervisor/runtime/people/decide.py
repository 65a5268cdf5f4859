"""Decisions: one person's answer to one approval, counted once, and the rule that it makes, in one append (A1, A3).

Rules
- A batch is such decisions of one person, each with a result of its own; those of one tree are one append.
- The first decision wins. A later one that is the same (decision, scope, pattern, arguments) is answered `already`. A
  later one that contains a secret value is always answered `conflict`: `already` would confirm a guess of the secret.
- What a decision means, and which entries it makes, is planned in runtime/plans/decisions.py.
- Any process that has the store open may decide; it need not own the tree.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.state import PENDING, ends_approval
from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput, StoreUnreadable
from supervisor.core.values import Approval, Decision, DecisionResult, decider_of
from supervisor.runtime.clock.patience import endless
from supervisor.runtime.journal.pages import pages_of
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.plans.decisions import (
    ALONE,
    Checked,
    Counted,
    Decided,
    Quorum,
    check,
    check_plain,
    check_types,
    decision_entries,
    kind_of,
    rules_of,
)
from supervisor.runtime.plans.release import Made, MayDecide, Released, covered, released
from supervisor.runtime.reading.journals import find_first
from supervisor.runtime.reading.pieces import PIECE, Pieces, read_pieces
from supervisor.seam.store import Store

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner


class Deciding(NamedTuple):
    """How decisions are made. `may`: whether a person may decide another approval, which the rule that a decision
    makes would decide, too. `batch`: the id of the batch to which they belong. `quorum`: how many must decide the
    same."""

    channel: str | None = None
    may: MayDecide = lambda by, found: True
    batch: str | None = None
    quorum: Quorum = ALONE


_ALONE: Final = Deciding()


class _Ready(NamedTuple):
    """A decision that fits what was asked. `asking`: the session and the operation."""

    approval: str
    decision: Decision
    asking: tuple[str, str]
    checked: Checked
    by: str


async def decide(runner: "Runner", approval: str, decision: Decision, how: Deciding = _ALONE) -> DecisionResult:
    """Decide an approval; see Supervisor.decide."""
    ready = _ready(runner, approval, decision)
    if ready is None:
        return DecisionResult(kind="unknown", approval=approval, batch=how.batch)
    result = await runner.journal.append_with_answer(lambda view: _entries(runner, view, ready, how))
    return result or await _lost_to(runner, ready, how)


async def decide_in_tree(
    runner: "Runner", decisions: Sequence[tuple[str, Decision]], how: Deciding
) -> list[DecisionResult]:
    """Decide several approvals of one tree in one append. Each is planned after the changes of those before it, so that
    a rule that one makes decides the others, too. One that does not fit, or whose session cannot be read, is refused,
    and stops no other."""
    found: list[_Ready | DecisionResult] = []
    for approval, decision in decisions:
        try:
            ready = _ready(runner, approval, decision)
        except InvalidInput as error:
            found.append(_refused(runner, approval, error, how))
        else:
            found.append(ready or DecisionResult(kind="unknown", approval=approval, batch=how.batch))
    results: dict[int, DecisionResult] = {}

    def plan(view: View) -> list[Entry]:
        results.clear()
        for place, each in enumerate(found):
            if isinstance(each, DecisionResult):
                continue
            length = len(view.rows)
            try:
                entries, result = _entries(runner, view, each, how)
                for entry in entries:
                    view.take(*entry)
            except (InvalidInput, StoreUnreadable) as error:
                view.cut(length)
                result = _refused(runner, each.approval, error, how)
            if result is not None:
                results[place] = result
        return []

    await runner.journal.append(plan)
    return [
        each if isinstance(each, DecisionResult) else results.get(place) or await _lost_to(runner, each, how)
        for place, each in enumerate(found)
    ]


def _refused(runner: "Runner", approval: str, why: object, how: Deciding) -> DecisionResult:
    """Return the result of a decision that a batch does not make."""
    found = runner.journal.store.get_approval(approval)
    status = None if found is None else found.status
    return DecisionResult(kind="refused", approval=approval, status=status, batch=how.batch, why=str(why))


def _ready(runner: "Runner", approval: str, decision: Decision) -> _Ready | None:
    """Check a decision before its append; return None for an unknown approval. Raises InvalidInput."""
    by = printable_text(decider_of(decision))
    asking, checked = runner.journal.store.find_asking(approval), _check(runner, approval, decision)
    if asking is None or checked is None:
        return None
    if checked.rules:
        new_id = runner.environment.new_rule_id
        checked = replace(checked, rules=tuple(replace(rule, id=new_id()) for rule in checked.rules))
    return _Ready(approval, decision, asking, checked, by)


def _entries(runner: "Runner", view: View, ready: _Ready, how: Deciding) -> tuple[list[Entry], DecisionResult | None]:
    """Return the entries of a decision, and its result; None if it does not count. Raises InvalidInput."""
    now, checked, by, claims = runner.clock.now(), ready.checked, ready.by, runner.environment.claims_decisions
    if checked.edited is not None and (asked := _unseen(runner, view, ready, how)) is not None:
        return asked
    entries, decided = decision_entries(
        view,
        ready.asking,
        ready.approval,
        checked,
        by=by,
        channel=how.channel,
        batch=how.batch,
        quorum=how.quorum,
        now=now,
        is_in_time=lambda expires_at: claims or runner.clock.is_ahead(expires_at),
        shares_rules=runner.environment.shares_rules,
        is_former=runner.environment.is_former,
    )
    if decided is None:
        return entries, None
    running = _is_running(runner.journal.store, view.session(ready.asking[0]).facts.root)
    about: dict[str, Any] = {"approval": ready.approval, "by": by, "running": running, "batch": how.batch}
    if isinstance(decided, Counted):
        result = DecisionResult(kind="counted", status="pending", decided_at=now, missing=decided.missing, **about)
        return entries, result
    entries += runner.follow(*decided)
    released_here: list[str] = []
    if checked.rules and not runner.environment.is_former:
        for other, released_event, uses in _released(runner, view, checked, decided, by, now, how.may):
            entries += [(other.id, released_event), *uses, *runner.follow(other, released_event)]
            released_here.append(released_event.approval)
    state, event = decided
    result = DecisionResult(
        kind="accepted",
        status=PENDING.apply(event).status,
        decided_at=event.at,
        rule=getattr(event, "rule", None),
        rules=getattr(event, "rules", ()),
        released=tuple(released_here),
        blocked=state.blocked is not None,
        **about,
    )
    return entries, result


def _unseen(runner: "Runner", view: View, ready: _Ready, how: Deciding) -> tuple[list[Entry], DecisionResult] | None:
    """Return the answer to an edit whose evidence its person has not seen; None if it may count (A18)."""
    from supervisor.runtime.people.unseen import NOT_RUNNING, NOT_YET, unseen  # most decisions edit nothing

    session, operation = ready.asking
    if (state := view.find_session(session)) is None:
        return None
    about = {"approval": ready.approval, "by": ready.by} | ({} if how.channel is None else {"channel": how.channel})
    if (found := unseen(state, operation, ready.decision, ready.checked, about, runner.clock.now())) is None:
        return None
    wanted, result = found
    running = _is_running(runner.journal.store, state.facts.root)
    why = "" if result.evidence is not None else NOT_YET if running else NOT_RUNNING
    return [(session, each) for each in wanted], replace(result, by=ready.by, running=running, batch=how.batch, why=why)


async def _lost_to(runner: "Runner", ready: _Ready, how: Deciding) -> DecisionResult:
    return replace(await lost(runner.journal.store, ready.approval, ready.decision), batch=how.batch)


def _released(
    runner: "Runner", view: View, checked: Checked, decided: Decided, by: str, now: datetime, may: MayDecide
) -> list[Released]:
    """Return what the rules of a decision decide of the other calls that wait in the tree of that decision."""
    (rule, *others), (state, event) = rules_of(view, checked, now), decided
    made = Made(rule, by, event.approval, now, view.position + len(view.rows), tuple(others))
    found = list[Approval]()
    for some in pages_of(view.store.find_approvals, PIECE, root=state.facts.root):
        found += covered(made, some)
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


@endless
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
        rules=now.rules,
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
