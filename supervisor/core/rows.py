"""What a store hands out: journal entries, sessions as its index knows them, and who runs a tree. Values only."""

from datetime import datetime
from typing import Any

import msgspec

from supervisor.core.events import AnyEvent
from supervisor.core.values import Outcome


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    """One journal entry. `position` orders all entries of a store; it is an opaque cursor to everybody else."""

    position: int
    session: str
    event: AnyEvent


class EncodedRow(JournalEntry, frozen=True):
    """An entry that was encoded when its plan was checked, and is written as it is."""

    body: bytes


class Counts(msgspec.Struct, frozen=True):
    """How much there is in a store."""

    sessions: int
    open_sessions: int
    pending_approvals: int
    oldest_pending_at: datetime | None
    """Since when the oldest pending approval waits."""
    blocked_sessions: int = 0
    """Sessions that today's code cannot follow (R1)."""


class Owner(msgspec.Struct, frozen=True):
    """A process that runs trees. `id` names its lock file, which it holds while it lives."""

    id: str
    host: str
    pid: int
    since: datetime

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since:%Y-%m-%d %H:%M:%S} UTC)"


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the store's index knows it, without reading its journal."""

    id: str
    parent: str | None
    root: str
    agent: str
    path: tuple[str, ...]
    requester: str
    cwd: str
    created_at: datetime
    is_asleep: bool
    """It was passivated and nothing that it waits for has come since."""
    due_at: datetime | None
    last_at: datetime
    """When it was last heard of, to the hour; bounds what an automatic resume takes up (R5)."""
    outcome: Outcome[Any] | None
    ended_at: datetime | None
    position: int = 0
    """Where in the store it begins; sessions are ordered by it."""
    blocked: int | None = None
    """The position of the entry that says why its code cannot follow it; None if it is not blocked. A blocked session
    is asleep, and nothing that comes for it wakes it."""
