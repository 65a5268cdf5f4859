"""The rules of a namespace: the fold of the changes in the history of one small workflow (workflow/rules.py).

The workflow folds them when it goes on as a new one. Clients and workers fold them when they read its history
(rules.py), so a rule needs no worker to be read.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from supervisor.core.calls.rules import Rule
from supervisor.core.encoding import to_json
from supervisor.core.ids import digest_of_value
from supervisor.core.values import Answer, Approval, Decision, Deny
from supervisor.runtime.plans.rules import granted, rule_of_denial
from supervisor.temporal.wire import RULES_LARGEST_BYTES, KnownRules, from_wire, to_wire


class RuleChange(msgspec.Struct, frozen=True, kw_only=True):
    """A rule to add, or the id of one to revoke."""

    by: str
    at: datetime
    rule: Rule | None = None
    revoked: str | None = None


class Standing:
    """The rules that hold, by id, in the order in which they were added."""

    def __init__(self, documents: list[Any]) -> None:
        self.rules: dict[str, Rule] = {}
        self._revoked: set[str] = set()
        """A rule that was revoked is not added again by another try to add it."""
        for each in documents:
            rule = from_wire(each, Rule)
            self.rules[str(rule.id)] = rule

    def take(self, change: RuleChange) -> None:
        is_new = change.rule is not None and change.rule.id not in self._revoked
        if change.rule is not None and is_new and self.find_same(change.rule) is None:
            self.rules[str(change.rule.id)] = replace(change.rule, by=change.by, added_at=change.at)
        if change.revoked is not None:
            self.rules.pop(change.revoked, None)
            self._revoked.add(change.revoked)

    def has(self, change: RuleChange) -> bool:
        """Whether a change, or one that undoes it, was taken."""
        if change.rule is not None:
            return change.rule.id in self._revoked or self.find_same(change.rule) is not None
        return change.revoked not in self.rules

    def find_same(self, rule: Rule) -> Rule | None:
        return next((each for each in self.rules.values() if each.meaning == rule.meaning), None)

    @property
    def version(self) -> str:
        """What names these rules: a rule keeps its id, and what it says."""
        return digest_of_value([*self.rules])

    def known(self) -> KnownRules:
        return KnownRules(rules=tuple(self.rules.values()), version=self.version)

    def documents(self) -> list[Any]:
        return [to_wire(each) for each in self.rules.values()]


def can_travel(known: KnownRules) -> bool:
    """Return whether rules are few enough to travel with a start."""
    return len(to_json(to_wire(known), "the rules")) <= RULES_LARGEST_BYTES


def rules_for_all(approval: Approval, decision: Decision, now: datetime) -> tuple[Rule, ...]:
    """Return the rules for all sessions that a decision makes at this instant, without ids."""
    if isinstance(decision, Answer) or decision.scope != "always":
        return ()
    if isinstance(decision, Deny):
        return rule_of_denial(approval, decision)
    made = granted(approval, decision)
    if decision.minutes is None:
        return made
    return tuple(replace(rule, until=now + timedelta(minutes=decision.minutes)) for rule in made)
