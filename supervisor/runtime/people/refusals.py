"""Refusals are journaled for the audit trail (A15): of decisions, once for each person and approval; of commands, once
for each person and kind of command, in the journal of the store itself.

A refused person, or a program in their name, may press again without limit. The channel answers each press. Only the
first one is journaled, so that refusals cannot fill the store or its queue of commits.

Rules
- The journal is read once for each pair, and memory keeps the latest MOST of them. If another process journals the same
  refusal at the same time, the journal holds it twice.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from supervisor.core import events as e
from supervisor.core.encoding import printable
from supervisor.core.ids import RULES

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner

MOST: Final = 10_000


class Refusals:
    def __init__(self, runner: "Runner") -> None:
        self._runner = runner
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def note(self, approval: str, by: str, reason: str, channel: str | None) -> None:
        """Journal the refusal of a decision, if it is this person's first one for this approval. Raises StoreError."""
        if (found := self._runner.journal.store.get_approval(approval)) is None:
            return
        now, by = self._runner.clock.now(), printable(by)
        refused = e.DecisionRefused(at=now, approval=approval, by=by, reason=printable(reason), channel=channel)
        await self._note((approval, by), found.session, refused)

    async def note_command(self, act: str, by: str, reason: str, session: str | None) -> None:
        """Journal the refusal of a command, if it is this person's first one of its kind. Raises StoreError."""
        now, by = self._runner.clock.now(), printable(by)
        refused = e.CommandRefused(
            at=now, act=act, by=by, reason=printable(reason), session=session and printable(session)
        )
        await self._note((act, by), RULES, refused)

    async def _note(self, key: tuple[str, str], session: str, refused: e.DecisionRefused | e.CommandRefused) -> None:
        if key in self._known:
            return
        self._known[key] = None
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        journal = self._runner.journal
        if any(_key(row.event) == key for row in journal.store.journal(session)):
            return
        try:
            await journal.append(lambda view: [(session, refused)])
        except BaseException:
            self._known.pop(key, None)  # it is not journaled, so the next attempt is the first one
            raise


def _key(event: e.AnyEvent) -> tuple[str, str] | None:
    """Return what a refusal is of, and whose it is; None for any other event."""
    match event:
        case e.DecisionRefused():
            return event.approval, event.by
        case e.CommandRefused():
            return event.act, event.by
        case _:
            return None
