"""Refusals are journaled for the audit trail (A15): of decisions, once for each person and approval; of commands, once
for each person and kind of command, in the journal of the store itself.

A refused person, or a program in their name, may press again without limit. The channel answers each press. Only the
first one is journaled, so that refusals cannot fill the store or its queue of commits.

Rules
- Of a session's journal, what follows the question is read, in pieces, once for each pair; memory keeps the latest MOST
  of them. If another process journals the same refusal at the same time, the journal holds it twice.
- The refused commands are in memory (Rulebook): no journal is read.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from supervisor.core import events as e
from supervisor.core.encoding import printable_text
from supervisor.core.ids import RULES
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.rules import book
from supervisor.runtime.reading.journals import find_first
from supervisor.runtime.reading.pieces import read_pieces

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
        now, by = self._runner.clock.now(), printable_text(by)
        refused = e.DecisionRefused(at=now, approval=approval, by=by, reason=printable_text(reason), channel=channel)

        def is_same(event: e.AnyEvent) -> bool:
            return isinstance(event, e.DecisionRefused) and (event.approval, event.by) == (approval, by)

        journal, session = self._runner.journal, found.session
        with self._first((approval, by)) as is_first:
            if not is_first:
                return
            earlier = find_first(journal.store, session, found.position, is_same)
            if await read_pieces(journal.store, earlier) is None:
                await journal.append(lambda view: [(session, refused)])

    async def note_command(self, act: str, by: str, reason: str, session: str | None) -> None:
        """Journal the refusal of a command, if it is this person's first one of its kind. Raises StoreError."""
        now, by = self._runner.clock.now(), printable_text(by)
        refused = e.CommandRefused(
            at=now, act=act, by=by, reason=printable_text(reason), session=session and printable_text(session)
        )

        def plan(view: View) -> list[Entry]:
            return [] if (act, by) in book(view).refused else [(RULES, refused)]

        with self._first((act, by)) as is_first:
            if is_first:
                await self._runner.journal.append(plan)

    @contextmanager
    def _first(self, key: tuple[str, str]) -> Iterator[bool]:
        """Tell whether this is the first attempt that this process knows of. If the caller fails to journal it, the
        next attempt is the first one."""
        if key in self._known:
            yield False
            return
        self._known[key] = None
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        try:
            yield True
        except BaseException:
            self._known.pop(key, None)
            raise
