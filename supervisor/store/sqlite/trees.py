"""Which process runs a tree: rows that name owners, and lock files that show whether the owners are alive
(store/owners.py).

Rules
- A tree is owned from the commit of its claim on, until the store is closed.
- A claim first does, without changing anything, all that may fail; then it writes. So a refused claim leaves no trace,
  whatever else its transaction does.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from supervisor.core.errors import StoreDied
from supervisor.core.rows import Owner
from supervisor.store.index import columns
from supervisor.store.owners import LockFolder
from supervisor.store.sqlite import file_identity
from supervisor.store.sqlite.faults import explain_owning


class OwnedTrees:
    """The trees of one store; `read` and `change` run its queries."""

    def __init__(
        self, locks: LockFolder, read: Callable[..., list[Any]], change: Callable[[str, Sequence[Any]], None]
    ) -> None:
        self._locks = locks
        self._read = read
        self._change = change
        self._owned: set[str] = set()
        self._claimed: set[str] = set()
        self._removed: set[str] = set()

    def claim(self, root: str) -> Owner | None:
        found = self._read("owner_of_tree", root, writing=True)
        former = columns.owner(found[0]) if found else None
        is_first = self._locks.mine is None
        if former is not None and self._locks.is_alive(former.id):
            if is_first or self._locks.hold().id != former.id:
                return former
            self._claimed.add(root)
            return None
        try:
            mine = self._locks.hold()
        except OSError as error:
            raise explain_owning(error, self._locks.folder) from error
        if former is not None:
            self._locks.bury(former.id)
        self._change("add_owner", [columns.owner_columns(mine)])
        self._change("own", [(root, mine.id)])
        if former is not None or is_first:
            self._change("clear_owners", [(mine.id,)])
        self._claimed.add(root)
        return None

    def remove(self, root: str) -> None:
        """Note that this transaction removes the tree."""
        self._claimed.discard(root)
        self._removed.add(root)

    def commit(self) -> None:
        self._owned -= self._removed  # in place: to copy all owned trees at each commit would cost milliseconds
        self._owned |= self._claimed
        self.rollback()

    def rollback(self) -> None:
        self._claimed, self._removed = set(), set()

    def what_happened(self) -> StoreDied | None:
        """Return the error if other processes may claim the trees of this one; None if all is well."""
        return file_identity.without_lock(self._locks.folder) if self._locks.is_lost else None

    def release(self) -> None:
        self._owned.clear()
        self._locks.release()

    def owns(self, root: str) -> bool:
        return root in self._owned

    def owner_of(self, root: str) -> Owner | None:
        found = self._read("owner_of_tree", root)
        owner = columns.owner(found[0]) if found else None
        return owner if owner is not None and self._locks.is_alive(owner.id) else None

    def owners_of(self, roots: Sequence[str]) -> dict[str, Owner]:
        found = self._read("owners_of_trees", msgspec.json.encode(roots).decode())
        owners = {root: columns.owner(tuple(row)) for root, *row in found}
        living = {name: self._locks.is_alive(name) for name in {owner.id for owner in owners.values()}}
        return {root: owner for root, owner in owners.items() if living[owner.id]}

    def owners(self) -> list[Owner]:
        known = [columns.owner(row) for row in self._read("owners")]
        living = [owner for owner in known if self._locks.is_alive(owner.id)]
        return [replace(owner, started_by=self._locks.started_by(owner.id)) for owner in living]

    def has_others(self) -> bool:
        """Return whether another living process has owned trees."""
        return any(owner != self._locks.mine for owner in self.owners())
