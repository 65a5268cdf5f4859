"""Claim trees that no process owns: `resume` does so once, a daemon at its start and as long as it runs (R2).

Rules
- A daemon claims a tree at its own start, when a decision or a message for the tree arrives, and when the tree's owner
  has died or left. It polls for lost owners every LOOK seconds, since the kernel's release of a lock sends no event.
  An owner that lived only between two looks is found by the attempts that it began.
- At its start and after the end of an owner, a daemon claims every open tree, except a silent one. A tree is silent if
  it has no entry of the last two hours (SILENT) and nothing is pending: no approval or question, no timer, no
  decision, message or cancel that the tree has not acted on, and no run without an attempt (R5).
- In the same search, a daemon also claims an ended or idle tree that has a job whose end was not journaled. So does
  `resume`.
- If a tree cannot be claimed or run (a full disk, an agent that cannot be imported), it is tried again every RETRY
  seconds.
- If another process is faster, the tree is left to that process.
- Trees are searched and claimed in steps of at most STEP, so that many of them do not hold the loop. A search does
  not show one instant: each claim checks its tree again, in its own append.
- A tree whose agent only one command can run (supervisor/system/loading.py) is left to that command, unless it was
  cancelled: its end needs no agent.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from supervisor.core import events as e
from supervisor.core.errors import StoreDied, StoreError, StoreUnreadable, TreeOwned, UnknownAgent
from supervisor.core.rows import SessionRow
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.runtime.attempt.jobs import Jobs
from supervisor.runtime.journal.signals import Signal
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.lifecycle.launch import Launcher
from supervisor.system.loading import COMMAND_AGENTS, why_not_here
from supervisor.system.logs import FactLog

log = FactLog(__name__)

SILENT: Final = timedelta(hours=2)
LOOK_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 60.0
STEP: Final = 50
"""The most sessions or trees that are read or claimed between two checkpoints."""


class Claims:
    """Claims trees for this process."""

    def __init__(self, attempts: Attempts, launcher: Launcher, jobs: Jobs) -> None:
        self._attempts = attempts
        self._launcher = launcher
        self._jobs = jobs

    async def take(self, roots: Iterable[str], *, only_one: bool = False) -> list[str]:
        """Claim trees, STEP in one append, and launch their sessions. Return the trees that this process now owns.

        `only_one`: raise TreeOwned if another process owns a tree, and UnknownAgent if only a command can run it,
        rather than leave it out.
        """
        wanted, taken = list(roots), list[str]()
        for start in range(0, len(wanted), STEP):
            taken += await self._take(wanted[start : start + STEP], only_one=only_one)
            await checkpoint()
        return taken

    async def _take(self, wanted: list[str], *, only_one: bool) -> list[str]:
        def plan(view: View) -> tuple[list[Entry], list[str]]:
            taken = []
            for root in wanted:
                try:
                    refuse_of_command(view, root)
                    view.claim(root)
                except (TreeOwned, UnknownAgent):
                    if only_one:
                        raise
                else:
                    taken.append(root)
            return [], taken

        taken = await self._attempts.journal.append_with_answer(plan)
        for root in taken:
            try:
                await self._launcher.recover(root)
            except StoreUnreadable as error:  # the other trees are ours now, and are run all the same
                self._attempts.refuse(root, str(error))
        return taken

    async def find_open(self) -> dict[str, list[SessionRow]]:
        """Return the open sessions of the store, by root."""
        store, after = self._attempts.journal.store, 0
        trees: dict[str, list[SessionRow]] = {}
        while rows := store.find_sessions(is_open=True, after=after, limit=STEP):
            for row in rows:
                trees.setdefault(row.root, []).append(row)
            after = rows[-1].position
            await checkpoint()
        return trees

    async def without_owner(self, roots: Iterable[str]) -> list[str]:
        """Return those of these trees that no process owns."""
        asked, found = list(roots), list[str]()
        for start in range(0, len(asked), STEP):
            some = asked[start : start + STEP]
            owners = self._attempts.journal.store.get_owners(some)
            found += [root for root in some if root not in owners]
            await checkpoint()
        return found

    def find_with_jobs(self) -> list[str]:
        """Return the ended and idle trees that no process owns and that have a job whose end was not journaled."""
        store, found = self._attempts.journal.store, dict[str, None]()
        for session in self._jobs.untold():
            row = store.get_session(session)
            root = store.get_session(row.root) if row is not None else None
            if root is not None and root.outcome is not None and store.get_owner(root.id) is None:
                found[root.id] = None
        return list(found)


def refuse_of_command(view: View, root: str) -> None:
    """Raise UnknownAgent for a tree that only the process of a command can run, unless it was cancelled."""
    row = view.store.get_session(root)
    if row is None or row.agent not in COMMAND_AGENTS:
        return  # decided without reading its journal: a daemon claims many trees at its start
    state = view.session(root)
    if state.cancel is None and (why := why_not_here(state.facts.agent)) is not None:
        raise UnknownAgent(f"session {root} cannot be run here: {why}")


class ClaimLoop:
    """Claims trees without an owner, as long as it runs."""

    def __init__(
        self, attempts: Attempts, claims: Claims, came_for_unowned: Signal[str], began_elsewhere: Signal[str]
    ) -> None:
        self._attempts = attempts
        self._store = attempts.journal.store
        self._claims = claims
        self._wanted: dict[str, None] = {}
        self._news = anyio.Event()
        self._owners: set[str] | None = None
        """The owners that lived when trees were last searched for; None before the first search."""
        self._begun_elsewhere: set[str] = set()
        """The sessions of which attempts have begun in other processes since then."""
        self._retry_at = anyio.current_time() + RETRY_SECONDS
        came_for_unowned.connect(self.want)
        began_elsewhere.connect(self._begun_elsewhere.add)

    def want(self, root: str) -> None:
        """Claim a tree for which an entry came, if no process owns it."""
        self._wanted[root] = None
        self._news.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while not self._attempts.is_closed:
            self._news, wanted, self._wanted, pause = anyio.Event(), self._wanted, {}, LOOK_SECONDS
            try:
                wanted |= dict.fromkeys(await self._find())
                await self._tell(await self._claims.take(wanted) if wanted else [])
            except StoreDied:
                return  # all callers are told, and the daemon ends
            except (StoreError, OSError) as error:  # OSError: from the lock files of other owners
                log.error("trees.not_claimed", reason=str(error))
                self._wanted, pause = wanted | self._wanted, RETRY_SECONDS
            with anyio.move_on_after(pause):
                await self._news.wait()

    async def _tell(self, taken: Iterable[str]) -> None:
        """Log the trees that this process runs from now on."""
        if log.is_heard:
            for root in taken:
                row = self._store.get_session(root)
                log.info("tree.claimed", session=root, agent=None if row is None else row.agent)
                await checkpoint()

    async def _find(self) -> list[str]:
        """Return the trees to claim because their owner has died, and those that could not be run before."""
        found, begun = await self._begun_and_left()
        living = {owner.id for owner in self._store.owners()}
        if self._owners is None or (self._owners | begun) - living:
            found += await self._unowned()
        self._owners = living
        if anyio.current_time() >= self._retry_at:
            self._retry_at = anyio.current_time() + RETRY_SECONDS
            found += self._refused()
        return found

    async def _begun_and_left(self) -> tuple[list[str], set[str]]:
        """Return the trees in which an attempt has begun elsewhere since the last look and that no process owns by now,
        and the owners of the others."""
        begun, owners = sorted(self._begun_elsewhere), set[str]()
        rows = [row for row in map(self._store.get_session, begun) if row is not None and row.outcome is None]
        roots = list(dict.fromkeys(row.root for row in rows))
        for start in range(0, len(roots), STEP):
            owners |= {owner.id for owner in self._store.get_owners(roots[start : start + STEP]).values()}
            await checkpoint()
        unowned = await self._claims.without_owner(roots)
        self._begun_elsewhere.difference_update(begun)
        return unowned, owners

    async def _unowned(self) -> list[str]:
        trees = await self._claims.find_open()
        unowned = await self._claims.without_owner(trees)
        return [root for root in unowned if not await self._is_silent(trees[root])] + self._claims.find_with_jobs()

    def _refused(self) -> list[str]:
        """Return the trees of this process in which a session was refused that should run."""
        store = self._store
        rows = [store.get_session(session) for session in self._attempts.refusals]
        return [row.root for row in rows if row is not None and row.outcome is None and store.owns(row.root)]

    async def _is_silent(self, rows: list[SessionRow]) -> bool:
        """Whether a tree has had no entry for SILENT, and nothing is pending in it."""
        store, since = self._store, self._attempts.clock.now() - SILENT
        if any(
            row.last_at > since or row.due_at is not None or row.blocked is not None or row.waits_for_limit
            for row in rows
        ):
            return False
        if store.find_approvals(root=rows[0].root):
            return False
        try:
            for row in rows:
                await checkpoint()
                journal = [entry.event for entry in store.journal(row.id)]
                if journal[-1].at > since:  # `last_at` of the index is only approximate
                    return False
                if _has_something_to_do(replay_journal(row.id, journal)):
                    return False
        except StoreUnreadable:
            return False  # the claim reports what is wrong with it
        return True


def _has_something_to_do(state: SessionState) -> bool:
    """Whether a session has a decision, a message, a cancel or a timer that it has not acted on, or no attempt yet."""
    is_decided = any(
        record.is_decided and record.started is None and record.result is None for record in state.operations.values()
    )
    has_timer = any(
        isinstance(record.request, e.OperationStarted) and record.is_open for record in state.operations.values()
    )
    return is_decided or has_timer or bool(state.inbox) or state.cancel is not None or not state.attempts
