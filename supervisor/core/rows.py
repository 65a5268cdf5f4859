"""What a store returns: journal entries, sessions as in its index, trees, and their owners; and which sessions and
approvals a list has. Values only.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from supervisor.core import budgets, limits
from supervisor.core.blocking import blocked_at
from supervisor.core.errors import InvalidInput
from supervisor.core.events import AnyEvent
from supervisor.core.text.words import words_of
from supervisor.core.usage import NOTHING, Spent
from supervisor.core.values import ApprovalStatus, Outcome, SessionStatus, SessionView


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    """One journal entry. `position` orders all entries of a store; outside the store it is an opaque cursor."""

    position: int
    session: str
    event: AnyEvent


class EncodedRow(JournalEntry, frozen=True):
    """An entry that was encoded when its plan was checked, and is written in that form."""

    body: bytes


class Counts(msgspec.Struct, frozen=True):
    """How many sessions, approvals and entries a store has."""

    sessions: int
    open_sessions: int
    pending_approvals: int
    oldest_pending_at: datetime | None
    """When the oldest pending approval was asked."""
    blocked_sessions: int = 0
    """Sessions that today's code cannot follow (R1)."""


Process: TypeAlias = tuple[int, str]
"""A pid, and when its process started, as the system says it: compare it for equality only."""


class Owner(msgspec.Struct, frozen=True):
    """A process that runs trees. `id` names its lock file, which it holds while it is alive."""

    id: str
    host: str
    pid: int
    since: datetime
    started_by: tuple[Process, ...] = ()
    """Processes that started it in order to be asked by it for permissions, and itself, with the start of each: what
    runs below them never decides (A4)."""
    machine: str = ""
    """Tells machines apart whose processes share a store; empty where the store is of one machine."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since:%Y-%m-%d %H:%M:%S} UTC)"


class Continued(NamedTuple):
    """A session that began at `position`, and the position of its `next` entry after another one; None: it has none."""

    position: int
    session: str
    next: int | None


class RunnableSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one must know of an open session to run it, without reading its journal."""

    id: str
    root: str
    agent: str
    due_at: datetime | None
    last_at: datetime
    """When the session was last heard of, to the hour; an automatic resume skips older sessions (R5)."""
    waiting_for: tuple[str, ...] | None
    """What wakes it, while it is asleep: it was passivated, and no event that it waits for has come since."""
    position: int = 0
    """The position of the session's first entry; sessions are ordered by it."""

    @property
    def is_asleep(self) -> bool:
        return self.waiting_for is not None

    @property
    def blocked(self) -> int | None:
        """The position of the entry that says why its code cannot follow it; None if it is not blocked. A blocked
        session is asleep, and no event wakes it."""
        return blocked_at(self.waiting_for)

    @property
    def waits_for_budget(self) -> bool:
        """It is asleep, and waits for a decision about a budget."""
        return any(key.startswith(budgets.KEY) for key in self.waiting_for or ())

    @property
    def waits_for_limit(self) -> bool:
        """It is asleep, and waits for a place of a limit."""
        return any(key.startswith(limits.KEY) for key in self.waiting_for or ())


class SessionRow(RunnableSession, frozen=True, kw_only=True, gc=False):
    """A session as in the store's index, without reading its journal."""

    parent: str | None
    path: tuple[str, ...]
    requester: str
    cwd: str
    created_at: datetime
    outcome: Outcome[Any] | None
    ended_at: datetime | None
    runs: int = 0
    """How many runs it has begun."""
    spent: Spent = NOTHING
    spent_below: Spent = NOTHING
    """What the sessions below it have spent."""


