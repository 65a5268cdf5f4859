"""Records which approvals each person was shown over HTTP, and so may decide without naming them (A12).

Rules
- A page, a document or an event with an approval shows it. The record is lost with the process; then a person looks
  again or names the approval.
- Bounded: the record has the latest MOST approvals of each person.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

from supervisor.core.values import Approval

MOST: Final = 10_000
"""The most approvals that are remembered for each person."""


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
