"""Decisions: signals of a tree. The server orders them in its history: the first one counts, and all others learn whose
it is.

Rules
- A decision counts when the server has acknowledged it, if it was made before the approval expired and the tree takes
  it before the timer, or with it. What the tree makes of it is known when a worker has run it. If that takes longer
  than PATIENCE, the result is `recorded`: the approval may have been withdrawn meanwhile.
- Without a worker, the first of the decisions that no worker has seen yet is the one that will count.
- What an approval asks never changes. So one that the mirror has is not read again.
- Former code claimed a decision by the workflow `decision~APPROVAL`, which carried it to the tree. One that has not
  come there yet counts.
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import anyio
from msgspec.structs import replace
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.service import RPCError

from supervisor.core.approvals.state import DECISIONS
from supervisor.core.encoding import printable_text
from supervisor.core.errors import NotFound, ServerError, ServerUnavailable
from supervisor.core.ids import new_session_id
from supervisor.core.values import Approval, Approve, Decision, DecisionResult
from supervisor.runtime.people.decide import check_decision, lost
from supervisor.runtime.plans.allowances import check_end
from supervisor.temporal.client.trees import SOON_ENOUGH, Trees
from supervisor.temporal.connection import SOON, is_no_workflow, server_errors
from supervisor.temporal.mirror.namespace import POLL_SECONDS
from supervisor.temporal.rulebook import rules_for_all
from supervisor.temporal.wire import (
    MEMO,
    SIGNALS,
    DecisionRequest,
    decision_fields,
    decision_id,
    from_wire,
    mark_of,
    raise_error,
    to_wire,
)

_STATUS: Final = {decision: status for status, decision in DECISIONS.items()}


class Deciding:
    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    async def decide(
        self, approval: str, decision: Decision, channel: str | None, batch: str | None = None
    ) -> DecisionResult:
        root = await self._trees.root_of_approval(approval)
        if root is None:
            return DecisionResult(kind="unknown", approval=approval)
        now = datetime.now(UTC)
        request = DecisionRequest(
            id=new_session_id(),
            approval=approval,
            root=root,
            at=now.isoformat(),
            channel=channel,
            batch=batch,
            **{**decision_fields(decision), "by": printable_text(decision.by)},
        )
        found = await self._find_pending(request, decision)
        if isinstance(found, DecisionResult):
            return found
        check_decision(found, decision)
        if isinstance(decision, Approve):
            check_end(decision.uses, decision.until, now, is_counted=False)
        for rule in rules_for_all(found, decision, now):
            await self._trees.rules.check_room(rule)
        if found.expires_at is not None and found.expires_at < now:
            return DecisionResult(kind="closed", approval=approval, status="expired")
        with server_errors(self._trees.named, maybe_done=True):
            try:
                handle = self._trees.client.get_workflow_handle(root)
                await handle.signal("decide", to_wire(request), rpc_timeout=SOON)
            except RPCError as error:
                if not is_no_workflow(error):
                    raise
                ended = await self._lost(request, decision)
                if isinstance(ended, DecisionResult):
                    return ended
                return DecisionResult(kind="closed", approval=approval, status="withdrawn")
        return await self._answer(request) or await self._unanswered(request)

    async def _find_pending(self, request: DecisionRequest, decision: Decision) -> Approval | DecisionResult:
        """Return an approval that is pending; or what became of it."""
        root, approval = request.root, request.approval
        known = self._trees.store.get_approval(approval)
        if known is not None and known.status == "pending" and root in self._trees.mirror.signalled:
            return known
        described = await self._trees.namespace.describe(root)
        memo = await described.memo()
        if not memo.get(SIGNALS) and (claimed := await self._claimed(request)) is not None:
            return claimed
        if (pending := await self._trees.find_in_memo(described, approval)) is not None:
            return pending
        return await self._lost(request, decision)

    async def _answer(self, request: DecisionRequest) -> DecisionResult | None:
        """Return what a tree has made of a decision; None if no worker says it in time. A query sees each signal that
        came before it."""
        found: Any = None
        with anyio.move_on_after(SOON_ENOUGH), suppress(ServerError, NotFound):
            while found is None:
                found = await self._trees.namespace.query(request.root, "answer", request.id, Any)
                if found is None:
                    await anyio.sleep(POLL_SECONDS / 4)
        if found is None:
            return None
        if "error" in found["answer"]:
            raise_error(found["answer"])
        return from_wire(found["answer"], DecisionResult)

    async def _unanswered(self, request: DecisionRequest) -> DecisionResult:
        """Return the result of a decision that no worker has answered: that of the first one, which will count."""
        first = request
        with suppress(ServerError, NotFound):  # it counts, whatever can be said of it
            first = await self._first_of(request) or request
        stands = await self._recorded(first)
        return stands if first.id == request.id else replace(stands, kind=_kind_of(first, request))

    async def _first_of(self, request: DecisionRequest) -> DecisionRequest | None:
        """Return the decision on an approval that the server had first, of those that no worker has seen yet."""
        trees, found = self._trees, None
        asked = GetWorkflowExecutionHistoryReverseRequest(
            namespace=trees.named.namespace, execution=WorkflowExecution(workflow_id=request.root)
        )
        while True:
            with server_errors(trees.named):
                page = await trees.client.workflow_service.get_workflow_execution_history_reverse(asked, timeout=SOON)
            for each in page.history.events:  # newest first
                if each.HasField("workflow_task_completed_event_attributes"):
                    return found
                signal = each.workflow_execution_signaled_event_attributes
                if signal.signal_name == "decide":
                    (document,) = await trees.client.data_converter.decode(signal.input.payloads)
                    if document["approval"] == request.approval:
                        found = from_wire(document, DecisionRequest)
            if not page.next_page_token:
                return found
            asked.next_page_token = page.next_page_token

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

    async def _claimed(self, request: DecisionRequest) -> DecisionResult | None:
        """Return the result of a decision on an approval that a workflow of former code has claimed; None if none has,
        or what became of it can be read."""
        with suppress(NotFound):
            described = await self._trees.namespace.describe(decision_id(request.approval))
            claimed = (await described.memo())["decision"]
            with suppress(ServerUnavailable):  # then the claim counts: an approval ends once
                await self._trees.mirror.read(request.root)
            known = self._trees.store.get_approval(request.approval)
            if known is not None and known.status != "pending":
                return None
            if claimed["kind"] in ("expired", "withdrawn"):
                return DecisionResult(kind="closed", approval=request.approval, status=claimed["kind"])
            winner = from_wire(claimed, DecisionRequest)
            return replace(await self._recorded(winner), kind=_kind_of(winner, request))
        return None

    async def _lost(self, request: DecisionRequest, decision: Decision) -> DecisionResult | Approval:
        """Return the result of a decision on an approval that is not pending any more, or that its tree never asked.
        Or the approval, if it was asked so lately that only a worker knows of it."""
        root, approval = request.root, request.approval
        try:
            await self._trees.mirror.read(root)
        except ServerUnavailable as unread:
            known = self._trees.store.get_approval(approval)
            if known is not None and known.status != "pending":  # an approval ends once
                return await lost(self._trees.store, approval, decision)
            described = await self._trees.namespace.describe(root)
            for each in (await described.memo())[MEMO].get("ended", ()):
                if each["id"] == approval:
                    return _result_of(each, request)
            if await self._trees.namespace.why_ended(described) is not None:
                return DecisionResult(kind="closed", approval=approval, status="withdrawn")
            raise unread from None
        found = self._trees.store.get_approval(approval)
        if found is not None and found.status == "pending":
            described = await self._trees.namespace.describe(root)
            if await self._trees.namespace.why_ended(described) is not None:  # not read since
                return DecisionResult(kind="closed", approval=approval, status="withdrawn")
            if await self._trees.is_open(root):
                return found
        return await lost(self._trees.store, approval, decision)


def _mark_of(request: DecisionRequest) -> str:
    return mark_of(request.kind, request.scope, request.pattern, request.value)


def _kind_of(first: DecisionRequest, request: DecisionRequest) -> Any:
    is_same = _mark_of(first) == _mark_of(request) and first.arguments == request.arguments
    is_same = is_same and (first.until, first.minutes) == (request.until, request.minutes)
    return "already" if is_same else "conflict"


def _result_of(ended: Any, request: DecisionRequest) -> DecisionResult:
    """Return the result of a decision that came late, by the memo of the tree (workflow/shown.py)."""
    status, ends = ended["status"], (request.arguments, request.until, request.minutes)
    is_same = ended["same"] == _mark_of(request) and ends == (None, None, None)
    return DecisionResult(
        kind="closed" if status in ("expired", "withdrawn") else "already" if is_same else "conflict",
        approval=request.approval,
        status=status,
        by=ended["by"],
        decided_at=None if ended["at"] is None else datetime.fromisoformat(ended["at"]),
        rule=ended["rule"],
    )
