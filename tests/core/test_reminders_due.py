"""A10: when the steps come of an approval that stays undecided."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from supervisor import InvalidInput
from supervisor.core.approvals.reminders import EscalationStep, Reminders
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


STEPS = Reminders(
    [
        EscalationStep(after=60, repeat=1),
        EscalationStep(after=60, whom=("ana",), by=("ntfy",)),
        EscalationStep(after=60, whom=("ben",), by=("slack:@approvers",), repeat=1),
    ]
)


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
    """Both count from when the approval was asked, whatever happened meanwhile; a former version named no step."""
    found = settings.next(approval, START + timedelta(seconds=seconds))
    expected = None if due is None else (START + timedelta(seconds=due[0]), due[1])
    assert (found and (found.at, found.whom)) == expected


@pytest.mark.parametrize(
    ("step", "seconds", "due"),
    [
        (0, 0, (60, 1, (), ())),
        (1, 60, (120, 2, (), ())),
        (2, 120, (180, 3, ("ana",), ("ntfy",))),
        (3, 180, (240, 4, ("ana", "ben"), ("slack:@approvers",))),
        (4, 240, (300, 5, ("ana", "ben"), ("slack:@approvers",))),
        (5, 300, None),
        (0, 9000, (300, 5, ("ana", "ben"), ("ntfy", "slack:@approvers"))),
        (2, 9000, (300, 5, ("ana", "ben"), ("ntfy", "slack:@approvers"))),
    ],
)
def test_steps_come_one_after_another_and_missed_ones_are_one(step, seconds, due):
    """A step is repeated before the next one; who may decide once may decide later, too."""
    names = () if step < 3 else ("ana",) if step == 3 else ("ana", "ben")
    asked = replace(ASKED, step=step, reminded_at=START if step else None, escalated_to=names)
    found = STEPS.next(asked, START + timedelta(seconds=seconds))
    assert (found and ((found.at - START).total_seconds(), *found[1:])) == due


def test_steps_and_the_former_settings_are_not_mixed():
    """The error says how the former ones are written as steps."""
    with pytest.raises(InvalidInput) as raised:
        Reminders([EscalationStep(after=60)], remind_after=3600.0, escalate_after=60.0, escalate_to=["ana"])
    assert '[[escalation]]\nafter = 3600.0\n[[escalation]]\nafter = 60.0\nwhom = ["ana"]' in str(raised.value)


@pytest.mark.parametrize("wrong", [{"after": 0}, {"after": 5, "repeat": -1}, {"after": 5, "whom": (" ",)}])
def test_a_step_that_says_nothing_sensible_is_refused(wrong):
    """It needs a time, and names that are names."""
    with pytest.raises(InvalidInput):
        EscalationStep(**wrong)
