"""The policy that rules give a call: rules of the program, of the store, and of the agents from the root down (A7).

The store's rules are a Rulebook. It is one of the journal's live states and is always in memory, so a call reads
nothing from the store. A commit of this process or of another one changes it as it changes a session.

Rules
- The rules are applied inside the plan that commits the outcome. That plan sees everything that any process has
  committed, so a rule that was committed before `executing` holds for that call (A9).
- Once a call asks, a decision answers it: its own, or one that makes a rule about it (runtime/plans/release.py). Any
  other rule that is added meanwhile does not (A13). A deny rule is
  checked again when the call is about to begin, even if a person has approved it. An allow rule must still hold then,
  unless a person has approved the call.
- A decision can make only a rule that was offered. It makes no rule from edited arguments, which were not offered (A5).
- Two rules with the same meaning are one rule, so one revocation removes it.
- If the store's rules cannot be read, then no call asks and no call runs (A5).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from supervisor.core import events as e
from supervisor.core.calls.content import CallContent
from supervisor.core.calls.edits import like
from supervisor.core.calls.rules import (
    Rule,
    checked_rule,
    deniable,
    find_option,
    is_about,
    is_meant,
    make_rule,
    named_edits,
    named_paths,
    patterns_of,
    rules_that_say,
    why_asked,
)
from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.ids import RULES
from supervisor.core.sessions.state import Rulebook
from supervisor.core.values import Approval, Approve, Deny, Option, Policy
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.allowances import check_countable, in_order, used

Settle = Callable[[Iterable[str]], Mapping[str, str]]
"""Says where paths lead."""
Ruled = tuple[Policy, tuple[Rule, ...]]
"""What the rules say of a call, and those that decided: several where a list of commands is allowed."""


class Ruling:
    """The rules that hold in this process. `from_code`: the rules that the program passed to `open_supervisor`; they
    hold in every tree."""

    def __init__(self, from_code: Iterable[Rule] = ()) -> None:
        self.from_code = tuple(from_code)
        check_countable(self.from_code)
        self.shared: tuple[Rule, ...] = ()
        """Rules that are kept elsewhere, as they were read last."""

    def of_call(
        self,
        view: View,
        facts: e.SessionCreated,
        content: CallContent,
        now: datetime,
        *,
        settle: Settle = lambda paths: {},
        ours: Callable[[], Collection[str]] = tuple,
        more: tuple[Rule, ...] = (),
        kept: Collection[str] = (),
        is_former: bool = False,
    ) -> Ruled | None:
        """Return the policy that the rules give a call, and the rules it is from; None if the tool's own policy
        decides.

        `settle` says where paths lead, `ours` which files are ours. `is_former`: see `rules_that_say`. `more`: further
        rules. `kept`: the allowances that its request has used. The arguments are decoded only if a rule may be about
        the call.
        """
        about = self.about(view, facts, content)
        if not (about or more):
            return None
        rules = (*in_order(view, about, now, facts.root, kept)[0], *more)
        paths = content.paths
        settled = settle(named_paths(rules, content.arguments, paths, facts.cwd)) if paths else {}
        root = facts.root
        return rules_that_say(rules, content, root_session=root, settled=settled, ours=ours(), is_former=is_former)

    def why(
        self,
        ruled: Ruled | None,
        view: View,
        facts: e.SessionCreated,
        content: CallContent,
        own: Iterable[Rule],
        now: datetime,
    ) -> str:
        """Return why a person is asked about a call, of which `ruled` was said. `own`: the rules that its agent
        declares."""
        not_counted = own if facts.parent is not None else ()
        about, ended = in_order(view, self.about(view, facts, content), now, facts.root)
        if ruled is None and ended:
            without_end = rules_that_say((*about, *ended), content, root_session=facts.root) or ("ask", ())
            if spent := [rule for rule in without_end[1] if rule in ended]:
                return f"{spent[-1]} has ended: " + ("its time is over" if spent[-1].uses is None else "it is used up")
        decided = None if ruled is None else first_of(ruled)
        return why_asked(decided, about, content, root_session=facts.root, not_counted=not_counted)

    def about(self, view: View, facts: e.SessionCreated, content: CallContent) -> tuple[Rule, ...]:
        """Return the rules that are about a call."""
        tool, claims = content.tool, content.claims
        declared = (*self.from_code, *self.shared, *facts.rules)
        written, own = book(view), [rule for rule in declared if is_about(rule, tool, claims)]
        if claims:
            return (*own, *written.find_claimed(tool, facts.root))
        others = [rule for name in like(tool) for rule in written.find(name, facts.root) if is_about(rule, tool, ())]
        return (*own, *written.find(tool, facts.root), *others)

    def paths(self, view: View, facts: e.SessionCreated, content: CallContent) -> list[str]:
        """Return the paths that `of_call` settles, in order."""
        named = named_paths(self.about(view, facts, content), content.arguments, content.paths, facts.cwd)
        return sorted(named | named_edits(content))

    def find(self, view: View) -> list[Rule]:
        """Return all rules that hold, the program's first."""
        return [*self.from_code, *book(view).standing.values()]


def first_of(ruled: Ruled) -> tuple[Policy, Rule]:
    """Return what the rules say of a call, and the first of those that decided."""
    return ruled[0], ruled[1][0]


