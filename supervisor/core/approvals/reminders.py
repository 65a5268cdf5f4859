"""When people are reminded of an approval, and when it is escalated to more of them (A10). Pure.

Rules
- An approval is reminded of once, and escalated once: more would not help a person who finds both in a list.
- Both count from when it was asked, by the wall clock: a restart neither repeats nor delays them. If both are overdue
  by then, only the later one happens.
"""

from datetime import datetime, timedelta

import msgspec

from supervisor.core.errors import InvalidInput
from supervisor.core.values import Approval


class Reminders(msgspec.Struct, frozen=True, kw_only=True):
    """`remind_after`: seconds after the approval was asked; `escalate_after`: seconds after the reminder, or after the
    approval was asked if there is no reminder; `escalate_to`: names of people who may decide then, too. Raises
    InvalidInput."""

    remind_after: float | None = None
    escalate_after: float | None = None
    escalate_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("remind_after", "escalate_after"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < 1e9:
                raise InvalidInput(f"{name} must be more than 0 seconds, and not more than a lifetime, not {seconds}")
        if (self.escalate_after is None) is not (not self.escalate_to) or not all(n.strip() for n in self.escalate_to):
            raise InvalidInput("an escalation needs both: escalate_after, and the names of people in escalate_to")

    def next(self, approval: Approval, now: datetime) -> tuple[datetime, tuple[str, ...]] | None:
        """Return when the next one is due, and to whom it escalates (empty: a reminder); None if none is left."""
        steps: list[tuple[datetime, tuple[str, ...]]] = []
        if self.remind_after is not None and approval.reminded_at is None:
            steps.append((approval.created_at + timedelta(seconds=self.remind_after), ()))
        if self.escalate_after is not None and not approval.escalated_to:
            after = (self.remind_after or 0.0) + self.escalate_after
            steps.append((approval.created_at + timedelta(seconds=after), self.escalate_to))
        overdue = [step for step in steps if step[0] <= now]
        return max(overdue, default=None) or min(steps, default=None)
