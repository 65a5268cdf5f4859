"""Which approvals each person was shown over HTTP: what they may decide without naming it (A12).

Rules
- A page, a document or an event that holds an approval shows it. The record is of this process; after a restart a
  person looks again, or names what they mean.
- Bounded: of each person the latest MOST are known.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

from supervisor.core.values import Approval

MOST: Final = 10_000
"""Approvals that are remembered of each person."""


class Shown:
    def __init__(self) -> None:
        self._of: dict[str, OrderedDict[str, None]] = {}

    def note(self, person: str, approvals: Iterable[Approval]) -> None:
        """Note that a person is shown these, in an answer that is being made."""
        known = self._of.setdefault(person, OrderedDict())
        for approval in approvals:
            known[approval.id] = None
            known.move_to_end(approval.id)
        while len(known) > MOST:
            known.popitem(last=False)

    def to(self, person: str) -> Collection[str]:
        """Return the ids of what a person was shown."""
        return self._of.get(person, {}).keys()
