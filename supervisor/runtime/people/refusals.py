"""Refused decisions are journaled for the audit trail, once for each person and approval (A15).

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

if TYPE_CHECKING:
    from supervisor.runtime.lifecycle.runner import Runner

MOST: Final = 10_000


class Refusals:
    def __init__(self, runner: "Runner") -> None:
        self._runner = runner
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def note(self, approval: str, by: str, reason: str, channel: str | None) -> None:
        """Journal a refusal, if it is this person's first one for this approval. Raises StoreError."""
        journal, key = self._runner.journal, (approval, printable(by))
        if key in self._known or (found := journal.store.get_approval(approval)) is None:
            return
        self._known[key] = None
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        rows = (row.event for row in journal.store.journal(found.session))
        if any(isinstance(event, e.DecisionRefused) and (event.approval, event.by) == key for event in rows):
            return
        refused = e.DecisionRefused(
            at=self._runner.clock.now(), approval=approval, by=key[1], reason=printable(reason), channel=channel
        )
        try:
            await journal.append(lambda view: [(found.session, refused)])
        except BaseException:
            self._known.pop(key, None)  # it is not journaled, so the next press is the first one
            raise
