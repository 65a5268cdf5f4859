"""The workflows that claim something by their id, and keep what became of it in their history.

A client reads a history without a worker. So what was signalled counts while no worker lives.
"""

from typing import Any, Final

import anyio
from temporalio import workflow

from supervisor.temporal.wire import CARD


@workflow.defn(name=CARD, sandboxed=False)
class CardWorkflow:
    """Claims one card of an approval (cards.py), until the card is retired."""

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


CLAIMS: Final = (CardWorkflow,)
