"""Blocked runs: a run is blocked if today's code of its agent cannot follow its journal (R1, core/blocking.py).

Such an attempt is stopped with the stop reason `blocked`. The append that journals the block checks again that the run
is open and was not cancelled. Then the run leaves memory, without an outcome.

Rules
- A process tries a blocked run once, when it claims the tree, since code does not change within a process. An agent
  that cannot be loaded is tried again (runtime/lifecycle/launch.py), since files may appear.
- Entries for a blocked run are kept, and do not wake it. A cancel ends it without its code.
- The same block is journaled once. An attempt that is blocked again does not count as barren (R5).
- The run is blocked until an attempt has asked for everything in its journal and has gone on from there.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

import anyio
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.blocking import Block, is_known
from supervisor.core.encoding import printable_text
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.state import SessionState
from supervisor.core.values import Approval
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.host import StopReason
from supervisor.runtime.journal.hub import end_key
from supervisor.runtime.journal.signals import Signal
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.system.logs import FactLog

log = FactLog(__name__)

Replayed = Callable[[str, Block | None], object]
"""Is called with a session that was replayed, and its block if it is blocked."""
SETTLED_AFTER_SECONDS: Final = 0.1  # seconds after which an attempt that has asked for everything counts as unblocked

BLOCKING: Final = {e.RunBlocked, *e.having("ends block")}
"""Events after which a run is blocked, or is not any more."""


class Blocked:
    """The blocked runs of the trees that this process owns."""

    def __init__(self, attempts: Attempts, replayed: Replayed | None) -> None:
        """`replayed`: passed if attempts are only replayed. It is called with the result of each."""
        self._attempts = attempts
        self._journal, self._clock = attempts.journal, attempts.clock
        self._replayed = replayed
        self.only_replays = replayed is not None
        """Whether attempts are only replayed: then nothing new begins."""
        self.known: set[str] = set()
        """The sessions that are blocked according to their journals."""
        self.tried: set[str] = set()
        """The blocked sessions that this process has tried and cannot run."""
        self.changed = Signal[str]()
        """A session has become blocked or unblocked."""

    def found(self, session: str) -> None:
        """Record that this session of a newly claimed tree is blocked."""
        self.known.add(session)

    def published(self, row: JournalEntry) -> None:
        """Apply a committed entry of a kind in BLOCKING."""
        session, kind = row.session, type(row.event)
        if kind is not e.RunBlocked:
            self.known.discard(session)
            self.tried.discard(session)
        else:
            self.known.add(session)
            self._attempts.ask(self._tell_those_who_wait, session)
        if kind in (e.RunBlocked, e.RunUnblocked):
            self.changed.send(session)

    def _tell_those_who_wait(self, session: str) -> None:
        """Wake the callers that wait for the end of a blocked session, or of a session above it."""
        while (row := self._journal.store.get_session(session)) is not None:
            self._attempts.hub.publish(end_key(session))
            session = row.parent or ""

    def mark(self, approval: Approval) -> Approval:
        """Return an approval as people see it: marked if its run is blocked."""
        is_blocked = approval.session in self.known
        return approval if is_blocked is approval.blocked else replace(approval, blocked=is_blocked)

    def stands(self, session: str) -> bool:
        """Whether a session is blocked and this process has tried it: it is not launched again."""
        return session in self.known and session in self.tried

    async def settle(self, session: str, block: Block, run: int | None = None) -> None:
        """Journal that a session is blocked, in this run if one is named. Raises StoreError."""

        def plan(view: View) -> list[Entry]:
            state = view.session(session)
            is_meant = state.phase == "open" and run in (None, state.runs)
            return self._events(session, state, block) if is_meant else []

        self.tried.add(session)
        await self._journal.append(plan)
        self._attempts.ask(self._tell_those_who_wait, session)

    async def presume(self, attempt: Attempt, block: Block) -> None:
        """Journal that an attempt is presumed blocked. It stays in memory, and goes on if its code asks for more."""

        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            if attempt.stop_reason is None and attempt.replay.is_replaying and state.phase == "open":
                yield from (event for _, event in self._events(attempt.session, state, block))

        await attempt.append_if_live(plan)

    def note_replayed(self, attempt: Attempt) -> None:
        """Report the result of an attempt that is only replayed: it is blocked, or has followed its journal."""
        if self._replayed is not None and (attempt.block is not None or attempt.replay.has_followed):
            self._replayed(attempt.session, attempt.block)
            attempt.stop(StopReason("suspended", "the run was only replayed"))
            self._attempts.note_change()

    async def fail_to_load(self, session: str, reason: str) -> None:
        """Journal that a session is blocked because its agent cannot be loaded. Raises StoreError."""
        block = Block(why="agent", cause=printable_text(reason))
        if self._replayed is not None:
            self._replayed(session, block)
        else:
            await self.settle(session, block)

    def _events(self, session: str, state: SessionState, block: Block) -> list[Entry]:
        now = self._clock.now()
        if state.blocked is not None and is_known(state.blocked, block):
            return [(session, e.AttemptSettled(at=now))] if state.barren else []
        log.warning("run.blocked", session=session, why=block.why, cause=block.cause, entry=block.entry)
        return [(session, e.RunBlocked(at=now, block=block))]

    def look_for_end(self, attempt: Attempt) -> None:
        """Journal, after SETTLED_AFTER_SECONDS, that a blocked run goes on: its attempt has asked for everything."""
        due = anyio.current_time() + SETTLED_AFTER_SECONDS
        self._attempts.alarm.at(due, lambda: self._attempts.start_soon(self._end, attempt))

    async def _end(self, attempt: Attempt) -> None:
        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            return unblocked(attempt, state, self._clock.now())

        await attempt.append_if_live(plan)


def unblocked(attempt: Attempt, state: SessionState, now: datetime) -> Iterator[e.AnyEvent]:
    """Yield RunUnblocked if the attempt of a blocked run has gone on. One that was just cancelled ends, blocked or
    not."""
    has_gone_on = attempt.stop_reason is None and not attempt.replay.is_replaying
    if state.blocked is not None and state.phase == "open" and has_gone_on:
        yield e.RunUnblocked(at=now)
