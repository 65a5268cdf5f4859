"""Release: a rule that a person's decision makes also decides the calls that wait already and that it covers (A13).

A person who allows a call for the session has answered each equal call that waits there; so has one who denies it. The
others would wait for the same answer.

Rules
- A call is released if it asked before that decision, if the rule by itself says what happens to it, and if nothing
  else holds it: an ask rule, a deny rule, or a reservation of the decision for other people.
- What was before is told by positions, which no clock touches. Only a rule that a former version wrote has none.
- A decision that makes no new rule, since one of the same meaning stands, releases the same calls.
- In the tree of the decision that is one append with it. In other trees the owner does it, when the rule is added and
  when a tree is loaded, so no crash loses it (runtime/people/releasing.py). Who is slower finds nothing to do.
- An allowance releases as many calls as it has uses left, the oldest first; each spends one.
- The event names the person who made the rule, the rule, and the approval whose decision it was.
- Pure: these are functions of a view.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from supervisor.core import events as e
from supervisor.core.budgets import TOOL as BUDGET
from supervisor.core.calls.content import CallContent, content_of_approval, content_of_request
from supervisor.core.calls.edits import folder_in
from supervisor.core.calls.rules import Rule, is_about, named_paths, rules_that_say
from supervisor.core.sessions.state import Rulebook, SessionState
from supervisor.core.values import Approval, HasPassed
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.allowances import holds, uses_of
from supervisor.runtime.plans.decisions import ids_of
from supervisor.runtime.plans.rules import Ruling, Settle, book

Released = tuple[SessionState, e.ApprovalDecided, tuple[Entry, ...]]
"""The session, its event, and the uses of an allowance that it takes."""
MayDecide = Callable[[str, Approval], bool]
"""Whether a person may decide an approval once."""


class Made(NamedTuple):
    """A rule, and the decision that has made or confirmed it: who made it, of which approval, when, and after which
    position. `approval`: "" if the person has added the rule itself. `others`: the other rules of that decision, with
    which it allows a list of commands."""

    rule: Rule
    by: str
    approval: str
    at: datetime
    after: int
    others: tuple[Rule, ...] = ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.rule, *self.others

    def is_later_than(self, approval: Approval) -> bool:
        return approval.position <= self.after if self.after else approval.created_at <= self.at


def made(view: View, rules: Iterable[str]) -> list[Made]:
    """Return what decisions have made of these rules, as far as they stand."""
    found = book(view)
    return [
        Made(found.standing[name], event.by, event.approval or "", event.at, event.after, _others(found, name, event))
        for name in rules
        for event in found.made.get(name, ())
    ]


def covered(said: Made, approvals: Iterable[Approval]) -> list[Approval]:
    """Return the pending calls that a rule is about, as far as their lists show: not where their paths lead."""
    rule = said.rule
    is_of_places = rule.paths or folder_in(rule.pattern) is not None
    return [
        each
        for each in approvals
        if each.kind == "call"
        and each.tool != BUDGET
        and rule.session in (None, each.root_session)
        and said.is_later_than(each)
        and is_about(rule, each.tool, each.claims)
        and isinstance(each.arguments, dict)
        and (is_of_places or _say(said.rules, content_of_approval(each), each.root_session))
    ]


def released(
    view: View,
    ruling: Ruling,
    said: Made,
    approvals: Iterable[Approval],
    *,
    now: datetime,
    has_passed: HasPassed,
    may: MayDecide,
    settle: Settle,
    ours: Callable[[], Collection[str]],
    planned: dict[str, int] | None = None,
) -> Iterator[Released]:
    """Yield what a rule decides of these pending calls. The event names the person whose decision made the rule, and
    its approval. `settle` and `ours`: as in Ruling.of_call. `planned`: the uses that the same plan has spent."""
    rule, planned = said.rule, {} if planned is None else planned
    for each in covered(said, approvals):
        state = view.find_readable(each.session)
        record = None if state is None else state.operations.get(each.operation)
        if state is None or record is None or record.pending_approval != each.id or each.id == said.approval:
            continue
        request = record.request
        assert isinstance(request, e.ToolCallRequested)
        is_late = request.expires_at is not None and has_passed(request.expires_at)
        if is_late or state.cancel is not None or not state.is_open:
            continue
        facts = state.facts
        content = content_of_request(request, facts.cwd)
        holding = tuple(one for one in said.rules if holds(view, one, now, facts.root, planned))
        ruled = ruling.of_call(view, facts, content, now, settle=settle, ours=ours, more=holding)
        deciding = _say(holding, content, facts.root, settle)
        if ruled is None or ruled[0] != rule.kind or not deciding or not may(said.by, each):
            continue
        for one in deciding:
            planned[str(one.id)] = planned.get(str(one.id), 0) + 1
        yield (
            state,
            e.ApprovalDecided(
                at=now,
                operation=each.operation,
                approval=each.id,
                decision="approve" if rule.kind == "allow" else "deny",
                by=said.by,
                scope="always" if rule.session is None else "session",
                pattern="\n".join(str(one.pattern) for one in said.rules) if said.others else rule.pattern,
                rule=rule.id,
                rules=ids_of(said.rules),
                reason=rule.reason,
                uses=rule.uses,
                until=rule.until,
                through=said.approval or None,
            ),
            tuple(uses_of(deciding, each.session, each.operation, now)),
        )


def _say(
    rules: tuple[Rule, ...], content: CallContent, root: str, settle: Settle = lambda paths: {}
) -> tuple[Rule, ...]:
    """Return those rules of a decision that, by themselves, say what happens to a call; none if they do not."""
    paths = content.paths
    settled = settle(named_paths(rules, content.arguments, paths, content.folder)) if paths else {}
    said = rules_that_say(rules, content, root_session=root, settled=settled)
    return () if said is None or said[0] != rules[0].kind else said[1]


def _others(found: Rulebook, name: str, event: e.RuleAdded) -> tuple[Rule, ...]:
    """Return the standing rules that the same decision has made or confirmed."""
    if event.approval is None:
        return ()
    return tuple(
        found.standing[other]
        for other, events in found.made.items()
        if other != name and any(each.approval == event.approval for each in events)
    )
