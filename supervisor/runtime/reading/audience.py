"""Whether this program itself looks on: whether it reads approvals, and which outcomes it waits for (A6)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from supervisor.runtime.journal.signals import Signal


class Audience:
    """What the program that opened the supervisor looks at and waits for."""

    def __init__(self) -> None:
        self.has_readers = False
        """Whether it has looked at approvals: then somebody may answer even where no channel is."""
        self.awaited: Counter[str] = Counter()
        """Roots of the trees whose outcomes it waits for now."""
        self.began_to_wait = Signal[str]()
        """It waits for an outcome of the tree of this root."""

    @contextmanager
    def awaiting(self, root: str) -> Iterator[None]:
        """Surround a wait for an outcome of a tree."""
        self.awaited[root] += 1
        self.began_to_wait.send(root)
        try:
            yield
        finally:
            self.awaited[root] -= 1
            if not self.awaited[root]:
                del self.awaited[root]