class SessionFilter(msgspec.Struct, frozen=True):
    """The filter and the order of a list of sessions. None: no filter."""

    is_open: bool | None = None
    status: SessionStatus | None = None
    agent: str | None = None
    root: str | None = None
    newest_first: bool = False

    @property
    def must_be_open(self) -> bool:
        """Whether only open sessions can be in the list."""
        return self.is_open is True or (
            self.is_open is None and self.status in ("active", "waiting_approval", "blocked")
        )

    @property
    def picks(self) -> bool:
        """Whether the filter may leave out sessions that are read."""
        return (self.is_open, self.status, self.agent) != (None, None, None)

    def has(self, row: SessionRow) -> bool:
        """Return whether a session may be in the list, as far as its index row shows."""
        return self.is_open in (None, row.outcome is None) and self.agent in (None, row.agent)

    def has_view(self, view: SessionView) -> bool:
        """Return whether a session is in the list."""
        return (
            self.is_open in (None, view.outcome is None)
            and self.status in (None, view.status)
            and self.agent in (None, view.agent)
            and self.root in (None, view.id)
        )


class ApprovalFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter and the order of a list of approvals. None: no filter."""

    decided: bool | ApprovalStatus | None = None
    """Whether it has ended, or the status that it has."""
    text: str | None = None
    by: str | None = None
    tool: str | None = None
    agent: str | None = None
    before: datetime | None = None
    newest_first: bool = False

    @classmethod
    def asked_for(
        cls, *, pending: bool | None, decided: bool | ApprovalStatus | None, newest_first: bool, **search: Any
    ) -> "ApprovalFilter":
        """Return the filter that a caller wants: what is pending, unless they search. Raises InvalidInput."""
        found = cls(decided=decided, newest_first=newest_first, **search)
        if found.before is not None and found.before.tzinfo is None:
            raise InvalidInput(f"an instant needs a time zone, and {found.before.isoformat()} has none")
        if found.text is not None and not found.words:
            raise InvalidInput("a text to search for needs a letter or a digit")
        if pending and decided not in (None, False, "pending"):
            raise InvalidInput("an approval cannot be pending and decided: leave out one of the two")
        if pending or (pending is None and not found.searches and decided is None):
            return msgspec.structs.replace(found, decided=False)
        return found

    @property
    def searches(self) -> bool:
        """Whether it looks at more than the status."""
        return (self.text, self.by, self.tool, self.agent, self.before) != (None, None, None, None, None)

    @property
    def is_pending(self) -> bool:
        """Whether it has only what waits."""
        return self.decided is False or self.decided == "pending"

    def has_status(self, status: ApprovalStatus) -> bool:
        """Whether it has approvals of a status."""
        return (status == "pending") == self.is_pending if isinstance(self.decided, bool) else self.decided == status

    @property
    def words(self) -> list[str]:
        """The words that it looks for."""
        return [] if self.text is None else words_of(self.text)


PENDING: Final = ApprovalFilter(decided=False)
"""The inbox: what waits for a person."""


class TreeView(msgspec.Struct, frozen=True, kw_only=True):
    """A session's tree, and what happened in the session and below it up to an instant."""

    sessions: tuple[SessionView, ...]
    """Every session of the whole tree, parents before children."""
    entries: tuple[JournalEntry, ...]
    """Whole journals of the session and of sessions below it, in the order in which they were committed."""
    cursor: str
    """The instant: what happens later is after it."""
    left_out: int = 0
    """Sessions below it whose journals are not among the entries."""


class _Below(Protocol):
    @property
    def parent(self) -> str | None: ...


B = TypeVar("B", bound=_Below)


def as_trees(sessions: Sequence[B], id_of: Callable[[B], str]) -> list[B]:
    """Return sessions in their order, each followed by its sub-agents."""
    known = {id_of(each) for each in sessions}
    below: dict[str | None, list[B]] = {}
    for each in sessions:
        below.setdefault(each.parent if each.parent in known else None, []).append(each)
    ordered: list[B] = []
    waiting = below.get(None, [])[::-1]
    while waiting:
        ordered.append(each := waiting.pop())
        waiting += below.get(id_of(each), [])[::-1]
    return ordered


def ids_from(top: str, views: Iterable[SessionView]) -> Iterator[str]:
    """Yield the ids of a session and all below it, each before its sub-agents, which come in the order of `views`."""
    below: dict[str | None, list[str]] = {}
    for view in views:
        below.setdefault(view.parent, []).append(view.id)
    waiting = [top]
    while waiting:
        session = waiting.pop()
        yield session
        waiting += below.get(session, ())[::-1]
