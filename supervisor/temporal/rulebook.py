"""The rules of a namespace: one small workflow, whose signals add and revoke them.

Rules
- The rules are the fold of the workflow's history, which a client reads without a worker (rules.py). A signal that
  comes while a worker is at a task of the workflow is in the history a moment later. A change counts when it is there.
- The workflow goes on as a new one after MOST changes, so that its history stays short.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import anyio
import msgspec
from msgspec.structs import replace
from temporalio import workflow

from supervisor.core.rules import Rule
from supervisor.core.values import Approval, Approve, Decision
from supervisor.runtime.plans.rules import granted
from supervisor.temporal.wire import RULES_TYPE, from_wire, to_wire

MOST: Final = 500


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

    def documents(self) -> list[Any]:
        return [to_wire(each) for each in self.rules.values()]


def rule_for_all(approval: Approval, decision: Decision) -> Rule | None:
    """Return the rule for all sessions that a decision makes, without an id; None if it makes none."""
    if not isinstance(decision, Approve) or decision.scope != "always":
        return None
    return granted(approval, decision)


@workflow.defn(name=RULES_TYPE, sandboxed=False)
class RulesWorkflow:
    """Keeps the rules. Its input is what held before."""

    def __init__(self) -> None:
        self._changes: list[RuleChange] = []
        self._news: anyio.Event | None = None

    @workflow.signal
    def change(self, document: Mapping[str, Any]) -> None:
        self._changes.append(from_wire(document, RuleChange))
        if self._news is not None:
            self._news.set()

    @workflow.run
    async def run(self, before: list[Any]) -> None:
        while len(self._changes) < MOST:
            self._news = anyio.Event()
            await self._news.wait()
        standing = Standing(before)
        for change in self._changes:
            standing.take(change)
        workflow.continue_as_new(standing.documents())
