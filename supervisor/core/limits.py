"""Limits: how many may do something at once, and how many may begin it within a minute. The others queue.

Theory: a limit is held by a model call, by a tool (from `executing` to its result) and by an agent (while its run is
not quiet). Who wants a place asks with a ticket; a queue says which ticket is next. This module knows no clock and no
task: instants are arguments.

No one waits while holding. That is why nothing deadlocks, with places of one, nested, and in opposite order:
1. A place of a step, or of a tool, is held by its function alone. The function has no context to wait with, and ends at
   a deadline, or when the watchdog ends it. The place is given back before the result waits for its turn.
2. A place of a model call without steps is given back as soon as an operation of its own tasks waits for anything, and
   is asked for again when that operation is over.
3. The place of an agent is given back when its attempt is quiet: when it only waits, for people, children, timers,
   messages or limits. Before that, something of it runs, which (1) and (2) end, or its own code.
4. So each place is held by code that runs. There is no cycle of waits: a wait has no place.
An agent's own code that waits for another agent in a way that the supervisor cannot see is not covered: an event in
memory, a tool that starts a session and waits for it.

Rules
- First come, first served. Runs that have begun come before those that have not, and what cleans up before all others.
- A queue serves its first ticket or none: no other one overtakes it.
- What is told to wait (RetryAfter) closes its limit for all, until then. A later closing only lengthens it.
- A name without a declared limit bounds nothing. It can be closed all the same.
"""

from collections import deque
from datetime import datetime
from math import inf, isfinite
from typing import Final

import msgspec

from supervisor.core.errors import InvalidInput

KEY: Final = "limit:"
"""Begins the key under which a run waits for a place (RunPassivated.waiting_for)."""
OWN: Final = "~"
"""Begins the name of the queue of a session whose step was told to wait and has no limit."""
MINUTE_SECONDS: Final = 60.0
ELSEWHERE: Final = (
    "limits are kept by one machine, and this tree runs on Temporal: leave limit= out, and give its activities a task "
    "queue with a rate or a number of slots"
)
BUSY: Final = "busy"
"""The reason in the details of a call whose tool has closed its limit (RetryAfter)."""
LONGEST_WAIT_SECONDS: Final = 86_400.0
"""The most seconds for which an endpoint closes a limit: a header may say anything."""


class Limit(msgspec.Struct, frozen=True, omit_defaults=True):
    """`at_once`: how many may hold a place at the same time. `per_minute`: how many may begin within a minute. None: as
    many as like. Who finds no place waits for one (L1)."""

    name: str
    at_once: int | None = None
    per_minute: int | None = None

    def __post_init__(self) -> None:
        """Raise InvalidInput for what is no limit."""
        checked_name(self.name, "a Limit")
        if self.at_once is None and self.per_minute is None:
            raise InvalidInput(f"limit {self.name} bounds nothing: give at_once=, per_minute= or both")
        for what in ("at_once", "per_minute"):
            number = getattr(self, what)
            if number is not None and (type(number) is not int or number < 1):
                raise InvalidInput(f"{what} of limit {self.name} is a whole number from 1, or None, not {number!r:.40}")


def checked_name(name: object, whose: str) -> str:
    """Return the name of a limit. Raises InvalidInput for what cannot be one."""
    is_name = isinstance(name, str) and name.isprintable() and name.strip() == name and 0 < len(name) <= 64
    if not is_name or any(mark in str(name) for mark in "/#:~"):
        raise InvalidInput(f"{whose} has a name of up to 64 characters without '/', '#', ':' and '~', not {name!r:.80}")
    return str(name)


def checked_limit(name: object, whose: str) -> str | None:
    """Return the name of the limit that a declaration gives. Raises TypeError for what is no name."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise TypeError(f"{whose}: limit is the name of a Limit, not {name!r:.100}: write limit='openai'")
    return checked_name(name, f"{whose}: its limit")


def named_limits(limits: object) -> dict[str, Limit]:
    """Return limits by their names. Raises InvalidInput if two have one name."""
    found: dict[str, Limit] = {}
    for limit in limits:  # type: ignore[attr-defined] # checked at each element
        if not isinstance(limit, Limit):
            raise InvalidInput(f"limits are Limit(NAME, at_once=...), not {limit!r:.100}")
        if found.setdefault(limit.name, limit) is not limit:
            raise InvalidInput(f"two limits are named {limit.name}: give each its own name")
    return found


def checked_seconds(seconds: float) -> float:
    """Return the seconds to wait that an endpoint says, within bounds."""
    return min(max(0.0, seconds), LONGEST_WAIT_SECONDS) if isfinite(seconds) else LONGEST_WAIT_SECONDS


class LimitWait(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run's wait for a place of a limit. `name`: the limit; empty while a step without one waits until what it asks
    is no longer busy. `place`: from 1, of `count`; 0: the process that runs it knows, and since when it waits."""

    name: str
    since: datetime | None = None
    place: int = 0
    count: int = 1


