"""What `import` and `prune` say about whole trees: where one comes from, what may be removed, and what is kept."""

from datetime import datetime

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """Where an imported session comes from."""

    format: str
    """The format of its file, such as "claude_code"."""
    source: str
    """Its id in the file."""
    file: str
    digest: str
    """The digest of the file's bytes."""
    cwd: str
    """The folder that it works in."""


class PrunableTree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree that may be removed."""

    session: str
    """The id of its root."""
    agent: str
    last_at: datetime
    """When its last entry was appended, to the hour."""
    sessions: int
    entries: int
    bytes: int
    """The size of its entries."""


class KeptTree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree that is not removed, and why."""

    session: str
    """The id of its root."""
    reason: str
    """A verb and what follows it, such as "has not ended"."""


class PruneResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a prune removed, or would remove, and what it keeps."""

    trees: list[PrunableTree]
    kept: list[KeptTree]
    logs: int = 0
    """Background jobs whose logs are removed."""
    log_bytes: int = 0
    compact_error: str | None = None
    """Why the free space was not returned to the disk; the store uses it again."""
