"""Imports: the session of another program is a workflow that begins with its journal, and ends at once.

The client makes the journal, and starts the workflow when it is complete. So an import that is interrupted leaves
nothing, and the next one begins from the beginning.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from supervisor.core import events as e
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import NotFound, SessionConflict
from supervisor.core.ids import check_session_id, digest_of_value
from supervisor.core.sessions.trees import Origin
from supervisor.runtime.journal.view import Entry
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.plans.imports import check_agent, check_same_import, first_entries
from supervisor.seam.runs import SessionImport
from supervisor.system.loading import locate, refuse_nameless
from supervisor.temporal.client.starting import start_tree, start_with
from supervisor.temporal.client.trees import Trees


class NamespaceImport(SessionImport):
    """An import into a namespace. `runner`: of the mirror; `who`: on whose behalf the session goes on."""

    def __init__(
        self, trees: Trees, runner: Runner, session: str, origin: Origin, agent: AgentSpec[Any, Any] | None, who: str
    ) -> None:
        check_agent(agent)
        if agent is not None:
            refuse_nameless(agent)
        self.session = check_session_id(session)
        self.present = 0
        self.is_finished = False
        self._trees = trees
        self._runner = runner
        self._origin = origin
        self._agent = agent
        self._who = who
        self._messages: list[e.MessageImported] = []

    async def __aenter__(self) -> Self:
        """Find out whether this session was imported. Raises SessionConflict; ServerUnavailable if there is one, and no
        worker answers for it."""
        try:
            await self._trees.namespace.describe(self.session)
        except NotFound:
            return self
        await self._find_finished()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: what was not finished was not begun."""

    @property
    def count(self) -> int:
        return self.present + len(self._messages)

    async def add(self, messages: Sequence[e.MessageImported]) -> None:
        self._messages += messages

    async def finish(self, left_out: int) -> None:
        now = datetime.now(UTC)
        entries: list[Entry] = first_entries(
            self.session, self._origin, self._agent, locate(self._agent), self._who, now
        )
        entries += [(self.session, message) for message in self._messages]
        ended = e.ImportFinished(at=now, messages=len(self._messages), left_out=left_out)
        start = start_with(self._trees, self.session, [*entries, (self.session, ended)], self._who)
        mark = digest_of_value(["import", self._origin.format, self._origin.source, self._origin.digest])
        if not await start_tree(self._trees, start, mark):  # another one was faster
            self._messages = []
            await self._find_finished()

    async def _find_finished(self) -> None:
        """Note what an earlier import has brought. Raises SessionConflict if the session is another one."""
        await self._trees.read(self.session)
        state = self._runner.journal.look().find_session(self.session)
        if state is None:
            raise SessionConflict(f"session {self.session} exists already; import under another id with --session ID")
        check_same_import(state, self._origin, locate(self._agent)[0])
        self.present, self.is_finished = state.imported, True
