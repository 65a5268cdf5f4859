"""Stores as a process leaves them that is killed, so that a test can resume from there."""

from supervisor.store.memory import MemoryStore


def copy_store(store: MemoryStore) -> MemoryStore:
    """Return the store that another process would find if this one were killed now. Later commits do not change it."""
    return store.copy()


class CopyingStore(MemoryStore):
    """A store in memory that keeps a copy of itself after each commit, for tests that resume from every one of them."""

    copies: list[MemoryStore]
    """What a process leaves that is killed after the first commit, the second, and so on."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = []

    def commit(self) -> None:
        super().commit()
        self.copies.append(self.copy())
