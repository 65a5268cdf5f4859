"""Sessions as a tree, for the list and for the page of one of them."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from supervisor.core.telling import Tone, how_it_is
from supervisor.core.values import SessionView

MOST_BELOW: Final = 50
"""The most sub-agents of one session in a page's tree; those that wait for a person are left out last."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A session and those below it; `words`: how it is, safe for a screen; `waiting`: how many approvals
    are pending at it and below."""

    id: str
    name: str
    tone: Tone
    words: str
    waiting: int
    created_at: datetime
    ended_at: datetime | None
    owner: str | None
    spent: str = ""
    """What it and everything below it have spent on models."""
    below: tuple["Node", ...] = ()
    left_out: int = 0
    """Sub-agents that are not among `below`."""
    size: int = 1
    """How many sessions it and everything below it are."""


def nodes(views: Iterable[SessionView], now: datetime) -> list[Node]:
    """Return the sessions that have no parent among `views`, with everything below them, in the order given."""
    views = list(views)
    known = {view.id for view in views}
    children: dict[str, list[SessionView]] = {}
    roots = []
    for view in views:
        if view.parent in known and view.parent is not None:
            children.setdefault(view.parent, []).append(view)
        else:
            roots.append(view)
    made: dict[str, Node] = {}
    for view in reversed(views):  # parents come before their children: these are made when they are asked for
        made[view.id] = _node(view, tuple(made[child.id] for child in children.get(view.id, ())), now)
    return [made[view.id] for view in roots]


def find(found: Iterable[Node], session: str) -> Node | None:
    """Return a session's node, wherever in the trees it is."""
    return next((node for node in walk(found) if node.id == session), None)


def walk(found: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes, parents before children."""
    waiting = [*found][::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.below[::-1]


def _node(view: SessionView, below: tuple[Node, ...], now: datetime) -> Node:
    shown = below
    if len(below) > MOST_BELOW:
        waiting = [node for node in below if node.waiting][:MOST_BELOW]
        chosen = {node.id for node in [*waiting, *below[: MOST_BELOW - len(waiting)]]}
        shown = tuple(node for node in below if node.id in chosen)
    tone, words = how_it_is(view, now)
    return Node(
        id=view.id,
        name=view.path[-1],
        tone=tone,
        words=words,
        waiting=len(view.pending_approvals),
        created_at=view.created_at,
        ended_at=view.ended_at,
        owner=view.owner,
        spent=str(view.usage) if view.usage else "",
        below=shown,
        left_out=len(below) - len(shown),
        size=1 + sum(node.size for node in below),
    )
