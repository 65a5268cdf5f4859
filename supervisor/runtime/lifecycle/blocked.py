"""Blocked runs: the code of today cannot follow the journal of a run (R1, core/blocking.py).

An attempt that finds so is stopped with the fate `blocked`. The append that says so checks again that the run is open
and that nobody has cancelled it. Then the run leaves memory, without an outcome.

Rules
- A process tries a blocked run once, when it takes up the tree: code does not change within a process. An agent that
  cannot be loaded is looked for again (runtime/lifecycle/launch.py), since files may appear.
- What arrives for a blocked run is kept, and wakes nothing. A cancel ends it without its code.
- The same block is not journaled twice. An attempt that was blocked again is no barren one (R5).
- The run is blocked until an attempt has asked for all that its journal holds, and has gone on from there.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

import anyio
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.blocking import Block, is_known
from supervisor.core.encoding import printable
from supervisor.core.session import SessionState
from supervisor.core.values import Approval
from supervisor.logs import FactLog
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.host import StopReason
from supervisor.runtime.journal.hub import end_key
from supervisor.runtime.journal.signals import Signal
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts

log = FactLog(__name__)

Replayed = Callable[[str, Block | None], object]
"""Gets a session that was replayed, and why it is blocked, if it is."""
SETTLED_AFTER: Final = 0.1  # seconds in which an attempt that has asked for everything may still be blocked


class Blocked:
    """The blocked runs of the trees that this process owns."""

    def __init__(self, attempts: Attempts, replayed: Replayed | None) -> None:
        """`replayed`: given where attempts are only replayed; then it is called with the result of each."""
        self._attempts = attempts
        self._journal, self._clock = attempts.journal, attempts.clock
        self._replayed = replayed
        self.known: set[str] = set()
        """Sessions that are blocked, by their journals."""
        self.tried: set[str] = set()
        """Those of them that this process has tried, and cannot run."""
        self.changed = Signal[str]()
        """A session has become blocked, or is not any more."""

    def found(self, session: str) -> None:
        """A tree was taken up in which this session is blocked."""
        self.known.add(session)

    def published(self, session: str, event: e.AnyEvent) -> None:
        """Take in what was committed."""
        match event:
            case e.RunBlocked():
                self.known.add(session)
                self._tell_those_who_wait(session)
                self.changed.send(session)
            case e.RunUnblocked():
                self._forget(session)
                self.changed.send(session)
            case e.RunFinished() | e.RunStarted():
                self._forget(session)
            case _:
                pass

    def _tell_those_who_wait(self, session: str) -> None:
        """Wake whoever waits for the end of a session that is blocked, or of one above it."""
        while (row := self._journal.store.get_session(session)) is not None:
            self._attempts.hub.publish(end_key(session))
            session = row.parent or ""

    def _forget(self, session: str) -> None:
        self.known.discard(session)
        self.tried.discard(session)

    def mark(self, approval: Approval) -> Approval:
        """Return an approval as people are to see it."""
        is_blocked = approval.session in self.known
        return approval if is_blocked is approval.blocked else replace(approval, blocked=is_blocked)

    def stands(self, session: str) -> bool:
        """Whether a session is blocked and this process is not trying to run it now."""
        return session in self.known and session in self.tried

    async def settle(self, attempt: Attempt, block: Block) -> None:
        """Append that an attempt is blocked. Raises StoreError."""

        def plan(view: View) -> list[Entry]:
            state = view.session(attempt.session)
            if state.phase != "open" or state.runs != attempt.run:
                return []
            return self._events(attempt.session, state, block)

        self.tried.add(attempt.session)
        await self._journal.append(plan)
        self._tell_those_who_wait(attempt.session)

    async def presume(self, attempt: Attempt, block: Block) -> None:
        """Append that an attempt seems to be blocked; it stays in memory, and goes on if its code asks."""

        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            if attempt.stop_reason is None and attempt.replay.is_replaying and state.phase == "open":
                yield from (event for _, event in self._events(attempt.session, state, block))

        await attempt.append_if_live(plan)

    @property
    def only_replays(self) -> bool:
        """Whether attempts are only replayed: then nothing new begins."""
        return self._replayed is not None

    def note_replayed(self, attempt: Attempt) -> None:
        """Report the result of an attempt that was only to be replayed: it is blocked, or has followed its journal."""
        if self._replayed is not None and (attempt.block is not None or attempt.replay.has_followed):
            self._replayed(attempt.session, attempt.block)
            attempt.stop(StopReason("suspended", "it was only to be replayed"))
            self._attempts.note_change()

    async def fail_to_load(self, session: str, reason: str) -> None:
        """Append that a session's agent cannot be loaded. Raises StoreError."""
        block = Block(why="agent", cause=printable(reason))
        if self._replayed is not None:
            self._replayed(session, block)
            return

        def plan(view: View) -> list[Entry]:
            state = view.session(session)
            return self._events(session, state, block) if state.phase == "open" else []

        self.tried.add(session)
        await self._journal.append(plan)
        self._tell_those_who_wait(session)

    def _events(self, session: str, state: SessionState, block: Block) -> list[Entry]:
        now = self._clock.now()
        if state.blocked is not None and is_known(state.blocked, block):
            return [(session, e.AttemptSettled(at=now))] if state.barren else []
        log.warning("run.blocked", session=session, why=block.why, cause=block.cause, entry=block.entry)
        return [(session, e.RunBlocked(at=now, block=block))]

    def look_for_end(self, attempt: Attempt) -> None:
        """The attempt of a blocked run has asked for everything: soon it is known to go on."""
        due = anyio.current_time() + SETTLED_AFTER
        self._attempts.alarm.at(due, lambda: self._attempts.start_soon(self._end, attempt))

    async def _end(self, attempt: Attempt) -> None:
        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            return unblocked(attempt, state, self._clock.now())

        await attempt.append_if_live(plan)


def unblocked(attempt: Attempt, state: SessionState, now: datetime) -> Iterator[e.AnyEvent]:
    """Yield what says that a blocked run goes on, if it does."""
    if state.blocked is not None and attempt.stop_reason is None and not attempt.replay.is_replaying:
        yield e.RunUnblocked(at=now)
