"""What a store returns: journal entries, sessions as in its index, and owners of trees. Values only."""

from datetime import datetime
from typing import Any

import msgspec

from supervisor.core.events import AnyEvent
from supervisor.core.values import Outcome


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


class Owner(msgspec.Struct, frozen=True):
    """A process that runs trees. `id` names its lock file, which it holds while it is alive."""

    id: str
    host: str
    pid: int
    since: datetime

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since:%Y-%m-%d %H:%M:%S} UTC)"


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as in the store's index, without reading its journal."""

    id: str
    parent: str | None
    root: str
    agent: str
    path: tuple[str, ...]
    requester: str
    cwd: str
    created_at: datetime
    is_asleep: bool
    """It was passivated, and no event that it waits for has come since."""
    due_at: datetime | None
    last_at: datetime
    """When the session was last heard of, to the hour; an automatic resume skips older sessions (R5)."""
    outcome: Outcome[Any] | None
    ended_at: datetime | None
    position: int = 0
    """The position of the session's first entry; sessions are ordered by it."""
    blocked: int | None = None
    """The position of the entry that says why its code cannot follow it; None if it is not blocked. A blocked session
    is asleep, and no event wakes it."""
