"""A10: when a reminder and an escalation are due."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from supervisor.core.approvals.reminders import Reminders
from supervisor.core.values import Approval

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
FACTS = dict.fromkeys(
    ("id", "session", "root_session", "agent", "operation", "tool", "digest", "cwd", "requester"), "x"
)
ASKED = Approval(**FACTS, path=("x",), arguments={}, options=(), status="pending", created_at=START)
REMINDED = replace(ASKED, reminded_at=START)
ESCALATED = replace(REMINDED, escalated_to=("ops",))
BOTH = Reminders(remind_after=60, escalate_after=60, escalate_to=("ops",))
LATER = Reminders(escalate_after=60, escalate_to=("ops",))


@pytest.mark.parametrize(
    ("settings", "approval", "seconds", "due"),
    [
        (BOTH, ASKED, 0, (60, ())),
        (BOTH, REMINDED, 60, (120, ("ops",))),
        (BOTH, ESCALATED, 120, None),
        (BOTH, ASKED, 90, (60, ())),
        (BOTH, ASKED, 9000, (120, ("ops",))),
        (LATER, ASKED, 0, (60, ("ops",))),
        (Reminders(remind_after=60), ASKED, 0, (60, ())),
        (Reminders(remind_after=60), REMINDED, 0, None),
        (Reminders(), ASKED, 0, None),
    ],
)
def test_each_is_due_once_and_of_two_overdue_ones_only_the_later(settings, approval, seconds, due):
    """Both count from when the approval was asked, whatever happened meanwhile."""
    expected = None if due is None else (START + timedelta(seconds=due[0]), due[1])
    assert settings.next(approval, START + timedelta(seconds=seconds)) == expected
