"""The reads of the runtime. They are synchronous, so that each read is of one instant.

Each asynchronous read of the Supervisor is one checkpoint and then one call of this class. Watches, runs and chat words
use it directly.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from supervisor.core import events as e
from supervisor.core.cursors import make_cursor, read_cursor
from supervisor.core.errors import NotFound, RunBlocked, StoreDied, SupervisorError
from supervisor.core.limits import LimitWait
from supervisor.core.rows import SessionRow
from supervisor.core.values import Approval, as_of
from supervisor.runtime.journal.hub import INBOX_EVENTS
from supervisor.runtime.reading.inputs import Inputs
from supervisor.runtime.reading.sessions import block_of
from supervisor.seam.store import Store

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner

MOST: Final = 100
"""The most approvals that are kept for inboxes that ask for the same."""


class Watching(Protocol):
    """The watch of a journal (streams.py)."""

    def read(self) -> None:
        """Read the rest of the journal, before the store is closed. Raises StoreError."""


class Reader:
    """Reads the store of a runner, and the runner's memory."""

    def __init__(self, runner: "Runner") -> None:
        self._runner = runner
        self.store: Store = runner.journal.store
        self.hub = runner.hub
        self.inputs = Inputs(self.store)
        self.is_left = False
        """Whether the store is about to be closed: nothing can be read from it any more."""
        self.watching: WeakSet[Watching] = WeakSet()
        """The journals that are watched, to be told their end."""
        self._changes: tuple[tuple[int, int], list[tuple[str, int]]] = ((0, 0), [])
        self._newest: tuple[int, dict[str, Approval | None]] = (0, {})

    def now(self) -> str:
        """Return the cursor of now."""
        return self.cursor_of(self.store.last_position())

    def cursor_of(self, position: int) -> str:
        """Return the cursor of a position."""
        return make_cursor(self.store.id, position)

    def position_of(self, cursor: str) -> int:
        """Return the position that a cursor names. Raises InvalidInput, CursorUnknown."""
        return read_cursor(cursor, self.store.id, self.store.last_position())

    # -- sessions ----------------------------------------------------------------------------------------------------

    def get_row(self, session: str) -> SessionRow:
        """Return the index row of a session. Raises NotFound."""
        row = self.store.get_session(session)
        if row is None:
            raise self._no_session(session)
        return row

    def _no_session(self, session: str) -> NotFound:
        return NotFound(f"there is no session {session} in {self.store.name}")

    def root_of(self, session: str) -> str:
        """Return the root of a session's tree, from memory if the session is there. Raises NotFound."""
        live = self._runner.journal.states.get(session)
        return live.facts.root if live is not None else self.get_row(session).root

    def is_below(self, session: str, top: str | None) -> bool:
        """Whether `session` is `top` or somewhere below it."""
        row = self.store.get_session(session)
        while row is not None and row.id != top:
            row = self.store.get_session(row.parent) if row.parent is not None else None
        return row is not None

    def find_created(self, session: str) -> e.SessionCreated | None:
        """Return a session's SessionCreated without reading its whole journal; None if the session does not exist."""
        row = self.store.get_session(session)
        entries = self.store.rows(row.position - 1, row.position) if row is not None else ()
        return next((entry.event for entry in entries if isinstance(entry.event, e.SessionCreated)), None)

    # -- runs --------------------------------------------------------------------------------------------------------

    def latest_run(self, session: str) -> int:
        """Return the number of a session's latest run. Raises NotFound."""
        live = self._runner.journal.states.get(session)
        if live is not None and live.runs:  # a journal of the store itself has none
            return live.runs
        if (found := self.store.latest_run(session)) is None:
            raise self._no_session(session)
        return found[0]

    def open_run_at(self, session: str, number: int) -> int | None:
        """Return a position after which the end of a run will be; None unless memory shows that the run is open."""
        journal = self._runner.journal
        live = journal.states.get(session)
        return journal.position if live is not None and live.runs == number and live.is_open else None

    def check_running(self, session: str | None) -> None:
        """Raise if waiting would be in vain: the store has died, or the session cannot run here."""
        if (death := self._runner.journal.death) is not None:
            raise StoreDied(str(death))
        refusals = self._runner.attempts.refusals
        if session is None or not refusals:
            return
        refused = refusals.get(session) or refusals.get(self.root_of(session))
        if refused is not None:
            raise SupervisorError(f"session {session} is not running: {refused}; nothing is lost: mend that, resume it")

    def check_not_blocked(self, session: str) -> None:
        """Raise RunBlocked if a session or one below it is blocked, and no attempt is trying it here now (R1)."""
        root, blocked = self.root_of(session), self._runner.blocked
        if self.store.owns(root):
            found = [self.get_row(each) for each in sorted(blocked.known & blocked.tried)]
        else:
            found = [row for row in self.store.find_sessions(root=root, is_open=True) if row.blocked is not None]
        for row in found:
            block = block_of(self.store, row) if row.root == root and self.is_below(row.id, session) else None
            if block is not None and not block.is_presumed:
                raise RunBlocked(row.id, block)

    # -- approvals ---------------------------------------------------------------------------------------------------

    def get_approval(self, approval: str) -> Approval:
        """Return an approval in any state. Raises NotFound."""
        found = self.store.get_approval(approval)
        if found is None:
            raise NotFound(f"there is no approval {approval} in {self.store.name}")
        return self.mark(found)

    def changes(self, after: int, to: int) -> list[tuple[str, int]]:
        """Return the approvals whose status changed between two positions, with the position of each change. Inboxes
        that are woken together ask for the same positions, which are read once."""
        if self._changes[0] != (after, to):
            rows = self.store.rows(after, to)
            found = [(e.approval_in(row.event), row.position) for row in rows if type(row.event) in INBOX_EVENTS]
            self._changes = (after, to), [(approval, at) for approval, at in found if approval is not None]
        return self._changes[1]

    def newest(self, approval: str) -> Approval | None:
        """Return an approval as it is now, None if it does not exist. Until this process sees another entry of the
        store, inboxes get the same object."""
        if self._newest[0] != (last := self._runner.journal.position):
            self._newest = last, {}
        known = self._newest[1]
        if approval not in known:
            if len(known) >= MOST:  # an inbox that continues from an old cursor meets many
                known.clear()
            found = self.store.get_approval(approval)
            known[approval] = None if found is None else self.inputs.add_to(found)
        kept = known[approval]
        return None if kept is None else as_of(kept, self.has_passed)

    def complete(self, approval: Approval) -> Approval:
        """Return an approval that was read just now as `newest` would."""
        return as_of(self.inputs.add_to(approval), self.has_passed)

    def mark(self, approval: Approval) -> Approval:
        """Return an approval as people see it now: with the inputs of its sub-agents, and marked if its session is
        blocked."""
        found = as_of(approval, self.has_passed)
        return self._runner.blocked.mark(self.inputs.add_to(found) if len(found.path) > 1 else found)

    def find_waits(self, sessions: Collection[str]) -> Mapping[str, LimitWait]:
        """Return for which limits some sessions wait in this process."""
        return self._runner.limits.find_waits(sessions)

    def has_passed(self, due_at: datetime) -> bool:
        """Return whether an approval with this expiry has expired."""
        return self._runner.clock.has_passed(due_at)
