"""A scripted approver: it decides what agents ask, as people would, by a table or by a function."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from supervisor.core.errors import only_error
from supervisor.core.values import Answer, Approval, Approve, Decision, Deny
from supervisor.seam.supervisor import Supervisor


@asynccontextmanager
async def scripted_approver(
    supervisor: Supervisor,
    script: Mapping[str, Any] | Callable[[Approval], Decision | None],
    *,
    by: str = "scripted approver",
    after: float = 0.0,
) -> AsyncIterator[list[Approval]]:
    """Decide approvals and answer questions until the block is left. Gives the list of those that it has decided.

    `script`: a function that returns a decision, or None to let an approval wait. Or a table: "approve", "deny" or a
    Decision for the name of a tool, and an answer or a Decision for the text of a question.
    `by`: the person in whose name a table decides. `after`: the seconds that each approval waits, also virtual ones.
    Raises AssertionError for an approval that a table does not name, and what `decide` raises. It raises an error of
    the block as it is, not in a group.
    """
    decided: list[Approval] = []

    async def decide_each() -> None:
        async with supervisor.watch_approvals() as approvals, anyio.create_task_group() as waiting:
            async for approval in approvals:
                waiting.start_soon(decide_one, approval)

    async def decide_one(approval: Approval) -> None:
        await anyio.sleep(after)
        decision = script(approval) if callable(script) else _look_up(script, approval, by)
        if decision is not None and (await supervisor.decide(approval.id, decision)).is_accepted:
            decided.append(approval)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(decide_each)
            yield decided
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise only_error(group) from None


def _look_up(script: Mapping[str, Any], approval: Approval, by: str) -> Decision:
    asked = approval.question if approval.question is not None else approval.tool
    if asked not in script:
        known = ", ".join(map(repr, script)) or "nothing"
        raise AssertionError(f"the script has no reply to {asked!r}, only to {known}: add one")
    reply = script[asked]
    if isinstance(reply, Approve | Deny | Answer):
        return reply
    if approval.kind == "question":
        return Answer(value=reply, by=by)
    if reply == "approve":
        return Approve(by=by)
    if reply == "deny":
        return Deny(by=by)
    raise AssertionError(f"the script's reply to {asked!r} is {reply!r}: write 'approve', 'deny', or a Decision")
