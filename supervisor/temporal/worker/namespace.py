"""What a worker does in the namespace for a tree: activities that need no mark, and are repeated until they are done.

Code of a workflow reaches no server by itself. So a tree has its worker read the rules, add one that a decision has
made, look who has claimed an approval, and claim the end that the tree follows (workflow/turns.py).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from supervisor.core.calls.rules import Rule
from supervisor.core.store_urls import TemporalStore
from supervisor.system.settling import settle
from supervisor.temporal.connection import SOON, is_no_workflow, server_errors
from supervisor.temporal.left import read_end
from supervisor.temporal.rulebook import RuleChange
from supervisor.temporal.rules import NamespaceRules
from supervisor.temporal.wakes import due_at
from supervisor.temporal.wire import (
    ADD_RULE,
    BARE_CLAIM,
    CLAIMED,
    FIND_DUE,
    MEMO,
    PENDING,
    QUEUE,
    READ_RULES,
    RELEASE,
    SETTLE,
    TAKE_OVER,
    TREE,
    Command,
    Scheduled,
    Start,
    decision_id,
    from_wire,
    to_wire,
    turn_id,
)


class NamespaceActivities:
    """The activities of a worker by which its trees reach the namespace."""

    def __init__(self, client: Client, named: TemporalStore) -> None:
        self._client = client
        self._named = named
        self.rules = NamespaceRules(client, named)
        self.activities = self.read_rules, self.add_rule, self.settle, self.find_claim, self.take_over, self.find_due

    @activity.defn(name=READ_RULES)
    async def read_rules(self, has_version: bool = False) -> Any:
        """Return the rules, for a call: KnownRules, or a list of them for a tree of former code."""
        await self.rules.read()
        return to_wire(self.rules.standing.known()) if has_version else self.rules.standing.documents()

    @activity.defn(name=SETTLE)
    async def settle(self, paths: list[str]) -> dict[str, str]:
        """Return where paths lead on this machine, for a call that asks or is about to begin."""
        return settle(paths)

    @activity.defn(name=ADD_RULE)
    async def add_rule(self, document: dict[str, Any], has_version: bool = False) -> Any:
        """Add a rule that a decision has made. Return the id of the rule that stands for it, with the rules that hold
        then; or the id alone, for a tree of former code."""
        change = from_wire(document, RuleChange)
        assert change.rule is not None
        await self.rules.change(change)
        await self.rules.read()
        standing = self.rules.standing
        found = standing.find_same(change.rule) or change.rule
        await self._tell_trees(change, found)
        return {"id": str(found.id), "rules": to_wire(standing.known())} if has_version else str(found.id)

    async def _tell_trees(self, change: RuleChange, rule: Rule) -> None:
        """Tell the trees in which calls of the rule's tool wait that a decision has made or confirmed it. They are told
        again if this activity is repeated: the second time nothing waits."""
        assert change.rule is not None
        if change.rule.approval is None:
            return
        rule = replace(rule, approval=change.rule.approval)
        query = f'WorkflowType = "{TREE}" AND ExecutionStatus = "Running" AND {PENDING} IS NOT NULL'
        with server_errors(self._named):
            async for each in self._client.list_workflows(query):
                if not _may_wait_for((await each.memo()).get(MEMO), rule.tool):
                    continue
                told = Command(
                    id="", kind="release", session=each.id, by=change.by, rule=rule, text=change.at.isoformat()
                )
                try:
                    await self._client.get_workflow_handle(each.id).signal(RELEASE, to_wire(told), rpc_timeout=SOON)
                except RPCError as error:
                    if not is_no_workflow(error):  # it has ended
                        raise

    @activity.defn(name=CLAIMED)
    async def find_claim(self, approval: str) -> str:
        """Return what has claimed an approval: expired, withdrawn, or the kind of a decision."""
        with server_errors(self._named):
            described = await self._client.get_workflow_handle(decision_id(approval)).describe(rpc_timeout=SOON)
        return str((await described.memo())["decision"]["kind"])

    @activity.defn(name=TAKE_OVER)
    async def take_over(self, session: str, follows: str, follower: str) -> Any:
        """Claim the latest end of a tree for the workflow `follower`. Return the Start that was left there."""
        with server_errors(self._named):
            left = await read_end(self._client, session, follows)
            while (other := await self._claim_end(session, _chain_of(left), follower)) != follower:
                left = await read_end(self._client, session, other)
        return to_wire(left)

    @activity.defn(name=FIND_DUE)
    async def find_due(self, document: dict[str, Any], wake: str, now: str) -> str | None:
        """Return the instant that is due for a wake of a schedule; None for none. The zones of this machine say it once
        for all replays."""
        given = from_wire(document, Scheduled)
        due = due_at(given.schedule, given.offsets, datetime.fromisoformat(wake), datetime.fromisoformat(now))
        return None if due is None else due.isoformat()

    async def _claim_end(self, session: str, chain: str, follower: str) -> str:
        """Claim an end. Return whose it is."""
        key = turn_id(session, chain)
        try:
            await self._client.start_workflow(
                BARE_CLAIM,
                id=key,
                task_queue=QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                memo={"follower": follower},
                rpc_timeout=SOON,
            )
        except WorkflowAlreadyStartedError:
            described = await self._client.get_workflow_handle(key).describe(rpc_timeout=SOON)
            return str((await described.memo())["follower"])
        return follower


def _may_wait_for(shown: Any, tool: str) -> bool:
    """Return whether calls of a tool may wait in a tree, as its memo shows."""
    is_whole = isinstance(shown, Mapping) and not shown.get("left_out")
    return not is_whole or any(each.get("tool") == tool for each in shown.get("pending", ()))


def _chain_of(left: Start) -> str:
    assert left.carried is not None, "a tree leaves its journal"
    return left.carried.chain
