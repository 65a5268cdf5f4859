"""A run as the program that started or resumed it sees it: it gives the outcome of this run, even after later turns.

A session may begin its next turn in the same commit in which a run ends. The store's index has the end of the latest
run only. For an earlier run, a handle counts the outcomes in the journal, from its own cursor, and takes the one of its
run. While the run is in memory, its live state shows that it has not ended, and nothing is read.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from supervisor.core import events as e
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import RunError, SupervisorError
from supervisor.core.values import Approval, Outcome, result_of
from supervisor.runtime.clock.patience import endless, patient
from supervisor.runtime.journal.hub import end_key
from supervisor.runtime.lifecycle.runner import Raised
from supervisor.runtime.operations.children import outcome_of
from supervisor.runtime.reading.audience import Audience
from supervisor.runtime.reading.reader import Reader
from supervisor.runtime.reading.streams import PendingApprovals
from supervisor.seam.runs import Run, Watch

R = TypeVar("R")


class LocalRun(Run[R]):
    """Run `number` of a session, counted from 1."""

    def __init__(
        self,
        session: str,
        number: int,
        spec: AgentSpec[Any, R] | None,
        reader: Reader,
        audience: Audience,
        raised: Raised,
        cancel: Callable[..., Awaitable[None]],
        *,
        is_new: bool = False,
    ) -> None:
        self.session = session
        self.is_new = is_new
        self.number = number
        self._reader = reader
        self._audience = audience
        self._raised = raised
        self._cancel = cancel
        self._spec = spec
        self._left = number
        """The number of outcomes that are still to be read, including the run's own."""
        self._cursor = 0
        self._ended: e.RunFinished | None = None

    def __repr__(self) -> str:
        return f"<run {self.number} of {self.session}>"

    @patient
    async def find_outcome(self) -> Outcome[R] | None:
        await anyio.lowlevel.checkpoint()
        return self._read()

    @endless
    async def outcome(self) -> Outcome[R]:
        if (found := self._read_here()) is not None:
            return found
        with self._audience.awaiting(self._reader.root_of(self.session)):
            while True:
                self._reader.check_running(self.session)
                self._reader.check_not_blocked(self.session)
                await self._reader.hub.news(end_key(self.session)).wait()
                if (found := self._read_here()) is not None:
                    return found

    async def result(self) -> R:
        outcome = await self.outcome()
        try:
            return result_of(outcome)
        except RunError as failed:
            raise failed from self._raised.error

    async def cancel(self, reason: str | None = None) -> None:
        await self._cancel(self.session, reason=reason, run=self.number)

    def watch_approvals(self) -> Watch[Approval]:
        self._audience.has_readers = True
        return PendingApprovals(self._reader, self.session, lambda: self._look() is not None)

    def _read_here(self) -> Outcome[R] | None:
        """Return the outcome, None while the run is open. Raises SupervisorError if it cannot be known here."""
        if self._ended is None and self._reader.is_left:
            raise SupervisorError(f"the supervisor was closed; open the store again and resume {self.session}")
        return self._read()

    def _read(self) -> Outcome[R] | None:
        ended = self._look()
        return None if ended is None else outcome_of(ended, self._spec)

    def _look(self) -> e.RunFinished | None:
        """Return the run's own outcome; None while it is open."""
        if (position := self._reader.open_run_at(self.session, self.number)) is not None:
            self._cursor, self._left = position, 1
        elif self._ended is None:
            number, end = self._reader.store.latest_run(self.session) or (0, None)
            if number != self.number:
                self._count_outcomes()
            elif end is not None and isinstance(end.event, e.RunFinished | e.ImportStarted):
                self._ended = _ending(end.event)
        return self._ended

    def _count_outcomes(self) -> None:
        """Read the journal from the cursor until the outcome of this run, which is not the latest."""
        for row in self._reader.store.journal(self.session, self._cursor):
            self._cursor = row.position
            if isinstance(row.event, e.RunFinished | e.ImportStarted):
                self._left -= 1
                if not self._left:
                    self._ended = _ending(row.event)
                    return


def _ending(event: e.RunFinished | e.ImportStarted) -> e.RunFinished:
    """Return the outcome of a run. An import counts as a run that succeeded without a result."""
    if isinstance(event, e.RunFinished):
        return event
    return e.RunFinished(at=event.at, kind="succeeded", cause=event.cause)
