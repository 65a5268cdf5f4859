"""Limits on work at the same time. A client beyond a limit gets 503, which says to try again.

Rules
- The log says once that a limit is reached, and again only after there was room: a flood must not fill the disk.
- A limit counts running requests. A request that waits for its body gives its place back meanwhile; otherwise an
  unknown client could hold every place by two bytes of a body.
- Awaited bodies have their own limit. Beyond it the oldest request is given up, so that a client that sends its body at
  once always gets through.
- The server closes a connection that sends no request.
- No person keeps the others from listening: one who is no operator holds a fifth of the streams at most, and all of
  them together leave a fifth to the operators.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Final, Protocol

from starlette.requests import Request

from supervisor.channels.web.problems import Problem
from supervisor.core.approvals.people import Person
from supervisor.system.logs import FactLog

log = FactLog(__name__)

TRY_AGAIN_SECONDS: Final = 5
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
    def held(self) -> Iterator["Place"]:
        """Be one of them. Raises Problem 503 if there is no room."""
        place = Place(self)
        place.take()
        try:
            yield place
        finally:
            place.leave()

    def add(self) -> None:
        """Count one more. Raises Problem 503 if there is no room."""
        if self.count >= self._most:
            if not self._is_told:
                log.warning(f"{self._what}.refused", most=self._most, how=self._how)
            self._is_told = True
            raise _busy(f"there are {self._most} {self._what} already")
        self.count += 1

    def remove(self) -> None:
        self.count -= 1
        self._is_told = self._is_told and self.count >= ROOM * self._most


class Streams:
    """At most `most` event streams at once, shared out among people; `how`: what an operator can do about it."""

    def __init__(self, most: int, how: str) -> None:
        self._all = Bound("streams", most, how)
        self._of_others = Bound("streams of people who are no operators", max(1, most * 4 // 5), how)
        self._share = max(1, most // 5)
        self._by_person: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self._all.count

    @contextmanager
    def held(self, person: Person) -> Iterator[None]:
        """Be one of the person's. Raises Problem 503 if there is no room for them."""
        if person.is_operator:
            with self._all.held():
                yield
            return
        if self._by_person[person.name] >= self._share:
            raise _busy(f"{person.name} has {self._share} streams already")
        with self._of_others.held(), self._all.held():
            self._by_person[person.name] += 1
            try:
                yield
            finally:
                self._by_person[person.name] -= 1


def _busy(why: str) -> Problem:
    return Problem(503, f"{why}; try again in {TRY_AGAIN_SECONDS} s", headers={"retry-after": str(TRY_AGAIN_SECONDS)})


class Place:
    """One place within a bound. It can be given back for a while, and may be gone afterwards."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._is_held = False

    def take(self) -> None:
        """Raises Problem 503 if there is no room."""
        self._bound.add()
        self._is_held = True

    def leave(self) -> None:
        if self._is_held:
            self._is_held = False
            self._bound.remove()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Give the place back for the length of a block. Raises Problem 503 if there is no room after it."""
        was_held = self._is_held
        self.leave()
        yield
        if was_held:
            self.take()


class Waiting(Protocol):
    """A request that waits for its body."""

    def give_up(self) -> None:
        """Stop waiting."""


class Arrivals:
    """Requests whose bodies are on their way: at most `most`, and a further one makes the oldest give up."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[Waiting, None] = {}
        self._is_told = False

    def add(self, request: Waiting) -> None:
        """Note a request when it begins to wait; one that waits already keeps its age."""
        self._waiting.setdefault(request)
        if len(self._waiting) > self._most:
            if not self._is_told:
                log.warning("slow_bodies.given_up", most=self._most)
            self._is_told = True
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.give_up()

    def remove(self, request: Waiting) -> None:
        self._waiting.pop(request, None)
        self._is_told = self._is_told and len(self._waiting) >= ROOM * self._most


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request whose sender is not authenticated yet. `most`: bytes. Raises Problem 413."""
    body = bytearray()
    async with aclosing(request.stream()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > most:
                raise Problem(413, f"a body may have {most} bytes here", headers={"connection": "close"})
    return bytes(body)
