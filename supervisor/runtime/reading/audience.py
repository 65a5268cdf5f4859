"""Whether this program itself reads approvals, and which outcomes it waits for (A6)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from supervisor.runtime.journal.signals import Signal


class Audience:
    """What the program that opened the supervisor reads and waits for."""

    def __init__(self) -> None:
        self.has_readers = False
        """Whether it has read approvals: then a person may answer even without a channel."""
        self.awaited: Counter[str] = Counter()
        """The roots of the trees whose outcomes it waits for now."""
        self.began_to_wait = Signal[str]()
        """It has begun to wait for an outcome in the tree of this root."""

    @contextmanager
    def awaiting(self, root: str) -> Iterator[None]:
        """Enclose a wait for an outcome in a tree."""
        self.awaited[root] += 1
        self.began_to_wait.send(root)
        try:
            yield
        finally:
            self.awaited[root] -= 1
            if not self.awaited[root]:
                del self.awaited[root]
