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

from supervisor.abc import Owner
from supervisor.core.errors import StoreDied
from supervisor.store.owners import LockFolder
from supervisor.store.sqlite import columns, file_identity
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
        is_first = self._locks.mine is None
        if found and self._locks.is_alive(found[0][0]):
            if is_first or self._locks.hold().id != found[0][0]:
                return columns.owner(found[0])
            self._claimed.add(root)
            return None
        try:
            mine = self._locks.hold()
        except OSError as error:
            raise explain_owning(error, self._locks.folder) from error
        if found:
            self._locks.bury(found[0][0])
        self._change("add_owner", [columns.owner_columns(mine)])
        self._change("own", [(root, mine.id)])
        if found or is_first:
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
        return columns.owner(found[0]) if found and self._locks.is_alive(found[0][0]) else None

    def owners_of(self, roots: Sequence[str]) -> dict[str, Owner]:
        found = self._read("owners_of_trees", msgspec.json.encode(roots).decode())
        living = {owner: self._locks.is_alive(owner) for owner in {row[1] for row in found}}
        return {row[0]: columns.owner(row[1:]) for row in found if living[row[1]]}

    def owners(self) -> list[Owner]:
        living = [columns.owner(row) for row in self._read("owners") if self._locks.is_alive(row[0])]
        return [replace(owner, started_by=self._locks.started_by(owner.id)) for owner in living]

    def has_others(self) -> bool:
        """Return whether another living process has owned trees."""
        return any(owner != self._locks.mine for owner in self.owners())
