"""Blocked runs: today's code cannot follow a run's journal (R1).

A blocked run has no outcome and begins nothing. None of its approvals is withdrawn or spent: decisions count, messages
are kept, timers wait. It goes on when code that follows its journal is there.
"""

from datetime import datetime
from typing import Final, Literal

import msgspec

BLOCKED: Final = "blocked"
"""The index entry for what a blocked run waits for; no operation and no session below a root has this name."""


class Block(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a run is blocked, and where. The fields are a JSON contract."""

    why: Literal["path", "value", "call", "agent"]
    """path: the agent takes another path than its journal. value: a journaled value does not fit the code's type. call:
    an open call's tool is gone, or the call would get other arguments than were shown. agent: the agent, or the version
    with which the run began, cannot be loaded."""
    cause: str
    """One sentence: what the code did instead."""
    entry: int | None = None
    """The number, in its session, of the journal entry that the code does not follow."""
    operation: str | None = None
    """The operation of that entry."""
    held: str = ""
    """The content of that entry: kind, tool, arguments."""
    held_at: datetime | None = None
    where: str = ""
    """The line of code that asked for something else, or raised: the innermost frame outside this package."""
    in_agent: str = ""
    """The line of the agent's own function."""
    is_presumed: bool = False
    """The agent may still ask: it has only been silent for some seconds, and its attempt is still in memory."""


def is_known(known: Block, found: Block) -> bool:
    """Whether an earlier attempt was blocked in the same way, so that the journal need not say it again."""
    is_now_certain = known.is_presumed and not found.is_presumed
    return not is_now_certain and msgspec.structs.replace(known, is_presumed=found.is_presumed) == found


def blocked_at(waiting_for: tuple[str, ...] | None) -> int | None:
    """Return the position of the entry that says why a run is blocked, which waits for this; None if it is not."""
    return int(waiting_for[1]) if waiting_for is not None and waiting_for[:1] == (BLOCKED,) else None
