"""A person is on an approval, or wants to hear nothing of it for a while: what that appends (A10).

Rules
- Who may decide an approval may do either. Neither is a decision, and neither gives a right.
- What waited when the person spoke is named by its id. Nothing else is hushed.
- What waits in a session that cannot be read (a newer program has written in it) is left out, and stops no other.
- The event says all that holds of the steps from then on, as ApprovalReminded does. So the last one is all to read.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from supervisor.core import events as e
from supervisor.core.errors import NotEntitled, NotFound
from supervisor.core.values import Approval, HushedBy
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.people.admission import Admission

ON_IT: Final = timedelta(minutes=30)
AGAIN: Final = timedelta(minutes=1)


async def hush(
    runner: Runner,
    admission: Admission,
    approvals: Sequence[str],
    who: str,
    until: datetime,
    channel: str | None,
    *,
    is_on_it: bool = False,
) -> tuple[str, ...]:
    """Return the ids of those that wait and that the person may decide. Raises NotFound, NotEntitled."""
    found, why = list[str](), None
    for each in dict.fromkeys(approvals):
        if (approval := runner.journal.store.get_approval(each)) is None:
            raise NotFound(f"there is no approval {each}")
        if admission.people is not None and (reason := admission.people.why_not_decide(who, approval)) is not None:
            await admission.refusals.note(each, who, reason, channel)
            why = reason
        else:
            found.append(each)
    if why is not None and not found:
        raise NotEntitled(why)

    def plan(view: View) -> tuple[list[Entry], tuple[str, ...]]:
        read = (view.store.get_approval(each) for each in found)
        pending = [each for each in read if each is not None and each.status == "pending"]
        waits = [each for each in pending if view.find_readable(each.session) is not None]
        now = runner.clock.now()
        new = (each for each in waits if not _is_said(each, who, until, is_on_it=is_on_it))
        said: list[Entry] = [(each.session, _hushed(each, now, who, until, channel, is_on_it=is_on_it)) for each in new]
        return said, tuple(each.id for each in waits)

    return await runner.journal.append_with_answer(plan)


def _is_said(approval: Approval, who: str, until: datetime, *, is_on_it: bool) -> bool:
    """Whether the person has just said so: a command that is given again appends nothing."""
    before = (approval.acknowledged,) if is_on_it else approval.snoozed
    return any(each is not None and each.by == who and abs(each.until - until) < AGAIN for each in before)


def _hushed(
    approval: Approval, now: datetime, who: str, until: datetime, channel: str | None, *, is_on_it: bool
) -> e.ApprovalHushed:
    hushed = HushedBy(who, until)
    others = tuple(each for each in approval.snoozed if each.by != who)
    return e.ApprovalHushed(
        at=now,
        approval=approval.id,
        by=who,
        until=until,
        channel=channel,
        acknowledged=hushed if is_on_it else approval.acknowledged,
        snoozed=approval.snoozed if is_on_it else (*others, hushed),
        reminded_at=approval.reminded_at,
        escalated_to=approval.escalated_to,
        step=approval.step,
        told_in=approval.told_in,
    )
