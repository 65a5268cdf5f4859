"""Remind people of approvals that have waited for long, and escalate them to more people (core/approvals/reminders.py).

Rules
- A process reminds of the approvals of trees that it owns, with one appointment of the alarm for each. A reminder does
  not wake a passivated run.
- A reminder is journaled before the card is shown again. After a crash in between there is no second reminder, and the
  next start shows the card.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from supervisor.core import events as e
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.errors import StoreError
from supervisor.core.values import Approval
from supervisor.runtime.clock.alarm import Appointment
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.system.logs import FactLog

log = FactLog(__name__)


class Reminding:
    def __init__(self, runner: Runner, settings: Reminders, show_again: Callable[[Approval], Awaitable[None]]) -> None:
        self._runner = runner
        self._settings = settings
        self._show_again = show_again
        self._planned: dict[str, Appointment] = {}

    @property
    def is_idle(self) -> bool:
        """Whether the settings ask for no reminders."""
        return self._settings.remind_after is None and self._settings.escalate_after is None

    def watch(self, approval: Approval) -> None:
        """Plan the next reminder of an approval. It happens if the approval is still pending then."""
        step = self._settings.next(approval, self._runner.clock.now())
        if step is not None:
            due_at, names = step
            due = partial(self._come_due, approval.id, names)
            self._planned[approval.id] = self._runner.alarm.at(
                self._runner.clock.deadline(due_at, approval.created_at), due
            )

    def forget(self, approval: str) -> None:
        """Cancel the planned reminder: the approval is not pending any more."""
        self._runner.alarm.take_back(self._planned.pop(approval, None))

    def _come_due(self, approval: str, names: tuple[str, ...]) -> None:
        self._planned.pop(approval, None)
        self._runner.start_soon(self._remind, approval, names)

    async def _remind(self, approval: str, names: tuple[str, ...]) -> None:
        store, now = self._runner.journal.store, self._runner.clock.now()
        asked = store.get_approval(approval)
        if asked is None:
            return

        def plan(view: View) -> list[Entry]:
            record = view.session(asked.session).record_of(asked.operation)
            if record is None or record.pending_approval != approval:
                return []
            return [(asked.session, e.ApprovalReminded(at=now, approval=approval, escalated_to=names))]

        try:
            await self._runner.journal.append(plan)
        except StoreError as error:
            log.error("approval.not_reminded", approval=approval, reason=str(error))
            return
        reminded = store.get_approval(approval)
        if reminded is not None and reminded.status == "pending":
            self.watch(reminded)
            await self._show_again(reminded)
