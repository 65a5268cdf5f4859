"""The environment of an ordinary process, with traces: spans enclose its attempts and bodies."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from supervisor.core.rows import JournalEntry
from supervisor.runtime.environment import Body, Environment
from supervisor.seam.store import Store
from supervisor.traces.spans import Spans, context_of


class TracedEnvironment(Environment):
    """`hear` takes the entries of every commit of the store. `contents`: write inputs, arguments and results, too."""

    def __init__(self, store: Store, *, contents: bool) -> None:
        super().__init__()
        self._spans = Spans(store, contents, self.clock.now)

    def hear(self, entries: Iterable[JournalEntry]) -> None:
        self._spans.hear(entries)

    def begin_trace(self, agent: str) -> str | None:
        return self._spans.begin_trace(agent, None)

    def continue_trace(self, agent: str, above: str | None) -> str | None:
        return None if above is None else self._spans.begin_trace(agent, context_of(above)) or above

    def attempting(self, session: str, why_left: Callable[[], str | None]) -> AbstractContextManager[None]:
        return self._spans.attempting(session, why_left)

    async def run_body(self, body: Body) -> Any:
        with self._spans.body(body):
            return await super().run_body(body)
