"""Prune: remove trees that have ended, each in one transaction, and say why the others are kept.

Rules
- A tree is removed as a whole. After a crash the store holds whole trees only.
- A tree may be removed if all its sessions have ended, no process owns it, it has no background job without a journaled
  end and no message without a run, and it has no entry since an instant that the caller names. Its last entry counts
  for that, not the index.
- All these conditions are checked again inside the transaction that removes the tree. So the search for trees need not
  be of one instant: it stops after every STEP sessions, and after each tree.
- The rules of a tree end with it, in the same append: no later session with its id has them. Other rules stay, and so
  do the ids of what triggers have begun (plans/deliveries.py).
- Logs of background jobs are removed after the commit that removed their session. So are logs that an earlier prune
  left, because it was killed in between.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from supervisor.core.errors import StoreError, StoreUnreadable
from supervisor.core.rows import SessionRow
from supervisor.core.sessions.state import replay_journal
from supervisor.core.sessions.trees import KeptTree, PrunableTree, PruneResult
from supervisor.runtime.journal.pages import pages_of
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.rules import rules_pruned
from supervisor.seam.store import Store
from supervisor.system.threads import in_thread

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner

STEP: Final = 100
"""The most sessions that are read between two checkpoints."""


class Pruning:
    """Finds and removes trees that have been silent since `before`. `only`: the roots to look at; None: every one."""

    def __init__(self, runner: "Runner", before: datetime, only: Collection[str] | None = None) -> None:
        self._runner = runner
        self._store = runner.journal.store
        self._before = before
        self._only = only

    async def find(self) -> PruneResult:
        """Return the trees that `remove` would remove now, and those that it would keep."""
        judged = list[PrunableTree | KeptTree]()
        for root, rows in (await self._trees()).items():
            await checkpoint()
            judged.append(self._judge(self._store, root, rows))
        result = _sorted(judged)
        found = {tree.session for tree in result.trees}
        logs, size = self._runner.jobs.clear_logs(
            lambda session: self._root_of(session) in {None, *found}, dry_run=True
        )
        return replace(result, logs=logs, log_bytes=size)

    async def remove(self) -> PruneResult:
        """Remove the trees that may be removed, one by one, and the logs of jobs whose sessions are gone."""
        roots = await self._trees() if self._only is None else self._only
        result = _sorted([await self._remove(root) for root in roots])
        await self._runner.journal.append(self._end_rules)
        logs, size = self._runner.jobs.clear_logs(lambda session: self._root_of(session) is None, dry_run=False)
        return replace(result, logs=logs, log_bytes=size, compact_error=await self._compact())

    async def _remove(self, root: str) -> PrunableTree | KeptTree:
        def plan(view: View) -> tuple[list[Entry], PrunableTree | KeptTree]:
            rows = view.store.find_sessions(root=root)
            found = self._judge(view.store, root, rows)
            names = {row.id for row in rows}
            if isinstance(found, PrunableTree) and any(row.session in names for row in view.rows):
                found = KeptTree(session=root, reason="was written to just now")
            if not isinstance(found, PrunableTree):
                return [], found
            from supervisor.runtime.plans.deliveries import delivery_pruned  # most programs prune nothing

            now = self._runner.clock.now()
            kept = [*delivery_pruned(view, root, now), *rules_pruned(view, lambda session: session == root, now)]
            view.remove(root)
            return kept, found

        return await self._runner.journal.append_with_answer(plan)

    def _end_rules(self, view: View) -> Iterator[Entry]:
        """Yield what ends the rules of trees that a former version has removed."""
        return rules_pruned(view, lambda root: view.store.get_session(root) is None, self._runner.clock.now())

    async def _compact(self) -> str | None:
        """Give free space back to the disk. Return why that failed; None if it succeeded."""
        try:
            if self._store.is_durable:
                await in_thread(self._store.compact)
        except StoreError as error:
            return str(error)
        return None

    async def _trees(self) -> dict[str, list[SessionRow]]:
        """Return the sessions of the trees to look at, by root."""
        trees: dict[str, list[SessionRow]] = {}
        for rows in pages_of(self._store.find_sessions, STEP):
            for row in rows:
                if self._only is None or row.root in self._only:
                    trees.setdefault(row.root, []).append(row)
            await checkpoint()
        return trees

    def _root_of(self, session: str) -> str | None:
        row = self._store.get_session(session)
        return None if row is None else row.root

    def _judge(self, store: Store, root: str, rows: list[SessionRow]) -> PrunableTree | KeptTree:
        """Return whether a tree may be removed, and the reason if not, from one read of the store."""
        reason = next(self._reasons(store, root, rows), None) if rows else "is gone already"
        if reason is not None:
            return KeptTree(session=root, reason=reason)
        entries, size = store.measure(root)
        last_at = max(row.last_at for row in rows)
        return PrunableTree(
            session=root, agent=rows[0].agent, last_at=last_at, sessions=len(rows), entries=entries, bytes=size
        )

    def _reasons(self, store: Store, root: str, rows: list[SessionRow]) -> Iterator[str]:
        """Yield the reasons to keep a tree, the cheapest checks first."""
        if any(row.outcome is None for row in rows):
            yield "has not ended"
        if any(row.last_at >= self._before for row in rows):
            yield "is younger"
        if (owner := store.get_owner(root)) is not None:
            yield f"is held by {owner}"
        if any(row.id in self._runner.journal.pinned for row in rows):
            yield "is in use here"
        yield from filter(None, (self._reason_in(store, row.id) for row in rows))

    def _reason_in(self, store: Store, session: str) -> str | None:
        """Return the reason to keep a tree that the journal of one of its sessions gives."""
        try:
            if not (journal := store.journal(session)):
                return "is gone already"  # a search is not of one instant
            state = replay_journal(session, [entry.event for entry in journal])
        except StoreUnreadable:
            return "cannot be read"
        if journal[-1].event.at >= self._before:
            return "is younger"
        if state.inbox:
            return "has a message that no run has received"
        is_at_work = any(job.ended is None for job in state.jobs.values())
        return "has a background job whose end is not journaled; resume it" if is_at_work else None


def _sorted(judged: Iterable[PrunableTree | KeptTree]) -> PruneResult:
    trees, kept = list[PrunableTree](), list[KeptTree]()
    for tree in judged:
        if isinstance(tree, PrunableTree):
            trees.append(tree)
        else:
            kept.append(tree)
    return PruneResult(trees=trees, kept=kept)
