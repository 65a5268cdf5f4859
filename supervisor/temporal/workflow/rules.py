"""The workflow that keeps the rules of a namespace: its signals add and revoke them.

Rules
- The history of the workflow is the rules (rulebook.py). A signal that comes while a worker is at a task of the
  workflow is in the history a moment later. A change counts when it is there.
- The workflow goes on as a new one after MOST changes, so that its history stays short.
"""

from collections.abc import Mapping
from typing import Any, Final

import anyio
from temporalio import workflow

from supervisor.temporal.rulebook import RuleChange, Standing
from supervisor.temporal.wire import RULES_TYPE, from_wire

MOST: Final = 500


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
