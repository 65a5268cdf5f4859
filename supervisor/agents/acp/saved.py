"""What a run keeps with `ctx.save`, since the agent's process cannot be replayed: its session, and each open request.

A request is saved before it is asked, under a number that no other request of the session has. The number names the
branch in which it is asked. So a later attempt asks the same again, under the same approval ids, without the agent.

A save drops the operations whose results the run was given. So a request whose result was given is saved with it, and
not asked again.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from supervisor.core.values import ResultKind


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was asked. `given`: its raw input. If it is a question: its `choices`, those of them that allow,
    and the one that was chosen."""

    number: int
    tool: str
    given: Any
    arguments: dict[str, Any]
    ids: tuple[str, ...] = ()
    """Names of the arguments that identify the request only."""
    choices: tuple[str, ...] = ()
    allowing: tuple[str, ...] = ()
    choice: str | None = None
    because: str = ""
    """The agent's words to the person who decides, besides its claims."""
    diff: str = ""
    """Its diffs, which are evidence. Those of a request that a former version has saved are among its arguments."""
    seen: str = ""
    """The digest of what a person saw of a request without raw input: see Permission.seen."""
    form: dict[str, Any] | None = None
    """The form of a question that the agent asks a person; None: it asks for a permission."""
    answer: dict[str, Any] | None = None
    """What a person has filled in."""
    ended: ResultKind | None = None
    """The kind of its result, if the agent has not been told yet; with its `content`."""
    content: str = ""
    is_dropped: bool = False
    """Whether its turn ended before a person decided. It is withdrawn, now or in the next attempt."""


class Saved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`acp_session`: the agent's id of the session. `is_prompted`: whether the agent may have got this run's
    message."""

    acp_session: str | None = None
    is_prompted: bool = False
    process: dict[str, Any] | None = None
    """What identifies the agent's process (ProcessIdentity), as long as it may live."""
    number: int = 0
    """The number of the latest request."""
    asked: tuple[Asked, ...] = ()
    cost: float = 0.0
    """Dollars that the agent's session had cost when it was saved: the agent says what it has cost in all."""


def read(state: Any, before: Sequence[Any]) -> Saved:
    """Return what this run has saved. `before`: what the runs before it have saved, whose session goes on."""
    if state is not None:
        return msgspec.convert(state, Saved)
    if not before:
        return Saved()
    earlier = msgspec.convert(before[-1], Saved)
    return Saved(acp_session=earlier.acp_session, number=earlier.number, process=earlier.process, cost=earlier.cost)
