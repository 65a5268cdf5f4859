"""The workflows that claim something by their id, and keep what became of it in their history.

A client reads a history without a worker. So what was signalled counts while no worker lives.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import anyio
from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

from supervisor.core.values import Approval
from supervisor.temporal.wire import BARE_CLAIM, CARD, ONCE, decision_id


@workflow.defn(name=CARD, sandboxed=False)
class CardWorkflow:
    """Claims one card of an approval (client/cards.py), until the card is retired."""

    def __init__(self) -> None:
        self._is_over = False
        self._news: anyio.Event | None = None

    @workflow.signal
    def note(self, document: dict[str, Any]) -> None:
        self._is_over = document["kind"] == "retired"
        if self._news is not None:
            self._news.set()

    @workflow.run
    async def run(self, _: dict[str, Any]) -> None:
        while not self._is_over:
            self._news = anyio.Event()
            await self._news.wait()


@workflow.defn(name=BARE_CLAIM, sandboxed=False)
class BareClaimWorkflow:
    """Claims something by its id alone; its memo says for what. There are five of them:

    - an approval for its expiry, or for its withdrawal, under the id with which a decision would claim it
    - the end of a tree for the workflow that goes on with it (turns.py)
    - a tree that no worker has begun, and whose client was refused: no list shows it (client/trees.py). The cancel that
      goes with it is in the history of the tree only when no worker is at its task.
    - nothing: it tells what code asks for that does not follow the history of a tree (worker/diverged.py)
    """

    @workflow.run
    async def run(self) -> None:
        pass


async def claim_withdrawn(approvals: Sequence[Approval]) -> None:
    """Claim approvals that were withdrawn: a decision that comes later is closed at once, without a worker. If a
    decision was faster, it learns from the tree that it came too late. Call it in a workflow."""

    async def claim(approval: str) -> None:
        with suppress(WorkflowAlreadyStartedError):
            await workflow.start_child_workflow(
                BARE_CLAIM,
                id=decision_id(approval),
                id_reuse_policy=ONCE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                memo={"decision": {"kind": "withdrawn"}},
            )

    with anyio.CancelScope(shield=True):  # the server bounds it (bridge.py)
        async with anyio.create_task_group() as tasks:
            for each in approvals:
                if each.status == "withdrawn":
                    tasks.start_soon(claim, each.id)


CLAIMS: Final = (CardWorkflow, BareClaimWorkflow)
