"""Claim trees that no process owns: `resume` does so once, a daemon at its start and as long as it runs (R2).

Rules
- A daemon claims a tree at its own start, when a decision or a message for the tree arrives, and when the tree's owner
  has died or left. It polls for lost owners every LOOK seconds, since the death of a process sends no event.
  An owner that lived only between two looks is found by the attempts that it began.
- At its start and after the end of an owner, a daemon claims every open tree, except a silent one. A tree is silent if
  it has no entry of the last two hours (SILENT) and nothing is pending: no approval or question, no timer, no
  decision, message, cancel or raised budget that the tree has not acted on, and no run without an attempt (R5).
- In the same search, a daemon also claims an ended or idle tree that has a job whose end was not journaled. So does
  `resume`.
- If a tree cannot be claimed or run (a full disk, an agent that cannot be imported), it is tried again every RETRY
  seconds.
- If another process is faster, the tree is left to that process. Where machines share a store, a daemon takes a part of
  the trees at a time, in an order of its own, and all daemons look at the same instants: so each gets its share.
- Trees are searched and claimed in steps of at most STEP, so that many of them do not hold the loop. A search does
  not show one instant: each claim checks its tree again, in its own append.
- A tree whose agent only one command can run (supervisor/system/loading.py) is left to that command, unless it was
  cancelled: its end needs no agent.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from supervisor.core import events as e
from supervisor.core.budgets import is_aside
from supervisor.core.errors import StoreDied, StoreError, StoreUnreadable, TreeOwned, UnknownAgent
from supervisor.core.rows import JournalEntry, RunnableSession
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.runtime.attempt.jobs import Jobs
from supervisor.runtime.journal.pages import pages_of, parts_of
from supervisor.runtime.journal.signals import Signal
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.lifecycle.launch import Launcher
from supervisor.seam.store import Store, StoreAway
from supervisor.system.loading import COMMAND_AGENTS, why_not_here
from supervisor.system.logs import FactLog

log = FactLog(__name__)

SILENT: Final = timedelta(hours=2)
LOOK_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 60.0
PART: Final = 4
"""One of so many trees is taken at a time, where machines share a store."""
FEW: Final = 4
"""So many trees are taken at once, since they are not worth a pause."""
MANY: Final = 1000
"""More trees than these need no pause between two parts: other daemons come between the steps."""
SHARE_SECONDS: Final = 0.1
"""The pause after a part."""
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
        for some in parts_of(wanted, STEP):
            taken += await self._take(some, only_one=only_one)
            await checkpoint()
        return taken

    async def _take(self, wanted: Sequence[str], *, only_one: bool) -> list[str]:
        taken, rows = list[str](), list[Sequence[RunnableSession] | None]()

        def plan(view: View) -> list[Entry]:
            rows[:] = [_find_open_in(view.store, wanted)]
            agents = {row.id: row.agent for row in rows[0] or ()}
            ended = [root for root in wanted if root not in agents]
            agents |= {row.id: row.agent for row in view.store.get_sessions(ended)}
            why = {root: _why_only_a_command(view, root, agents.get(root)) for root in wanted}
            here = [root for root in wanted if why[root] is None]
            others = view.claim_all(here)
            if only_one:
                for root in wanted:
                    if (reason := why[root]) is not None:
                        raise UnknownAgent(reason)
                    if (owner := others.get(root)) is not None:
                        raise TreeOwned(root, str(owner))
            taken[:] = [root for root in here if root not in others]
            return []

        try:
            await self._attempts.journal.append(plan)
        finally:  # a native cancellation may come with the commit
            self.run([root for root in taken if self._attempts.journal.store.owns(root)], *rows)
        return taken

    def run(self, taken: Sequence[str], rows: Sequence[RunnableSession] | None = None) -> None:
        """Run trees that this process has just claimed: they are ours, whether the store answers now. `rows`: the open
        sessions of these trees, and perhaps of others, as they were when the trees were claimed."""
        roots = {*taken}
        known = [] if rows is None else [[row for row in rows if row.root in roots]]
        self._attempts.ask(self._run, taken, known)

    def _run(self, taken: Sequence[str], known: list[list[RunnableSession]]) -> None:
        """`known`: for the first try alone. They may be others when a store that was away is back."""
        try:
            self._launcher.recover(*taken, rows=known.pop() if known else None)
        except StoreUnreadable:
            self._run_each(taken)

    def _run_each(self, taken: Iterable[str]) -> None:
        for root in taken:
            try:
                self._launcher.recover(root)
            except StoreUnreadable as error:  # the other trees are ours now, and are run all the same
                self._attempts.refuse(root, str(error))

    async def find_open(self) -> dict[str, list[RunnableSession]]:
        """Return the open sessions of the store, by root."""
        trees: dict[str, list[RunnableSession]] = {}
        for rows in pages_of(self._attempts.journal.store.find_open, STEP):
            for row in rows:
                trees.setdefault(row.root, []).append(row)
            await checkpoint()
        return trees

    async def without_owner(self, roots: Iterable[str]) -> list[str]:
        """Return those of these trees that no process owns."""
        found = list[str]()
        for some in parts_of(list(roots), STEP):
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
    if (why := _why_only_a_command(view, root, None if row is None else row.agent)) is not None:
        raise UnknownAgent(why)


def _why_only_a_command(view: View, root: str, agent: str | None) -> str | None:
    if agent not in COMMAND_AGENTS:
        return None  # decided without reading its journal: a daemon claims many trees at its start
    state = view.find_readable(root)  # what a newer program has written is told when the tree is run
    if state is not None and state.cancel is None and (why := why_not_here(state.facts.agent)) is not None:
        return f"session {root} cannot be run here: {why}"
    return None


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
                pause = self._until_next_look()
                wanted |= dict.fromkeys(await self._find())
                part, later = self._share(wanted)
                await self._tell(await self._claims.take(part) if part else [])
                self._wanted = {**later, **self._wanted}
                if later:
                    pause = 0.0 if len(later) > MANY else SHARE_SECONDS
            except StoreDied:
                return  # all callers are told, and the daemon ends
            except StoreAway as away:
                log.warning("trees.not_claimed", reason=str(away))
                self._owners = None  # what this look has missed, the next one finds
                self._wanted = wanted | self._wanted
            except (StoreError, OSError) as error:  # OSError: from the lock files of other owners
                log.error("trees.not_claimed", reason=str(error))
                self._wanted, pause = wanted | self._wanted, RETRY_SECONDS
            with anyio.move_on_after(pause):
                await self._news.wait()

    def _until_next_look(self) -> float:
        if not self._store.is_shared:
            return LOOK_SECONDS
        return LOOK_SECONDS - self._attempts.clock.now().timestamp() % LOOK_SECONDS

    def _share(self, wanted: dict[str, None]) -> tuple[list[str], dict[str, None]]:
        """Return the trees to take now, and the others."""
        if not self._store.is_shared or len(wanted) <= FEW:
            return list(wanted), {}
        roots = sorted(wanted, key=hash)  # each process hashes texts in its own way
        size = max(FEW, len(roots) // PART)
        return roots[:size], dict.fromkeys(roots[size:])

    async def _tell(self, taken: list[str]) -> None:
        """Log the trees that this process runs from now on."""
        for some in parts_of(taken if log.is_heard else [], STEP):
            for row in self._store.get_sessions(some):
                log.info("tree.claimed", session=row.id, agent=row.agent)
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
        roots = list(dict.fromkeys(row.root for row in self._store.get_sessions(begun) if row.outcome is None))
        for some in parts_of(roots, STEP):
            owners |= {owner.id for owner in self._store.get_owners(some).values()}
            await checkpoint()
        unowned = await self._claims.without_owner(roots)
        self._begun_elsewhere.difference_update(begun)
        return unowned, owners

    async def _unowned(self) -> list[str]:
        trees = await self._claims.find_open()
        unowned = await self._claims.without_owner(trees)
        since = self._attempts.clock.now() - SILENT
        old = [root for root in unowned if _is_old(trees[root], since)]
        asking = set[str]()
        for some in parts_of(old, STEP):
            asking |= self._asking(some)
            await checkpoint()
        silent = {root for root in old if root not in asking and await self._is_silent(trees[root])}
        return [root for root in unowned if root not in silent] + self._claims.find_with_jobs()

    def _asking(self, roots: Sequence[str]) -> set[str]:
        """Return those of these trees in which an approval is pending."""
        found = set[str]()
        while roots and (page := self._store.find_asked_in(roots, 0, STEP)):
            found |= {approval.root_session for approval in page}
            roots = roots[roots.index(page[-1].root_session) + 1 :]
        return found

    def _refused(self) -> list[str]:
        """Return the trees of this process in which a session was refused that should run."""
        store = self._store
        rows = [store.get_session(session) for session in self._attempts.refusals]
        return [row.root for row in rows if row is not None and row.outcome is None and store.owns(row.root)]

    async def _is_silent(self, rows: list[RunnableSession]) -> bool:
        """Whether an old tree that asks for nothing has had no entry for SILENT, and nothing to act on."""
        store, since = self._store, self._attempts.clock.now() - SILENT
        last: JournalEntry | None = None
        try:
            for row in rows:
                await checkpoint()
                if not (journal := store.journal(row.id)):
                    continue  # it has ended, and was pruned, since it was listed
                if journal[-1].event.at > since:  # `last_at` of the index is only approximate
                    return False
                if _has_something_to_do(replay_journal(row.id, [entry.event for entry in journal])):
                    return False
                last = max(last or journal[-1], journal[-1], key=attrgetter("position"))
        except StoreUnreadable:
            return False  # the claim reports what is wrong with it
        return last is None or not _ends_a_wait(last.event)


def _ends_a_wait(event: e.AnyEvent) -> bool:
    """Whether an event raises a budget, or lets what waited for one go on."""
    is_answer = isinstance(event, e.ToolCallFinished) and is_aside(event.operation)
    return is_answer or isinstance(event, e.BudgetRaised | e.BudgetAnswered)


def _has_something_to_do(state: SessionState) -> bool:
    """Whether a session has a decision, a message, a cancel or a timer that it has not acted on, or no attempt yet."""
    is_decided = any(
        record.is_decided and record.started is None and record.result is None for record in state.operations.values()
    )
    has_timer = any(
        isinstance(record.request, e.OperationStarted) and record.is_open for record in state.operations.values()
    )
    return is_decided or has_timer or bool(state.inbox) or state.cancel is not None or not state.attempts


def _find_open_in(store: Store, roots: Sequence[str]) -> Sequence[RunnableSession] | None:
    """Return the open sessions of trees; None if one of them is unreadable, which is told when it is to run."""
    try:
        return store.find_open_in(roots)
    except StoreUnreadable:
        return None


def _is_old(rows: list[RunnableSession], since: datetime) -> bool:
    """Whether the index knows of no entry of a tree since an instant, and of nothing that is pending in it."""
    return not any(
        row.last_at > since
        or row.due_at is not None
        or row.blocked is not None
        or row.waits_for_limit
        or row.waits_for_budget
        for row in rows
    )
