"""The inputs of the sub-agents in the path of an approval: people tell agents of one name apart by them.

Rules
- An input is read from the journal of its session, whose first run never changes. So it is kept, for the sessions that
  were read last. After a tree was pruned, another one may have its ids. So for an approval that is newer than those
  seen so far, the position of the session's first entry is looked up again.
- The root's input is left out: its session has an id that people chose or see everywhere.
- A long input is cut in the middle, and credentials in it are masked.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.errors import StoreUnreadable
from supervisor.core.text.masks import hide
from supervisor.core.values import Approval
from supervisor.seam.store import Store

KEPT: Final = 2000
"""The most sessions whose input is kept."""
LONGEST_CHARACTERS: Final = 300
"""Characters of an input: half of them from its beginning, half from its end."""


class _Known(NamedTuple):
    created: int
    """The position of the session's first entry."""
    seen: int
    """The position of the newest approval for which that was looked up."""
    parent: str | None
    text: str


class Inputs:
    """The inputs of the sub-agents of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _Known] = OrderedDict()
        """By session."""

    def add_to(self, approval: Approval) -> Approval:
        """Return an approval with the inputs of the sub-agents in its path; itself if the root asks."""
        if len(approval.path) < 2 or approval.inputs:
            return approval
        found: list[str] = []
        session: str | None = approval.session
        for _ in approval.path[1:]:
            if session is None:
                break
            known = self._of(session, approval.position)
            found.append("" if known is None else known.text)
            session = None if known is None else known.parent
        return replace(approval, inputs=tuple(reversed(found))) if any(found) else approval

    def _of(self, session: str, asked: int) -> _Known | None:
        """Return what is known of a session, below or in which an approval was asked at a position."""
        known = self._known.get(session)
        if known is None or known.seen < asked:
            row = self._store.get_session(session)
            if row is None:
                return None
            if known is None or known.created != row.position:
                known = _Known(row.position, asked, row.parent, self._read(session, row.position))
            known = self._known[session] = known._replace(seen=asked)
        self._known.move_to_end(session)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known

    def _read(self, session: str, created: int) -> str:
        """Read the entry after the session's first one: a list of many approvals reads as many. `created`: its
        position."""
        try:
            events = [row.event for row in self._store.journal(session, created, 1)]
        except StoreUnreadable:
            return ""
        given = next((event.input for event in events if isinstance(event, e.RunStarted)), None)
        value = None if given is None else hide(msgspec.json.decode(given))
        text = "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
        half = LONGEST_CHARACTERS // 2
        if len(text) <= LONGEST_CHARACTERS:
            return text
        return f"{text[:half]} … {len(text) - 2 * half} more characters … {text[-half:]}"
