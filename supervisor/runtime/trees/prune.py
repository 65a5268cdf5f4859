"""Trees that are over are removed: which ones, why others are kept, and one transaction for each.

Rules
- A whole tree or nothing of it; a crash leaves whole trees only.
- Only one that has ended to its last session, that nobody owns, in which no background job and no message is still to
  be seen to, and that was silent since an instant that the caller names, by its last entry and not by the index.
- All of that is looked at again inside the transaction that removes it.
- Rules that decisions made are in a journal of their own, and stay.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from supervisor.abc import SessionRow, Store
from supervisor.core.errors import StoreUnreadable
from supervisor.core.session import replay
from supervisor.runtime.journal.view import Entry, View

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner


class Prunable(msgspec.Struct, frozen=True, kw_only=True):
    """A tree that may be removed, and how much it is. `bytes` are those of its entries."""

    session: str
    agent: str
    last_at: datetime
    sessions: int
    entries: int
    bytes: int


class KeptTree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree that stays, and why."""

    session: str
    reason: str


class Pruning:
    """Finds and removes trees that have been silent since `before`."""

    def __init__(self, runner: "Runner", before: datetime) -> None:
        self._runner = runner
        self._store = runner.journal.store
        self._before = before

    def find(self) -> tuple[list[Prunable], list[KeptTree]]:
        """Return what may be removed, and what stays."""
        trees: dict[str, list[SessionRow]] = {}
        for row in self._store.find_sessions():
            trees.setdefault(row.root, []).append(row)
        found, kept = list[Prunable](), list[KeptTree]()
        for root, rows in trees.items():
            last_at = max(row.last_at for row in rows)
            reason = next(self._reasons(self._store, root, rows), None)
            if reason is not None:
                kept.append(KeptTree(session=root, reason=reason))
                continue
            entries, size = self._store.measure(root)
            found.append(
                Prunable(
                    session=root, agent=rows[0].agent, last_at=last_at, sessions=len(rows), entries=entries, bytes=size
                )
            )
        return found, kept

    async def remove(self, root: str) -> str | None:
        """Remove a tree; returns why not, where it may not be removed (any more)."""

        def plan(view: View) -> tuple[list[Entry], str | None]:
            rows = view.store.find_sessions(root=root)
            reason = next(self._reasons(view.store, root, rows), None) if rows else "is gone already"
            names = {row.id for row in rows}
            if reason is None and any(row.session in names for row in view.rows):
                reason = "was written to just now"
            if reason is None:
                view.remove(root)
            return [], reason

        return await self._runner.journal.append_with_answer(plan)

    def _reasons(self, store: Store, root: str, rows: list[SessionRow]) -> Iterator[str]:
        """Say what speaks against removing a tree; what is cheap to know comes first."""
        if any(row.outcome is None for row in rows):
            yield "has not ended"
        if any(row.last_at >= self._before for row in rows):
            yield "is younger"
        if (owner := store.get_owner(root)) is not None:
            yield f"is held by {owner}"
        if any(row.id in self._runner.journal.pinned for row in rows):
            yield "is in use here"
        for row in rows:
            try:
                journal = store.journal(row.id)
                state = replay(row.id, [entry.event for entry in journal])
            except StoreUnreadable:
                yield "cannot be read"
                return
            if journal[-1].event.at >= self._before:
                yield "is younger"
            if state.inbox:
                yield "has a message that nobody has acted upon"
            if any(job.ended is None for job in state.jobs.values()):
                yield "has a background job whose end nobody has seen to; resume it"
