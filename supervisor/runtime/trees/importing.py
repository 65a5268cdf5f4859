"""Import sessions of other programs as idle sessions: people read them, and a message continues them.

Theory: the calls of an imported session did not run here, and its decisions were not made here. So an import has events
of its own, which belong to no run, operation or audit trail. The session is idle from its first entry on, and a message
begins its first turn as in any other session.

Rules
- The same session of the same file, with the same agent, is imported once. Any other session under its id is a
  conflict, and is left unchanged.
- Messages are imported in batches. An interrupted import continues where it stopped, since the messages are the same
  every time.
- This process owns the tree during the import, so that there is one importer.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from supervisor.core import events as e
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.ids import check_session_id
from supervisor.core.sessions.trees import Origin
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.plans.imports import begin_import, check_agent, end_import
from supervisor.seam.runs import SessionImport
from supervisor.system.loading import locate, refuse_nameless


class LocalImport(SessionImport):
    """An import into the store of a runner. While it is entered, this process owns the session's tree."""

    def __init__(self, runner: Runner, session: str, origin: Origin, agent: AgentSpec[Any, Any] | None) -> None:
        check_agent(agent)
        self.session = check_session_id(session)
        self.present = 0
        self.is_finished = False
        self._runner = runner
        self._origin = origin
        self._agent = agent

    async def __aenter__(self) -> Self:
        """Begin the import, or continue it. Raises SessionConflict, TreeOwned."""
        self._runner.journal.pinned.add(self.session)
        try:
            await self._runner.journal.append(self._begin)
        except BaseException:
            self._let_go()
            raise
        state = self._runner.journal.states[self.session]
        self.present, self.is_finished = state.imported, state.phase != "imported"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    @property
    def count(self) -> int:
        return self._runner.journal.states[self.session].imported

    async def add(self, messages: Sequence[e.MessageImported]) -> None:
        await self._runner.journal.append(lambda view: [(self.session, message) for message in messages])

    async def finish(self, left_out: int) -> None:
        now = self._runner.clock.now
        await self._runner.journal.append(lambda view: end_import(view, self.session, left_out, now()))

    def _begin(self, view: View) -> list[Entry]:
        if self._agent is not None and view.store.is_durable:
            refuse_nameless(self._agent)
        environment, now, where = self._runner.environment, self._runner.clock.now(), locate(self._agent)
        return begin_import(view, self.session, self._origin, self._agent, where, environment.user(), now)

    def _let_go(self) -> None:
        self._runner.attempts.let_go(self.session)