class Ticket(msgspec.Struct, eq=False, kw_only=True):
    """A wish for a place, and the place once it is held."""

    name: str
    session: str
    since: datetime
    counts: bool = True
    """Whether it counts for `per_minute`: a place that was given back and is taken again does not."""
    is_shared: bool = False
    """Whether its place is one of all processes of the store."""
    has_begun: bool = True
    """Whether its run has begun: such come before the others."""
    is_ending: bool = False
    """Whether its run was told to end: its clean-up has little time, and comes first."""
    number: int = 0
    """Its place in the order of coming; 0: it has not come yet."""
    is_held: bool = False
    is_asleep: bool = False
    """Whether its run has left memory and is to be woken."""


class Queue:
    """The tickets of a limit: those that hold a place, and those that wait, in order. `limit`: None bounds nothing."""

    __slots__ = ("_began", "closed_until", "held", "limit", "waiting")

    def __init__(self, limit: Limit | None) -> None:
        self.limit = limit
        self.held: dict[Ticket, None] = {}
        self.waiting: list[Ticket] = []
        self.closed_until = -inf
        self._began: deque[float] = deque()
        """When the places of the last minute were taken."""

    @property
    def is_idle(self) -> bool:
        return not self.held and not self.waiting

    def come(self, ticket: Ticket, number: int) -> None:
        """Let a ticket wait. One that has come before keeps its place in the order."""
        ticket.number = ticket.number or number
        self.waiting.append(ticket)
        self.waiting.sort(key=_order)

    def hurry(self, session: str) -> bool:
        """Let what waits of a session come first: its run was told to end. Return whether anything does."""
        found = [ticket for ticket in self.waiting if ticket.session == session]
        for ticket in found:
            ticket.is_ending = True
        self.waiting.sort(key=_order)
        return bool(found)

    def leave(self, ticket: Ticket) -> None:
        """Take a ticket out, whether it waits or holds a place."""
        ticket.is_held = False
        self.held.pop(ticket, None)
        if ticket in self.waiting:
            self.waiting.remove(ticket)

    def first(self, now: float) -> Ticket | None:
        """Return the ticket that may have a place now; None if none may."""
        if not self.waiting or now < self.closed_until:
            return None
        first, limit = self.waiting[0], self.limit
        if limit is None:
            return first
        if limit.at_once is not None and len(self.held) >= limit.at_once:
            return None
        return first if not first.counts or self._opens_at(now) <= now else None

    def hold(self, ticket: Ticket, now: float) -> None:
        """Give the first ticket a place."""
        self.waiting.remove(ticket)
        self.held[ticket] = None
        ticket.is_held = True
        if ticket.counts and self.limit is not None and self.limit.per_minute is not None:
            self._began.append(now)

    def close(self, until: float) -> None:
        self.closed_until = max(self.closed_until, until)

    def due(self, now: float) -> float:
        """Return when to look again, if nothing else happens; inf: only when a place is given back."""
        if not self.waiting:
            return inf
        if now < self.closed_until:
            return self.closed_until
        opens = self._opens_at(now) if self.waiting[0].counts else now
        return opens if opens > now else inf

    def _opens_at(self, now: float) -> float:
        """Return when the next one may begin, by `per_minute`."""
        if self.limit is None or self.limit.per_minute is None:
            return now
        while self._began and self._began[0] + MINUTE_SECONDS <= now:
            self._began.popleft()
        return now if len(self._began) < self.limit.per_minute else self._began[0] + MINUTE_SECONDS


def _order(ticket: Ticket) -> tuple[bool, bool, int]:
    return not ticket.is_ending, not ticket.has_begun, ticket.number


def key_of(name: str) -> str:
    return f"{KEY}{name}"


def name_of(key: str) -> str | None:
    """Return the limit for which a key waits; None if it waits for something else."""
    return key.removeprefix(KEY) if key.startswith(KEY) else None


def shown_name(name: str) -> str:
    """Return the name of a limit as people see it: that of a session's own queue is empty."""
    return "" if name.startswith(OWN) else name


def wait_text(name: str, place: int, count: int) -> str:
    """Say for what a run waits, and at which place: "waits for openai, 3rd of 12"."""
    if not name:
        return "waits to ask again what was busy"
    return f"waits for {name}" + (f", {ordinal(place)} of {count}" if place else "")


def ordinal(number: int) -> str:
    """Say a place in a queue: 1st, 2nd, 3rd, 11th."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
