"""Trees that nobody owns are taken up: by `resume` once, by a daemon at its start and for as long as it runs (R2).

Rules
- A daemon takes a tree up when it starts, when a decision or a message arrives for it, and when its owner has died or
  left. It looks for owners that are gone every LOOK seconds: a lock that the kernel has let go sends no event.
- At a start and at an owner's end every open tree is taken up, except one that has been silent for SILENT and in which
  nothing is pending: no approval or question, no timer, no decision, message or cancel not yet acted upon (R5).
- Then, and by `resume`, a tree that has ended, or rests, is taken up, too, if it has a job whose end nobody saw to.
- What could not be taken up or run (a full disk, an agent that could not be imported) is tried again every RETRY
  seconds.
- Whoever was faster has the tree: it is in good hands.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import anyio

from supervisor.abc import SessionRow
from supervisor.core import events as e
from supervisor.core.errors import StoreDied, StoreError, StoreUnreadable, TreeOwned
from supervisor.core.session import SessionState, replay
from supervisor.logs import FactLog
from supervisor.runtime.attempt.jobs import Jobs
from supervisor.runtime.journal.signals import Signal
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.lifecycle.launch import Launcher

log = FactLog(__name__)

SILENT: Final = timedelta(hours=2)
LOOK: Final = 1.0
RETRY: Final = 60.0


class Claims:
    """Takes up trees for this process."""

    def __init__(self, attempts: Attempts, launcher: Launcher, jobs: Jobs) -> None:
        self._attempts = attempts
        self._launcher = launcher
        self._jobs = jobs

    async def take(self, roots: Iterable[str], *, only_one: bool = False) -> list[str]:
        """Own trees in one append and run what can go on in them; returns those that no other process owns.

        `only_one`: raises TreeOwned for a tree that another process owns, rather than leaving it out.
        """
        wanted = list(roots)

        def plan(view: View) -> tuple[list[Entry], list[str]]:
            taken = []
            for root in wanted:
                try:
                    view.claim(root)
                except TreeOwned:
                    if only_one:
                        raise
                else:
                    taken.append(root)
            return [], taken

        taken = await self._attempts.journal.append_with_answer(plan)
        for root in taken:
            try:
                await self._launcher.take_up(root)
            except StoreUnreadable as error:  # no reason to leave the others, which are ours now
                self._attempts.refuse(root, str(error))
        return taken

    def find_with_jobs(self) -> list[str]:
        """Return the trees that have ended, or rest, and that no process owns, though the end of one of their jobs was
        not seen to."""
        store, found = self._attempts.journal.store, dict[str, None]()
        for session in self._jobs.untold():
            row = store.get_session(session)
            root = store.get_session(row.root) if row is not None else None
            if root is not None and root.outcome is not None and store.get_owner(root.id) is None:
                found[root.id] = None
        return list(found)


class Adoption:
    """Takes up, for as long as it runs, what nobody runs."""

    def __init__(self, attempts: Attempts, claims: Claims, came_for_unowned: Signal[str]) -> None:
        self._attempts = attempts
        self._store = attempts.journal.store
        self._claims = claims
        self._wanted: dict[str, None] = {}
        self._news = anyio.Event()
        self._owners: set[str] | None = None
        """Who lived when trees were last looked for; None: nobody has looked yet."""
        self._retry_at = anyio.current_time() + RETRY
        came_for_unowned.connect(self.want)

    def want(self, root: str) -> None:
        """Something came for a tree that this process does not own; if nobody does, it is taken up."""
        self._wanted[root] = None
        self._news.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while not self._attempts.is_closed:
            self._news, wanted, self._wanted, pause = anyio.Event(), self._wanted, {}, LOOK
            try:
                wanted |= dict.fromkeys(self._find())
                for root in await self._claims.take(wanted) if wanted else ():
                    log.debug("tree.adopted", root=root)
            except StoreDied:
                return  # everybody is told, and the daemon ends of it
            except (StoreError, OSError) as error:  # of the files of other owners, too
                log.error("trees.not_adopted", reason=str(error))
                self._wanted, pause = wanted | self._wanted, RETRY
            with anyio.move_on_after(pause):
                await self._news.wait()

    def _find(self) -> list[str]:
        """Return what is to be taken up because somebody has died, or because it could not be run before."""
        found, living = list[str](), {owner.id for owner in self._store.owners()}
        if self._owners is None or self._owners - living:
            found += self._unowned()
        self._owners = living
        if anyio.current_time() >= self._retry_at:
            self._retry_at = anyio.current_time() + RETRY
            found += self._refused()
        return found

    def _unowned(self) -> list[str]:
        store, trees = self._store, dict[str, list[SessionRow]]()
        for row in store.find_sessions(is_open=True):
            trees.setdefault(row.root, []).append(row)
        unowned = [root for root, rows in trees.items() if store.get_owner(root) is None and not self._is_silent(rows)]
        return unowned + self._claims.find_with_jobs()

    def _refused(self) -> list[str]:
        """Trees of ours in which something is not running that should."""
        store = self._store
        rows = [store.get_session(session) for session in self._attempts.refusals]
        return [row.root for row in rows if row is not None and row.outcome is None and store.owns(row.root)]

    def _is_silent(self, rows: list[SessionRow]) -> bool:
        """Whether nothing has happened in a tree for long, and nothing is left to be acted upon."""
        store, since = self._store, self._attempts.clock.now() - SILENT
        if any(row.last_at > since or row.due_at is not None or row.blocked is not None for row in rows):
            return False
        if store.find_approvals(root=rows[0].root):
            return False
        try:
            journals = {row.id: [entry.event for entry in store.journal(row.id)] for row in rows}
            states = [replay(session, journal) for session, journal in journals.items()]
        except StoreUnreadable:
            return False  # taking it up says what is wrong with it
        if any(journal[-1].at > since for journal in journals.values()):  # the index knows it only roughly
            return False
        return not any(_has_something_to_do(state) for state in states)


def _has_something_to_do(state: SessionState) -> bool:
    """Whether a decision, a message, a cancel or a timer has not been acted upon."""
    is_decided = any(
        record.decision is not None and record.started is None and record.result is None
        for record in state.operations.values()
    )
    has_timer = any(
        isinstance(record.request, e.OperationStarted) and record.is_open for record in state.operations.values()
    )
    return is_decided or has_timer or bool(state.inbox) or state.cancel is not None
