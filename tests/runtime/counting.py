"""Stores that count what is read of them, and how much of it between two turns of another task."""

import anyio
from anyio.lowlevel import checkpoint

from supervisor import MemoryStore, SqliteStore
from supervisor.runtime.reading.pieces import PIECE

STEP = 2 * PIECE
"""Trio may give a task two turns between two of another one."""


class Counting:
    """Counts what is read of a store until `steps` is asked for another step."""

    def __init__(self, *given):
        super().__init__(*given)
        self.steps = [0]
        self.journals = self.looks = 0

    def counted(self, found):
        self.steps[-1] += len(found)
        return found

    def find_sessions(self, **which):
        return self.counted(super().find_sessions(**which))

    def find_approvals(self, **which):
        return self.counted(super().find_approvals(**which))

    def get_owners(self, roots):
        self.counted(roots)
        return super().get_owners(roots)

    def claim(self, root):
        self.counted([root])
        return super().claim(root)

    def find_asked_in(self, *which):
        return self.counted(super().find_asked_in(*which))

    def get_sessions(self, sessions):
        return self.counted(super().get_sessions(sessions))

    def rows(self, *which, **only):
        return self.counted(super().rows(*which, **only))

    def find_continued(self, *which):
        found = super().find_continued(*which)
        self.looks += len(found)
        return found

    def journal(self, *which, **only):
        self.journals += 1
        return self.counted(super().journal(*which, **only))


class CountingMemory(Counting, MemoryStore):
    pass


class CountingSqlite(Counting, SqliteStore):
    pass


async def most_in_a_step(store, read):
    """Return what a read returns, and how much of the store it read between two turns of another task."""
    async with anyio.create_task_group() as tasks:

        async def other():
            while True:
                await checkpoint()
                store.steps.append(0)

        tasks.start_soon(other)
        await checkpoint()
        store.steps = [0]
        found = await read()
        most = max(store.steps)
        tasks.cancel_scope.cancel()
    return found, most
