"""How a tree leaves its workflow and goes on in a new one, with its journal, as after a graceful stop of a process.

Rules
- A workflow with many events, or large ones, is left when all runs wait. If they never do, nothing new begins until no
  body runs any more.
- So is that of a tree that is rescued from code that has changed: it parks in the new workflow until the workers have
  the new code.
- A tree whose journal is too large to be carried stays, and tries again after as many events. Before the server would
  end its workflow, which leaves nothing, its runs end as abandoned, and say what to do.
- A tree that ends leaves the same, next to its outcome, for a later workflow (turns.py).
"""

from typing import Any, Final

import anyio
import msgspec
from temporalio import workflow

from supervisor.core.encoding import to_json
from supervisor.core.errors import LimitExceeded
from supervisor.core.values import Outcome
from supervisor.runtime.attempt.host import StopReason
from supervisor.system.logs import FactLog
from supervisor.temporal.carry import pack
from supervisor.temporal.wire import (
    CARRIED_LARGEST_BYTES,
    ENDED_LARGEST_BYTES,
    LARGEST_BYTES,
    Carried,
    Rescue,
    Start,
    to_wire,
)
from supervisor.temporal.workflow.commands import Commands
from supervisor.temporal.workflow.hosting import TreeRunner
from supervisor.temporal.workflow.journal import TreeStore

log = FactLog(__name__)

UNWIND_SECONDS: Final = 5.0
"""Seconds for which agents may unwind before a tree moves to a new workflow."""
TOO_LARGE: Final = (
    "its journal is too large to go on in a new workflow: let the agent save its state (ctx.save), or name a folder "
    "for large payloads for the client that starts sessions (SUPERVISOR_TEMPORAL_PAYLOADS)"
)
MOST_SHARES: Final = 8, 5
"""How many times the events, and the bytes, after which a tree moves, one may have that cannot: 40,000 of the 51,200
events that a server allows, and 40 of its 50 MiB."""


