"""How much at once: whoever comes beyond a bound is told so, and that it is worth trying again.

Rules
- The log says it once, and again only after there was room: what comes in floods must not fill a disk.
- What is bounded is work under way. A connection that asks for nothing is closed by the server after a few seconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from supervisor.channels.web.problems import Problem
from supervisor.logs import FactLog

log = FactLog(__name__)

TRY_AGAIN: Final = 5
"""Seconds."""
ROOM: Final = 0.9
"""Of a bound: with less than this under way there is room again."""


class Bound:
    """At most `most` of `what` at once; `how`: what an operator can do about it."""

    def __init__(self, what: str, most: int, how: str) -> None:
        self.count = 0
        self._what = what
        self._most = most
        self._how = how
        self._is_told = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be one of them. Raises Problem 503 if there is no room."""
        if self.count >= self._most:
            if not self._is_told:
                log.warning(f"{self._what}.refused", most=self._most, how=self._how)
            self._is_told = True
            detail = f"there are {self._most} {self._what} already; try again in {TRY_AGAIN} s"
            raise Problem(503, detail, headers={"retry-after": str(TRY_AGAIN)})
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
            self._is_told = self._is_told and self.count >= ROOM * self._most
