"""When each tree is read next, where every tree is followed: soon while it goes on, and not while it waits.

A tree is read at once if it is new, if it asks something else than before, or if it is open no more. Otherwise it is
read after a while, twice as long each time. After SELDOM it rests: the list of trees tells when it asks or ends. What
else it does is seen when it is the one that has rested longest, since every SELDOM one is looked at; and whenever a
person reads it. A tree that was read after its end is looked at no more.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import anyio

from supervisor.temporal.mirror.namespace import POLL_SECONDS

SELDOM_SECONDS: Final = 30.0
"""Seconds after which a tree rests that had no news, so that many of them cost no more than a few."""


class Look:
    """The next look at a tree."""

    def __init__(self) -> None:
        self.wait = 0.0
        self.due_at = 0.0
        self.asked: Any = None
        """What its memo said at the last look."""

    def plan(self, *, had_news: bool) -> None:
        self.wait = POLL_SECONDS if had_news else max(POLL_SECONDS, 2 * self.wait)
        self.due_at = anyio.current_time() + self.wait

    @property
    def rests(self) -> bool:
        return self.wait >= SELDOM_SECONDS

    @property
    def is_due(self) -> bool:
        return not self.rests and anyio.current_time() >= self.due_at


class Looks:
    """The next looks at all trees."""

    def __init__(self) -> None:
        self.by_root: dict[str, Look] = {}
        self._rested_at = 0.0
        self._ended: dict[str, str] = {}
        """Roots of trees that have ended, and were not read since, with the runs that have."""

    def see_open(self, root: str, memo: Any) -> bool:
        """Note that a tree is listed as open. Return whether it is to be read now."""
        look = self.by_root.setdefault(root, Look())
        if look.asked == memo and not look.is_due:
            return False
        if look.asked != memo:
            look.asked, look.wait = memo, 0.0
        return True

    def find_rested(self) -> str | None:
        """Return the tree that has rested longest, at most once in SELDOM."""
        if anyio.current_time() < self._rested_at + SELDOM_SECONDS:
            return None
        self._rested_at = anyio.current_time()
        rested = [(look.due_at, root) for root, look in self.by_root.items() if look.rests]
        return min(rested)[1] if rested else None

    @property
    def next_in(self) -> float:
        """Seconds until the next tree is due that does not rest."""
        dues = [look.due_at for look in self.by_root.values() if not look.rests]
        return max(0.0, min(dues) - anyio.current_time()) if dues else SELDOM_SECONDS

    def see_ended(self, ended: Mapping[str, str]) -> None:
        """Note the roots of trees that are listed as ended, with the runs that have."""
        self._ended.update(ended)

    def find_closed(self, opened: set[str], is_read: Callable[[str, str], bool]) -> Iterator[str]:
        """Yield the trees to read that are not open any more: those that are listed as ended, and those of which no
        list says so, since the server lists them late, or its clock is another. `is_read`: whether a run of a tree was
        read after its end."""
        for root, run in list(self._ended.items()):
            if root in opened:
                del self._ended[root]
            elif is_read(root, run):
                self.forget(root)
            else:
                self.by_root.setdefault(root, Look())
        for root, look in self.by_root.items():
            if root in opened:
                continue
            if look.asked is not None:  # until now it was open
                look.asked, look.due_at, look.wait = None, 0.0, 0.0
            if look.is_due:
                yield root

    def forget(self, root: str) -> None:
        """Plan no further look at a tree that was read after its end."""
        self.by_root.pop(root, None)
        self._ended.pop(root, None)