class Move:
    """Whether a tree goes on in a new workflow, and what it takes along."""

    def __init__(self, start: Start, store: TreeStore, runner: TreeRunner, commands: Commands) -> None:
        self._start = start
        self._store = store
        self._runner = runner
        self._commands = commands
        self.is_parked = start.carried is not None and start.carried.is_parked
        """Whether the tree waits until a command says that the workers have the new code."""
        self.rescue: Rescue | None = None
        """How a rescue wants the tree to go on in a new workflow."""
        self._fits = False
        """Whether the journal was found small enough to be carried."""
        self._counted_from = 0, 0
        """The events and the bytes of the history when the journal was found too large."""

    @property
    def next_version(self) -> workflow.ContinueAsNewVersioningBehavior | None:
        """With which version of the workers the next workflow begins; None: with the one of this workflow."""
        return workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE if self.rescue == "upgrade" else None

    def ask_for(self, rescue: Rescue) -> None:
        """Move as soon as nothing of the tree runs. Raises LimitExceeded if its journal is too large."""
        self.rescue = rescue
        if not self._can_be_carried():
            self.rescue = None
            raise LimitExceeded(TOO_LARGE)

    def is_due(self) -> bool:
        """Whether the tree is to go on in a new workflow, and can. It moves when all runs wait. If they never do,
        nothing new begins until no body runs any more."""
        info, attempts, start = workflow.info(), self._runner.attempts, self._start
        events, size = info.get_current_history_length(), info.get_current_history_size()
        before_events, before_size = self._counted_from
        share = max((events - before_events) / start.continue_after, (size - before_size) / start.continue_after_bytes)
        if self.is_parked or (self.rescue is None and share < 1):
            return False
        if not self._fits and not self._can_be_carried():
            self._stay()
            self._end_before_server_does()
            return False
        if self.rescue is not None or share >= 2:
            attempts.is_draining = True
            bodies = self._runner.environment.bodies
            executing = self._runner.calls_under_way - bodies.paused_calls
            return not bodies.running and executing <= 0 and not attempts.preparing
        return not attempts.preparing and all(each.is_quiet for each in attempts.live.values())

    async def stop_runs(self) -> bool:
        """Stop all runs so that they can be resumed. Return whether the tree moves: its journal may have grown since it
        was measured."""
        if not self._can_be_carried():
            self._stay()
            self._end_before_server_does()
            return False
        attempts = self._runner.attempts
        attempts.is_draining = True
        attempts.suspend_all("the tree goes on in a new workflow")
        with anyio.move_on_after(UNWIND_SECONDS):
            await attempts.wait_until(lambda: not attempts.has_tasks)
        return True

    def following(self) -> Start:
        """Return the Start of the workflow in which the tree goes on."""
        is_whole = self.rescue is not None
        following = self._following(self._pack(is_whole=is_whole), is_whole=is_whole)
        return msgspec.structs.replace(following, rules=self._runner.environment.rules.to_carry())

    def left(self, outcome: Outcome[Any], size: int) -> Any:
        """Return what a later workflow goes on with, after the end: all of the journal, so that transcripts and retries
        have it. A turn can do with less. `size`: that of the outcome, which goes with it."""
        journal, is_whole = self._pack(is_whole=True), True
        if not _fits(journal, self._start) and outcome.kind in ("succeeded", "cancelled"):
            journal, is_whole = self._pack(is_whole=False), False
        left = to_wire(self._following(journal, is_whole=is_whole))
        is_small = self._start.largest > LARGEST_BYTES or size + len(to_json(left, "a journal")) <= ENDED_LARGEST_BYTES
        if not _fits(journal, self._start) or not is_small:
            log.warning("tree.left_nothing", session=self._start.session, reason=TOO_LARGE)
            return None
        return left

    def _pack(self, *, is_whole: bool) -> str:
        return pack(self._store, is_whole=is_whole, counts_calls=self._runner.budgets.counts_calls)

    def _following(self, journal: str, *, is_whole: bool) -> Start:
        """Return the Start of a workflow that goes on after this one. `is_whole`: whether the journal has all that this
        workflow has had."""
        start = self._start
        is_whole = is_whole and (start.carried is None or start.carried.is_whole)
        carried = Carried(
            journal=journal,
            last=self._store.last_position(),
            not_begun=[*self._runner.environment.bodies.paused],
            earlier=workflow.info().run_id if self.rescue is None and not is_whole else None,
            is_whole=is_whole,
            answers=self._commands.answers,
            is_parked=self.rescue == "park",
            commands=self._commands.documents(),
            chain=workflow.info().first_execution_run_id,
        )
        return msgspec.structs.replace(
            start, given=msgspec.UNSET, has_marks=True, has_signals=True, rules=None, carried=carried
        )

    def _can_be_carried(self) -> bool:
        self._fits = _fits(self._pack(is_whole=self.rescue is not None), self._start)
        return self._fits

    def _stay(self) -> None:
        """Go on in this workflow, and try again after as many events."""
        info, attempts = workflow.info(), self._runner.attempts
        self._counted_from = events, size = info.get_current_history_length(), info.get_current_history_size()
        log.error("tree.not_moved", session=self._start.session, events=events, bytes=size, reason=TOO_LARGE)
        self.rescue = None
        if attempts.is_draining:
            attempts.is_draining = False
            attempts.note_change()
            for each in attempts.live.values():
                each.wake(None)

    def _end_before_server_does(self) -> None:
        """End all runs of a tree that can stay no longer. A history in which former code let it stay has no mark."""
        info, start = workflow.info(), self._start
        events, size = info.get_current_history_length(), info.get_current_history_size()
        most_events, most_bytes = MOST_SHARES
        share = max(events / (most_events * start.continue_after), size / (most_bytes * start.continue_after_bytes))
        if share >= 1 and workflow.patched(f"full at {events}"):
            for each in [*self._runner.attempts.live.values()]:
                each.stop(StopReason("abandoned", TOO_LARGE))


def _fits(journal: str, start: Start) -> bool:
    return start.largest > LARGEST_BYTES or len(journal) <= CARRIED_LARGEST_BYTES
