"""Selects the approvals that this process shows to people, or answers instead of people; poster.py shows them.

It begins after the approval's commit, and never delays that (A1).

Rules
- All that are pending are posted when a tree is taken up (R3).
- It shows the approvals of trees that this process owns. A process that adopts trees also shows what another process
  asks and has shown on no channel for NOBODY_ELSE seconds.
- A process that leaves after the last answer retires its cards first, unless one takes longer than LEAVING. A later
  process retires the rest (R3): of every tree if it adopts trees, else of its own ones.
- `unattended` answers instead of people, by name; the setting is never stored. A question has no yes: people are asked
  it where calls are allowed. Where calls are denied it is not asked, and the agent is told so (QuestionUnanswered).
- A call that no person could ever answer is denied, and the reason says what would allow it (A6): the store dies with
  the process, there is no channel, and the program waits for the outcome for NOBODY_AFTER without reading approvals.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import anyio
from anyio.abc import TaskGroup

from supervisor.abc import Channel
from supervisor.core.errors import StoreError
from supervisor.core.reminders import Reminders
from supervisor.core.values import Approval, Approve, Decision, Deny, Policy
from supervisor.logs import FactLog
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.people.card_host import CardEvent, Left, left_by
from supervisor.runtime.people.cards import SELDOM
from supervisor.runtime.people.decide import decide
from supervisor.runtime.people.poster import Poster
from supervisor.runtime.people.remind import Reminding
from supervisor.runtime.reading.audience import Audience
from supervisor.runtime.reading.reader import Reader
from supervisor.runtime.reading.streams import Inbox

log = FactLog(__name__)

NOBODY_AFTER = 1.0  # seconds that a program has to begin reading approvals that nobody else could answer
NOBODY_ELSE = 5.0  # seconds that another process has to show what its trees ask; doubled at each look, up to SELDOM
PAGE = 500  # approvals that are looked at in one go

_ANSWERS: dict[Policy, Decision] = {
    "allow": Approve(by="--unattended allow"),
    "deny": Deny(
        by="--unattended deny",
        reason="this run was started with --unattended deny: nobody is asked; a person allows beforehand with "
        "supervisor rules allow TOOL PATTERN",
    ),
}
_NOBODY = Deny(
    by="supervisor",
    reason="nobody could ever answer: the store is in memory, there is no channel, and the program reads no approvals; "
    "give open_supervisor a file or a channel, or allow beforehand with rules=[allow(tool, pattern)] or "
    "unattended='allow' (on the command line --unattended allow)",
)


class LocalCards:
    """The host of cards that keeps approvals in this process's store; see CardHost."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def now(self) -> datetime:
        return self._runner.clock.now()

    def after(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        alarm = self._runner.alarm
        return partial(alarm.take_back, alarm.at(anyio.current_time() + seconds, callback))

    def read(self, approval: Approval) -> Approval | None:
        try:
            return self._runner.journal.store.get_approval(approval.id)
        except StoreError as error:
            log.error("approval.not_read", approval=approval.id, reason=str(error))
            return approval

    def mark(self, approval: Approval) -> Approval:
        return self._runner.blocked.mark(approval)

    def find_left(self, approval: Approval) -> dict[str, Left]:
        entries = self._runner.journal.store.journal(approval.session, approval.position)
        return left_by((entry.event for entry in entries), approval.id)

    async def note(self, approval: Approval, event: CardEvent) -> None:
        def plan(view: View) -> list[Entry]:
            if view.find_session(approval.session) is None:
                return []  # its tree was removed while a card of it could not be retired
            return [(approval.session, event)]

        try:
            await self._runner.journal.append(plan)
        except StoreError as error:
            log.error("card.not_recorded", approval=approval.id, reason=str(error))


class Posting:
    """Brings pending approvals to the channels, and what became of them."""

    def __init__(
        self,
        runner: Runner,
        reader: Reader,
        audience: Audience,
        channels: Sequence[Channel],
        unattended: Policy,
        reminders: Reminders,
        *,
        sweep: bool = False,
    ) -> None:
        """`sweep`: at the start, retire the cards that earlier processes left on these channels."""
        self._runner = runner
        self._reminding = Reminding(runner, reminders, self._show_again)
        self._reader = reader
        self._store = reader.store
        self._audience = audience
        self._sweep = sweep
        self._cards = LocalCards(runner)
        self._poster = Poster(self._cards, channels)
        self._answer = _ANSWERS.get(unattended)
        self._known: set[str] = set()
        """Approvals that are pending, and that are shown or answered by this process."""
        self._beside: set[str] = set()
        """Those of them whose trees another process owns."""
        audience.began_to_wait.connect(self._look_for_somebody)
        runner.blocked.changed.connect(self._renew_cards_of)
        runner.launcher.taken_up.connect(self.take_up)

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._follow()
        finally:
            self._poster.stop()

    async def _follow(self) -> None:
        """Show what is asked, and retire what is decided."""
        if self._is_idle:
            await anyio.sleep_forever()
        async with Inbox(self._reader, after=self._reader.now()) as changes:
            for stale in self._store.find_shown() if self._sweep else ():
                self._retire(stale)
            if self._sweep and self._poster.has_channels:
                self._cards.after(NOBODY_ELSE, partial(self._poster.start, self._look_around))
            async for approval in changes:
                if approval.status != "pending":
                    self._retire(approval)
                elif approval.id not in self._known:
                    if self._store.owns(approval.root_session):
                        self._take(approval)
                    elif self._sweep:
                        self._leave_to_owner(approval)

    def serve_in(self, tasks: TaskGroup) -> None:
        """Run the tasks that talk to channels in this task group, whose owner ends them together with `run`."""
        self._poster.serve_in(tasks)

    async def settle(self) -> None:
        """Before we leave: retire what is decided, and wait for as long as cards get shown or retired."""
        for approval_id in self._poster.held():
            approval = self._store.get_approval(approval_id)
            if approval is not None and approval.status != "pending":
                self._retire(approval)
        await self._poster.settle()

    def take_up(self, root: str) -> None:
        """A tree has become ours: show what is pending in it, and retire what is not and looks as if it were."""
        if self._is_idle:
            return
        for approval in self._store.find_approvals(root=root):
            if approval.id not in self._known:
                self._take(approval)
            elif approval.id in self._beside:
                self._beside.discard(approval.id)
                self._reminding.watch(approval)
        if self._poster.has_channels and not self._sweep:
            for stale in self._store.find_shown():
                if stale.root_session == root:
                    self._retire(stale)

    def _take(self, approval: Approval) -> None:
        self._known.add(approval.id)
        if self._answer is not None and not (approval.kind == "question" and isinstance(self._answer, Approve)):
            self._runner.start_soon(self._decide, approval, self._answer)
            return
        self._reminding.watch(approval)
        if self._poster.has_channels:
            self._poster.show(approval)
        else:
            self._look_for_somebody(approval.root_session)

    def _leave_to_owner(self, approval: Approval, wait: float = NOBODY_ELSE) -> None:
        """Another process owns the tree and shows what it asks. If it does not, this process shows it."""
        store = self._store

        def look() -> None:
            now = store.get_approval(approval.id)
            if now is None or now.status != "pending" or now.id in self._known:
                return
            is_shown = now.shown or any(each.begun_at for each in self._cards.find_left(now).values())
            if is_shown or store.get_owner(now.root_session) is None:  # the process that takes the tree up shows it
                self._leave_to_owner(now, min(SELDOM, max(NOBODY_ELSE, 2 * wait)))
            else:
                self._known.add(now.id)
                self._beside.add(now.id)
                self._poster.show(now)

        if self._poster.has_channels:
            self._cards.after(wait, look)

    async def _look_around(self) -> None:
        """Find what was pending before this process began, in trees of other processes that have not shown it."""
        after, store = 0, self._store
        while found := store.find_approvals(after=after, limit=PAGE):
            for approval in found:
                if approval.id not in self._known and not store.owns(approval.root_session):
                    self._leave_to_owner(approval, 0.0)
            after = found[-1].position
            await anyio.lowlevel.checkpoint()

    @property
    def _is_idle(self) -> bool:
        """Whether there is nobody to tell: no channel, no answer or reminder to give, and others can answer what is
        on disk."""
        has_nobody = not self._poster.has_channels and self._answer is None and self._reminding.is_idle
        return has_nobody and self._store.is_durable

    def _look_for_somebody(self, root: str) -> None:
        """A program that waits for an outcome without reading approvals, and without a channel, gets no answer."""
        has_nobody = not self._poster.has_channels and not self._store.is_durable
        if has_nobody and not isinstance(self._answer, Deny):
            self._cards.after(NOBODY_AFTER, partial(self._deny_if_nobody_reads, root))

    def _deny_if_nobody_reads(self, root: str) -> None:
        if not self._audience.has_readers and root in self._audience.awaited:
            for approval in self._store.find_approvals(root=root):
                self._runner.start_soon(self._decide, approval, _NOBODY)

    async def _decide(self, approval: Approval, decision: Decision) -> None:
        """Answer instead of a person; who waits for an answer that cannot be written is told, and asked again later."""
        try:
            await decide(self._runner, approval.id, decision)  # not by the supervisor: this is no reader (A6)
        except StoreError as error:
            log.error("decision.refused", approval=approval.id, reason=str(error))
            self._known.discard(approval.id)
            self._runner.attempts.suspend_root(approval.root_session, error)

    async def _show_again(self, approval: Approval) -> None:
        """Show an approval where its cards are, or else on the first channel that can."""
        self._poster.show(approval)

    def _renew_cards_of(self, session: str) -> None:
        """Show on the cards of a session that it is blocked, or is not any more."""
        for approval in self._store.find_approvals(session=session) if self._poster.has_channels else ():
            if approval.id in self._known:
                self._poster.show(approval)

    def _retire(self, approval: Approval) -> None:
        """A decision anywhere retires the cards everywhere."""
        self._known.discard(approval.id)
        self._beside.discard(approval.id)
        self._reminding.forget(approval.id)
        self._poster.retire(approval)
