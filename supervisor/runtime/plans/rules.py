"""What the rules say of a call: those of the program, of the store, and of the agents from the root down (A7).

The store's rules are a Rulebook among the journal's live states, pinned for good: what a commit of ours or of another
process changes is taken in as it is for a session. Nothing is read for a call.

Rules
- The rules are asked inside the plan that commits what follows, which sees all that is on disk by then, whoever wrote
  it: a rule that was committed before `executing` holds for that call (A9).
- A call that was asked about stays so, whatever is added meanwhile: only its own decision answers it (A13). A deny
  counts when it is about to begin, whoever approved it; what allowed it must hold then, unless a person said yes.
- A decision makes no rule but one that was offered, and none out of edited arguments, which nobody was offered (A5).
- Two rules of one meaning are one: revoking it leaves no second one behind.
- Where the store's rules cannot be read nothing is asked and nothing runs (A5).
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

import msgspec

from supervisor.core import events as e
from supervisor.core.errors import InvalidInput, NotFound, StoreUnreadable
from supervisor.core.ids import RULES
from supervisor.core.rules import Rule, checked, find_option, make_rule, policy_of
from supervisor.core.session import Rulebook
from supervisor.core.values import Approval, Approve, Policy
from supervisor.runtime.journal.view import Entry, View


class Ruling:
    """The rules that hold in this process. `from_code`: those that the program gave when it opened the supervisor; they
    hold in every tree."""

    def __init__(self, from_code: Iterable[Rule] = ()) -> None:
        self.from_code = tuple(from_code)

    def of_call(
        self,
        view: View,
        facts: e.SessionCreated,
        tool: str,
        arguments: msgspec.Raw,
        secret: Collection[str] = (),
    ) -> tuple[Policy, Rule] | None:
        """Return what the rules say of a call, and which one said so; None where the tool's own policy decides.

        `secret`: names of the arguments that no pattern may speak of.
        """
        own = [rule for rule in (*self.from_code, *facts.rules) if rule.tool == tool]
        rules = (*own, *book(view).find(tool, facts.root))
        if not rules:
            return None
        values = msgspec.json.decode(arguments)
        return policy_of(rules, tool, values, cwd=facts.cwd, root_session=facts.root, secret=secret)

    def find(self, view: View) -> list[Rule]:
        """Return all rules that stand, those of the program first."""
        return [*self.from_code, *book(view).standing.values()]


def book(view: View) -> Rulebook:
    """Return the store's rules. Raises StoreUnreadable."""
    reason = view.store.unreadable.get(RULES)
    found = view.find_session(RULES) if reason is None else None
    if not isinstance(found, Rulebook):
        raise StoreUnreadable(
            f"the rules in {view.store.name} cannot be read, so no call may begin: "
            f"{reason or 'a newer program wrote them, or they are damaged'}"
        )
    return found


def add(view: View, rule: Rule, by: str, now: datetime, approval: str | None = None) -> Iterator[Entry]:
    """Return what is journaled for a rule; nothing if one of the same meaning stands."""
    if book(view).find_same(rule) is None:
        yield RULES, e.RuleAdded(at=now, rule=rule, by=by, approval=approval)


def revoke(view: View, rule: str, by: str, now: datetime) -> tuple[Rule, list[Entry]]:
    """Return a rule, and what is journaled when it is taken back. Raises NotFound."""
    if (found := book(view).standing.get(rule)) is None:
        raise NotFound(f"no rule {rule} stands in this store: it was revoked already, or is one in code")
    return found, [(RULES, e.RuleRevoked(at=now, rule=rule, by=by))]


def granted(approval: Approval, decision: Approve) -> Rule | None:
    """Return the rule that a decision makes, without an id, None for once. Raises InvalidInput for what was not
    offered (A5)."""
    if decision.scope == "once" and decision.pattern is None:
        return None
    if decision.arguments is not None:
        raise InvalidInput(
            "edited arguments are approved once: what was offered to be allowed for longer is what was asked, not "
            "what you made of it; approve it once, and add a rule of your own for more"
        )
    option = find_option(approval.options, decision.scope, decision.pattern)
    if option is None or option.pattern is None:
        patterns = dict.fromkeys(each.pattern for each in approval.options if each.pattern is not None)
        offered = f", or for the session or always: {' or '.join(patterns)}" if patterns else " only"
        asked = f"{decision.scope} {decision.pattern or ''}".strip()
        raise InvalidInput(f"{asked!r} was not offered for {approval.id}; it may be approved once{offered}")
    session = approval.root_session if decision.scope == "session" else None
    return checked(make_rule("allow", approval.tool, option.pattern, "decision", session))