def why_not_begun(
    ruled: tuple[Policy, Rule] | None, own: Policy, tool: str, *, is_decided: bool, was_ruled: bool
) -> str | None:
    """Return why a call may not begin by the rules of this instant; None if it may (A8, A9). `own`: the policy of its
    tool. `is_decided`: whether a person has decided about it; `was_ruled`: whether a rule has allowed it."""
    policy = own if ruled is None else ruled[0]
    if policy == "deny":
        return f"denied by the policy of tool {tool}" if ruled is None else _denied_by(ruled[1])
    if policy == "ask" and not is_decided and (ruled is not None or was_ruled):  # what allowed it no longer holds
        return "the rules have changed since it was called, and nothing ran; call it again to ask"
    return None


def _denied_by(rule: Rule) -> str:
    """Return the text that tells the agent which rule denied its call."""
    whose = f"a rule from {rule.origin}" if rule.id is None else f"rule {rule.id}, which {rule.by} added"
    why = f"\nthe reason: {rule.reason}" if rule.reason else ""
    return f"denied by {whose}: {rule.tool}" + (f" {rule.pattern}" if rule.pattern else "") + why


def book(view: View) -> Rulebook:
    """Return the store's rules. Raises StoreUnreadable."""
    return view.own_journal(RULES, Rulebook, "rules", "no call may begin")


def rule_added(
    view: View, rule: Rule, by: str, now: datetime, approval: str | None = None, *, is_former: bool = False
) -> Iterator[Entry]:
    """Yield the event that adds a rule. If a rule with the same meaning holds already, a decision confirms it, so that
    it decides what waits in other trees, too; without a decision nothing is to be done. `is_former`: as former versions
    did it, which confirmed none."""
    same = book(view).find_same(rule)
    if same is None or (approval is not None and not is_former):
        after = 0 if approval is None or is_former else view.position + len(view.rows)
        yield RULES, e.RuleAdded(at=now, rule=same or rule, by=by, approval=approval, after=after)


def find_unused(view: View, rule: Rule, by: str) -> Rule | None:
    """Return the same allowance, if the same person has added it and no call has used it: a request may come twice."""
    counted = book(view).find_counted(rule)
    return next((each for each in counted if (each.by, each.approval) == (by, None) and not used(view, each)), None)


def revoke(view: View, rule: str, by: str, now: datetime) -> tuple[list[Entry], Rule]:
    """Return the entries that revoke a rule, and that rule. Raises NotFound."""
    if (found := book(view).standing.get(rule)) is None:
        raise NotFound(f"this store has no rule {rule}: it was revoked already, or it is written in code")
    return [(RULES, e.RuleRevoked(at=now, rule=rule, by=by))], found


def rules_pruned(view: View, is_gone: Callable[[str], bool], now: datetime) -> Iterator[Entry]:
    """Yield what ends the rules of trees that are gone, so that a later session with the same id has none of them.
    Raises StoreUnreadable."""
    for rule in book(view).standing.values():
        if rule.session is not None and is_gone(rule.session):
            yield RULES, e.RuleRevoked(at=now, rule=str(rule.id), by="", session=rule.session)


def granted(approval: Approval, decision: Approve) -> tuple[Rule, ...]:
    """Return the rules that a decision makes, without ids: one for each line of its pattern; none if it approves once.
    Raises InvalidInput if they were not offered (A5)."""
    if decision.scope == "once" and decision.pattern is None:
        return ()
    if decision.arguments is not None:
        raise InvalidInput(
            "edited arguments can only be approved once: the rules on offer are for the arguments that were asked "
            "about; approve this call once, and add a rule of your own for later ones"
        )
    pattern, session = _chosen(approval, decision, approval.options, "was not offered", "approved")
    return tuple(
        # a person has read it, and its further options are known to be harmless
        checked_rule(
            make_rule(
                "allow",
                approval.tool,
                each,
                "decision",
                session,
                unreviewed=is_meant(each, approval),
                uses=decision.uses,
                until=decision.until,
            )
        )
        for each in patterns_of(pattern)
    )


def rule_of_denial(approval: Approval, decision: Deny) -> tuple[Rule, ...]:
    """Return the rule that a denial makes, without an id; none if it denies once. Raises InvalidInput if the call can
    be denied only once."""
    if decision.scope == "once" and decision.pattern is None:
        return ()
    if approval.kind == "question":
        raise InvalidInput(f"{approval.id} is a question: it can be denied only once")
    pattern, session = _chosen(approval, decision, deniable(approval), "cannot be denied", "denied")
    reason = printable_text(decision.reason) if decision.reason else None
    return (checked_rule(make_rule("deny", approval.tool, pattern, "decision", session, exact=True, reason=reason)),)


def _chosen(
    approval: Approval, decision: Approve | Deny, options: Sequence[Option], refused: str, done: str
) -> tuple[str, str | None]:
    """Return the pattern that a decision chooses of these options, and the session for which. Raises InvalidInput,
    which says what may be done, if it is none of them."""
    option = find_option(options, decision.scope, decision.pattern)
    if option is None or option.pattern is None:
        patterns = dict.fromkeys(each.pattern for each in options if each.pattern is not None)
        offered = f", or for the session or always: {' or '.join(patterns)}" if patterns else " only"
        asked = f"{decision.scope} {decision.pattern or ''}".strip()
        raise InvalidInput(f"{asked!r} {refused} for {approval.id}; it may be {done} once{offered}")
    return option.pattern, approval.root_session if decision.scope == "session" else None
