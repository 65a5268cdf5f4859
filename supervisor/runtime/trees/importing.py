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

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.encoding import printable
from supervisor.core.errors import InvalidInput, SessionConflict
from supervisor.core.ids import check_session_id
from supervisor.core.session import SessionState
from supervisor.core.trees import Origin
from supervisor.handles import SessionImport
from supervisor.loading import locate, refuse_nameless
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.runner import Runner


class LocalImport(SessionImport):
    """An import into the store of a runner. While it is entered, this process owns the session's tree."""

    def __init__(self, runner: Runner, session: str, origin: Origin, agent: AgentSpec[Any, Any] | None) -> None:
        if agent is not None and not agent.takes_text:
            raise InvalidInput(f"agent {agent.name} takes no text, so no message could continue the session")
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
        def plan(view: View) -> list[Entry]:
            count = view.session(self.session).imported
            now = self._runner.clock.now()
            return [(self.session, e.ImportFinished(at=now, messages=count, left_out=left_out))]

        await self._runner.journal.append(plan)

    def _begin(self, view: View) -> list[Entry]:
        if self._agent is not None and view.store.is_durable:
            refuse_nameless(self._agent)
        reference, file = locate(self._agent) if self._agent is not None else ("", None)
        known = view.find_session(self.session)
        if known is not None:
            self._check_same(known, reference)
            if known.phase == "imported":
                view.claim(self.session)
            return []
        view.claim(self.session)
        now, origin = self._runner.clock.now(), self._origin
        created = e.SessionCreated(
            at=now,
            agent=reference,
            file=file,
            path=(self._agent.name if self._agent is not None else "imported",),
            root=self.session,
            requester=printable(self._runner.environment.user()),
            cwd=printable(origin.cwd),
            takes_text=self._agent is not None,
        )
        started = e.ImportStarted(
            at=now,
            format=origin.format,
            source=printable(origin.source),
            file=printable(os.fspath(origin.file)),
            digest=origin.digest,
        )
        return [(self.session, created), (self.session, started)]

    def _check_same(self, known: SessionState, reference: str) -> None:
        session, there = self.session, known.origin
        otherwise = "import under another id with --session ID"
        if there is None:
            raise SessionConflict(f"session {session} exists already and was not imported; {otherwise}")
        if (there.format, there.source) != (self._origin.format, printable(self._origin.source)):
            from_where = f"{there.format} session {there.source}"
            raise SessionConflict(f"session {session} was imported from {from_where}; {otherwise}")
        if there.digest != self._origin.digest:
            raise SessionConflict(
                f"session {session} was imported from an earlier content of this file ({there.file}, "
                f"{there.at:%Y-%m-%d %H:%M:%S} UTC); {otherwise}"
            )
        if known.facts.agent != reference:
            had = f"with agent {known.facts.agent}" if known.facts.agent else "without an agent"
            raise SessionConflict(f"session {session} was imported {had}; {otherwise}")

    def _let_go(self) -> None:
        self._runner.attempts.let_go(self.session)
