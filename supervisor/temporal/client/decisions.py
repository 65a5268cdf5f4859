"""Decisions: the first one claims the approval, and all others learn whose it is.

Rules
- The workflow `decision~APPROVAL` can be started once, and carries the decision to the tree. So of several people one
  wins, at once. What the tree makes of it is known when a worker has run it. If that takes longer than PATIENCE, the
  result is `recorded`: the approval may have expired, or have been withdrawn, meanwhile.
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import anyio
import msgspec
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from supervisor.core.approvals.state import DECISIONS
from supervisor.core.encoding import printable_text
from supervisor.core.errors import NotFound, ServerError, ServerUnavailable
from supervisor.core.values import Approval, Decision, DecisionResult
from supervisor.runtime.people.decide import check_decision, lost
from supervisor.temporal.client.trees import SOON_ENOUGH, Trees, failure_of
from supervisor.temporal.connection import SOON, server_errors
from supervisor.temporal.rulebook import rule_for_all
from supervisor.temporal.rules import NamespaceRules
from supervisor.temporal.wire import (
    CLAIM,
    ONCE,
    QUEUE,
    DecisionRequest,
    decision_fields,
    decision_id,
    from_wire,
    raise_error,
    to_wire,
)

_STATUS: Final = {decision: status for status, decision in DECISIONS.items()}


class Deciding:
    def __init__(self, trees: Trees, rules: NamespaceRules) -> None:
        self._trees = trees
        self._rules = rules

    async def decide(
        self, approval: str, decision: Decision, channel: str | None, batch: str | None = None
    ) -> DecisionResult:
        root = await self._trees.root_of_approval(approval)
        if root is None:
            return DecisionResult(kind="unknown", approval=approval)
        pending = await self._trees.find_in_memo(root, approval)
        if pending is None:
            result = await self._lost(root, approval, decision)
            if isinstance(result, DecisionResult):
                return result
            pending = result
        check_decision(pending, decision)
        if (rule := rule_for_all(pending, decision)) is not None:
            await self._rules.check_room(rule)
        now = datetime.now(UTC)
        if pending.expires_at is not None and pending.expires_at <= now:
            return DecisionResult(kind="closed", approval=approval, status="expired")
        request = DecisionRequest(
            approval=approval,
            root=root,
            at=now.isoformat(),
            channel=channel,
            batch=batch,
            **{**decision_fields(decision), "by": printable_text(decision.by)},
        )
        try:
            with server_errors(self._trees.named, maybe_done=True):
                claim = await self._trees.client.start_workflow(
                    CLAIM,
                    to_wire(request),
                    id=decision_id(approval),
                    task_queue=QUEUE,
                    id_reuse_policy=ONCE,
                    memo={"decision": to_wire(request)},
                    rpc_timeout=SOON,
                )
        except WorkflowAlreadyStartedError:
            return await self._lost_claim(root, approval, decision)
        with anyio.move_on_after(SOON_ENOUGH):
            try:
                return from_wire(await claim.result(), DecisionResult)
            except WorkflowFailureError as error:
                raise_error(failure_of(error))
            except RPCError:
                pass  # the claim counts
        return await self._recorded(request)

    async def _recorded(self, request: DecisionRequest) -> DecisionResult:
        """Return the result of a decision that no worker has answered: perhaps none can go on with its tree."""
        is_blocked = False
        with suppress(ServerError, NotFound):  # it counts, whatever can be said of it
            described = await self._trees.namespace.describe(request.root)
            is_blocked = await self._trees.namespace.find_block(described) is not None
        return DecisionResult(
            kind="recorded",
            running=is_blocked,  # a worker has tried
            blocked=is_blocked,
            approval=request.approval,
            status=_STATUS[request.kind],
            by=request.by,
            decided_at=datetime.fromisoformat(request.at),
        )

    async def _lost_claim(
        self, root: str, approval: str, decision: Decision, *, answers: bool = True
    ) -> DecisionResult:
        """Return the result of a decision on an approval that another decision has claimed. `answers`: whether a worker
        may answer; if not, none is asked again."""
        with server_errors(self._trees.named):
            described = await self._trees.client.get_workflow_handle(decision_id(approval)).describe(rpc_timeout=SOON)
        claimed = (await described.memo())["decision"]
        if claimed["kind"] in ("expired", "withdrawn"):
            return DecisionResult(kind="closed", approval=approval, status=claimed["kind"])
        winner = from_wire(claimed, DecisionRequest)
        mine = DecisionRequest(approval=approval, root=root, at=winner.at, **decision_fields(decision))
        about = ("kind", "arguments", "scope", "pattern", "value")
        is_same = all(getattr(winner, name) == getattr(mine, name) for name in about)
        if answers:
            with suppress(ServerUnavailable):  # then what was read before counts: an approval ends once
                await self._trees.mirror.read(root)
        found = self._trees.store.get_approval(approval)
        if found is not None and found.status != "pending":
            return await lost(self._trees.store, approval, decision)
        stands = await self._recorded(winner)
        return msgspec.structs.replace(stands, kind="already" if is_same else "conflict")

    async def _lost(self, root: str, approval: str, decision: Decision) -> DecisionResult | Approval:
        """Return the result of a decision on an approval that is not pending any more, or that its tree never asked.
        Or the approval, if it was asked so lately that only a worker knows of it."""
        try:
            await self._trees.mirror.read(root)
        except ServerUnavailable as unread:
            try:
                return await self._lost_claim(root, approval, decision, answers=False)
            except NotFound:
                if await self._has_ended(root):
                    return DecisionResult(kind="closed", approval=approval, status="withdrawn")
                raise unread from None
        found = self._trees.store.get_approval(approval)
        if found is not None and found.status == "pending":
            if await self._has_ended(root):  # not read since
                return DecisionResult(kind="closed", approval=approval, status="withdrawn")
            if await self._trees.is_open(root):
                return found
        return await lost(self._trees.store, approval, decision)

    async def _has_ended(self, root: str) -> bool:
        """Return whether Temporal has ended a tree, which withdraws what it asks (mirror/ended.py)."""
        namespace = self._trees.namespace
        return await namespace.why_ended(await namespace.describe(root)) is not None
