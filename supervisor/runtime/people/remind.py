"""Let the steps come of approvals that have waited for long (core/approvals/reminders.py). Each is on disk before
people are told of it (gathered.py).

Rules
- A process lets the steps come of the approvals that it watches, with one appointment of the alarm for each. A step
  does not wake a passivated run.
- Of several processes that watch an approval, the first journals a step: the others find it there. The process that
  holds the cards tells people; the news of the inbox say that a step came, in any process.
"""

from functools import partial

from supervisor.core import events as e
from supervisor.core.approvals.reminders import Due, Reminders
from supervisor.core.errors import StoreError
from supervisor.core.values import Approval
from supervisor.runtime.clock.alarm import Appointment
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.system.logs import FactLog

log = FactLog(__name__)


def steps_of(approval: Approval) -> tuple[object, ...]:
    """Return what the next step depends on."""
    return approval.reminded_at, approval.step, approval.acknowledged


class Reminding:
    def __init__(self, runner: Runner, settings: Reminders) -> None:
        self._runner = runner
        self._settings = settings
        self._planned: dict[str, Appointment] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there are no steps."""
        return not self._settings.steps

    def watch(self, approval: Approval) -> None:
        """Plan the next step of an approval. It comes if the approval is still pending then."""
        self.forget(approval.id)
        if (due := self._settings.next(approval, self._runner.clock.now())) is not None:
            at = self._runner.clock.deadline(due.at, approval.created_at)
            self._planned[approval.id] = self._runner.alarm.at(at, partial(self._come_due, approval, due))

    def forget(self, approval: str) -> None:
        """Cancel the planned step: the approval is not pending any more."""
        self._runner.alarm.take_back(self._planned.pop(approval, None))

    def _come_due(self, approval: Approval, due: Due) -> None:
        self._planned.pop(approval.id, None)
        self._runner.start_soon(self._note, approval, due)

    async def _note(self, approval: Approval, due: Due) -> None:
        def plan(view: View) -> list[Entry]:
            now = view.store.get_approval(approval.id)
            if now is None or now.status != "pending" or steps_of(now) != steps_of(approval):
                return []
            came = e.ApprovalReminded(
                at=self._runner.clock.now(),
                approval=approval.id,
                escalated_to=due.whom,
                step=due.number,
                told_in=due.by,
                acknowledged=now.acknowledged,
                snoozed=now.snoozed,
            )
            return [(approval.session, came)]

        try:
            await self._runner.journal.append(plan)
        except StoreError as error:
            log.error("approval.not_reminded", approval=approval.id, reason=str(error))
