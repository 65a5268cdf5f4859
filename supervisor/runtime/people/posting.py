"""Select the approvals that this process shows to people, or answers instead of them; poster.py shows them.

Posting begins after the approval's commit, and never delays that commit (A1).

Rules
- When this process claims a tree, it posts all pending approvals of the tree (R3).
- A process shows the approvals of the trees that it owns. A process that claims trees as it runs (a daemon) also shows
  an approval of another process that no channel has shown for OWNER_TIME_SECONDS. It lets the steps of all approvals
  come (remind.py). If a step has come and no process owns the tree, it shows the approval, and tells people of it; if
  one owns the tree and shows it, it tells people in the targets that the step names.
- Any process renews the cards on its channels of trees that no process runs: it takes the presses on them, and their
  conversation may have changed.
- A supervisor that closes after the last answer retires its cards first, unless one takes longer than LEAVING. A later
  process retires the others (R3): a daemon those of every tree, any other process those of its own trees.
- A card waits for the evidence of its call until that is due, and no longer (A18). Evidence that comes later renews it.
- `unattended` answers in place of people, under its own name. The setting is never stored. It says yes to nothing that
  needs several people (A17), and does not approve questions: if it allows calls, people are still asked these. If it
  denies calls, a question is denied, too, and the agent gets QuestionUnanswered.
- A call that no person can ever answer is denied, and the reason says what would allow it (A6). That is so if the store
  is in memory, there is no channel, and the program has waited for the outcome for READER_TIME_SECONDS without
  reading approvals.

The module is longer than 400 lines because the host of cards and what it is asked of an approval are one story.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import chain
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from supervisor.core.approvals.people import People
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.approvals.routes import Route
from supervisor.core.approvals.state import PENDING, ApprovalState, Left, fold, telling_now
from supervisor.core.budgets import TOOL as BUDGET
from supervisor.core.declarations.previews import PREVIEW_SECONDS
from supervisor.core.errors import StoreDied, StoreError, StoreUnreadable
from supervisor.core.events.asking import (
    CardBegun,
    CardEvent,
    CardRetired,
    ReminderBegun,
    ReminderEvent,
    ReminderSent,
    target_of,
)
from supervisor.core.values import Approval, Approve, Decision, Deny, Policy, as_of
from supervisor.runtime.clock.alarm import Appointment
from supervisor.runtime.clock.patience import endless, until_answered
from supervisor.runtime.journal.pages import pages_of
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.people.card_host import CardHost
from supervisor.runtime.people.decide import decide
from supervisor.runtime.people.gathered import SELDOM_SECONDS
from supervisor.runtime.people.poster import UNREAD_SECONDS, Poster
from supervisor.runtime.people.remind import Reminding
from supervisor.runtime.reading.audience import Audience
from supervisor.runtime.reading.inputs import Inputs
from supervisor.runtime.reading.reader import Reader
from supervisor.runtime.reading.streams import Inbox
from supervisor.seam.channel import Channel
from supervisor.seam.store import Store
from supervisor.system.logs import FactLog

log = FactLog(__name__)

READER_TIME_SECONDS = 1.0  # seconds in which a program begins to read the approvals that only it can answer
OWNER_TIME_SECONDS = (
    5.0  # seconds in which another process shows the approvals of its trees; doubled each time, up to SELDOM
)
_TELLING: Final = tuple(each.__name__ for each in (ReminderBegun, ReminderSent))
PAGE = 500  # approvals that are read, or whose cards are retired, between two checkpoints

_ANSWERS: dict[Policy, Decision] = {
    "allow": Approve(by="--unattended allow"),
    "deny": Deny(
        by="--unattended deny",
        reason="this run was started with --unattended deny, which asks no one; allow the call beforehand with "
        "supervisor rules allow TOOL PATTERN",
    ),
}
_NO_READER = Deny(
    by="supervisor",
    reason="no person can answer: the store is in memory, there is no channel, and the program reads no approvals; "
    "give open_supervisor a file or a channel, or allow the call beforehand with rules=[allow(tool, pattern)] or "
    "unattended='allow' (on the command line --unattended allow)",
)


_LARGER: Final = "give it a larger budget (--budget, or supervisor budget SESSION): no rule allows more"


def _fitting(approval: Approval, decision: Decision) -> Decision:
    """Return an answer whose reason says what helps, which is no rule where a budget is used up."""
    if approval.tool != BUDGET or not isinstance(decision, Deny) or decision.reason is None:
        return decision
    return replace(decision, reason=f"{decision.reason.partition(';')[0]}; {_LARGER}")


class LocalCards:
    """The host of cards that keeps approvals in this process's store; see CardHost."""

    def __init__(self, runner: Runner, inputs: Inputs) -> None:
        self._runner = runner
        self._inputs = inputs

    @cached_property
    def _me(self) -> str:
        """The name of this process, by which others know who is about to tell people."""
        return self._runner.environment.new_session_id()

    def now(self) -> datetime:
        return self._runner.clock.now()

    def after(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        alarm, planned = self._runner.alarm, list[Appointment]()

        def plan(wait: float) -> None:
            planned[:] = [alarm.at(anyio.current_time() + wait, call)]

        def call() -> None:
            try:
                callback()
            except StoreError as error:
                log.error("approvals.not_read", reason=str(error))
                plan(UNREAD_SECONDS)

        plan(seconds)
        return lambda: alarm.take_back(planned[0])

    def read(self, approval: Approval) -> Approval | None:
        try:
            found = self._runner.journal.store.get_approval(approval.id)
            return None if found is None else as_of(found, self._runner.clock.has_passed)
        except StoreError as error:
            log.error("approval.not_read", approval=approval.id, reason=str(error))
            return approval

    def mark(self, approval: Approval) -> Approval:
        return self._runner.blocked.mark(self._inputs.add_to(approval))

    def find_left(self, approval: Approval) -> dict[str, Left]:
        entries = self._runner.journal.store.journal(approval.session, approval.position)
        return fold((entry.event for entry in entries), approval.id).left

    async def claim(self, approval: Approval, begun: CardBegun) -> Left | None:
        await self.note(approval, begun)
        return None

    async def begin_to_tell(
        self, due: Sequence[Approval], where: Mapping[str, Any], lasts: timedelta
    ) -> list[ReminderEvent | None]:
        journal, target = self._runner.journal, target_of(CardRetired(at=self.now(), approval="", **where))
        after = journal.store.last_position()
        known = [self._state(each, journal.store, each.position, PENDING) for each in due]

        def plan(view: View) -> tuple[list[Entry], list[ReminderEvent | None]]:
            entries, before, now = list[Entry](), list[ReminderEvent | None](), self.now()
            for each, state in zip(due, known, strict=True):
                left = self._state(each, view.store, after, state).left.get(target, Left())
                before.append(telling_now(left, each.reminded_at, self._me, now, lasts))
                if before[-1] is None and view.find_readable(each.session) is not None:
                    begun = ReminderBegun(at=now, approval=each.id, due=each.reminded_at or now, by=self._me, **where)
                    entries.append((each.session, begun))
            return entries, before

        return await journal.append_with_answer(plan)

    def _state(self, approval: Approval, store: Store, after: int, state: ApprovalState) -> ApprovalState:
        """Return what is noted after a position of the messages that told of an approval."""
        try:
            entries = store.journal(approval.session, after, only=_TELLING)
        except StoreUnreadable:
            return state
        return fold((entry.event for entry in entries), approval.id, state)

    async def note(self, approval: Approval, event: CardEvent | ReminderEvent) -> None:
        def plan(view: View) -> list[Entry]:
            if view.find_session(approval.session) is None:
                return []  # its tree was pruned, although a card could not be retired
            return [(approval.session, event)]

        try:
            await self._runner.journal.append(plan)
        except StoreError as error:
            log.error("card.not_recorded", approval=approval.id, reason=str(error))


class Posting:
    """Brings pending approvals to the channels, and retires decided ones."""

    def __init__(
        self,
        runner: Runner,
        reader: Reader,
        audience: Audience,
        channels: Sequence[Channel],
        unattended: Policy,
        reminders: Reminders,
        failed: Counter[str] | None = None,
        *,
        sweep: bool = False,
        routes: Sequence[Route] = (),
        people: People | None = None,
        cards: CardHost | None = None,
        serves: Callable[[str], bool] | None = None,
    ) -> None:
        """`failed`: counts the cards that could not be shown, by channel. `sweep`: serve the approvals of all trees,
        as a daemon does. At the start, retire the cards that earlier processes left on these channels. `cards`: where
        cards are noted; None: in the store. `serves`: whether this process shows what the tree of a root asks; None: if
        it owns the tree."""
        self._runner = runner
        self._reminding = Reminding(runner, reminders)
        self._reader = reader
        self._store = reader.store
        self._audience = audience
        self._sweep = sweep
        self._serves = self._store.owns if serves is None else serves
        self._first_look = OWNER_TIME_SECONDS if serves is None else 0.0
        self._cards = LocalCards(runner, reader.inputs) if cards is None else cards
        self._poster = Poster(self._cards, channels, failed, routes, people)
        self._people = people
        self._answer = _ANSWERS.get(unattended)
        self._known: set[str] = set()
        """The pending approvals that this process shows or answers."""
        self._foreign: set[str] = set()
        """Those of them whose trees another process owns."""
        self._expected: set[str] = set()
        """Those whose cards wait for evidence."""
        audience.began_to_wait.connect(self._check_reader_later)
        runner.blocked.changed.connect(partial(runner.attempts.ask, self._renew_cards_of))
        runner.launcher.claimed.connect(self.recover)

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._follow()
        except StoreDied:
            pass  # all callers are told
        finally:
            self._poster.stop()

    async def _follow(self) -> None:
        """Show approvals that are asked, and retire those that are decided."""
        if self._is_idle:
            await anyio.sleep_forever()
        async with AsyncExitStack() as stack:
            inbox = Inbox(self._reader, after=await until_answered(self._reader.now))
            changes = await endless(stack.enter_async_context)(inbox)
            for number, stale in enumerate(await until_answered(self._store.find_shown) if self._sweep else ()):
                await until_answered(self._retire, stale)
                if number % PAGE == 0:
                    await anyio.lowlevel.checkpoint()
            if self._poster.has_channels:
                self._cards.after(
                    self._first_look if self._sweep else 0.0, partial(self._poster.start, self._look_around)
                )
            async for approval in changes:
                await until_answered(self._follow_one, approval)

    def _follow_one(self, approval: Approval) -> None:
        if approval.status != "pending":
            self._retire(approval)
        elif approval.id in self._known:
            self._tell_again(approval)  # a card says how many have voted, too
        elif self._serves(approval.root_session):
            self._take(approval)
        elif self._sweep:
            self._reminding.watch(approval)
            self._leave_to_owner(approval)

    def serve_in(self, tasks: TaskGroup) -> None:
        """Run the tasks that talk to channels in this task group, whose owner ends them together with `run`."""
        self._poster.serve_in(tasks)

    async def settle(self) -> None:
        """Retire decided approvals, and wait for the cards under way. Called before the supervisor closes."""
        for approval_id in self._poster.held():
            approval = await until_answered(self._store.get_approval, approval_id)
            if approval is not None and approval.status != "pending":
                await until_answered(self._retire, approval)
        await self._poster.settle()

    def recover(self, trees: Mapping[str, Sequence[Approval]]) -> None:
        """Show what is pending in trees that this process has claimed, and retire their old cards."""
        if self._is_idle:
            return
        for approval in chain.from_iterable(trees.values()):
            if approval.id not in self._known:
                self._take(approval)
            elif approval.id in self._foreign:
                self._foreign.discard(approval.id)
                self._tell_again(approval)
        if self._poster.has_channels and not self._sweep:
            self._runner.attempts.ask(self._retire_shown, {*trees})

    def _retire_shown(self, roots: Collection[str]) -> None:
        for stale in self._store.find_shown():
            if stale.root_session in roots:
                self._retire(stale)

    def _take(self, approval: Approval) -> None:
        self._known.add(approval.id)
        if self._answer is not None and not self._needs_people(approval, self._answer):
            self._runner.start_soon(self._decide, approval, self._answer)
            return
        self._reminding.watch(approval)
        if self._poster.has_channels:
            self._show(approval)
        else:
            self._check_reader_later(approval.root_session)

    def _show(self, approval: Approval) -> None:
        """Show an approval; if its call has a preview, with the evidence, or when it is due (A18)."""
        wait = 0.0 if approval.shown else self._wait_for_evidence(approval)
        if not wait:
            self._expected.discard(approval.id)
            self._poster.show(approval)
        elif approval.id not in self._expected:
            self._expected.add(approval.id)
            self._cards.after(wait, partial(self._show_late, approval.id))

    def _wait_for_evidence(self, approval: Approval) -> float:
        """Return the seconds for which its first card waits for evidence."""
        if approval.evidence_due is None or approval.evidence:
            return 0.0
        return min(PREVIEW_SECONDS, max(0.0, (approval.evidence_due - self._cards.now()).total_seconds()))

    def _show_late(self, approval_id: str) -> None:
        """Show an approval of which no evidence has come in time."""
        if approval_id in self._expected:
            now = self._store.get_approval(approval_id)
            self._expected.discard(approval_id)
            if now is not None and now.status == "pending":
                self._poster.show(now)

    def _needs_people(self, approval: Approval, answer: Decision) -> bool:
        """Whether a standing answer does not decide an approval: a yes to what no rule can allow, or where several must
        say it."""
        if not isinstance(answer, Approve):
            return False
        several = self._people is not None and self._people.find_quorum(approval, answer) > 1
        return several or approval.kind == "question" or approval.tool == BUDGET

    def _leave_to_owner(self, approval: Approval, wait: float = OWNER_TIME_SECONDS) -> None:
        """Leave an approval to the process that owns its tree. Show it if that process has not shown it by then."""
        store = self._store

        def look() -> None:
            now = store.get_approval(approval.id)
            if now is None or now.status != "pending" or now.id in self._known:
                return
            is_shown = now.shown or any(each.begun_at for each in self._cards.find_left(now).values())
            is_left = store.get_owner(now.root_session) is None
            if now.reminded_at is None and (is_shown or is_left):  # the process that claims the tree shows it
                self._leave_to_owner(now, min(SELDOM_SECONDS, max(OWNER_TIME_SECONDS, 2 * wait)))
            elif is_shown and not is_left:
                self._poster.tell(now)
            else:
                self._known.add(now.id)
                self._foreign.add(now.id)
                self._show(now)

        if self._poster.has_channels:
            self._cards.after(wait + self._wait_for_evidence(approval), look)

    async def _look_around(self) -> None:
        """Find the approvals that were asked before this process began, and that it has to show: a daemon those that
        are not shown, any other process those whose cards on its channels no process renews."""
        for found in pages_of(self._store.find_approvals, PAGE):
            for approval in found:
                if approval.id in self._known:
                    continue
                if not self._sweep:
                    await until_answered(self._renew_left, approval)
                elif not self._serves(approval.root_session):
                    self._reminding.watch(approval)
                    self._leave_to_owner(approval, 0.0)
                elif not self._store.owns(approval.root_session):
                    self._take(approval)
            await anyio.lowlevel.checkpoint()

    def _renew_left(self, approval: Approval) -> None:
        if self._poster.keeps_card_of(approval) and self._store.get_owner(approval.root_session) is None:
            self._known.add(approval.id)
            self._foreign.add(approval.id)
            self._show(approval)

    @property
    def _is_idle(self) -> bool:
        """Whether there is nothing to do: no channel, no answer or reminder to give, and a durable store, in which
        other processes can decide."""
        is_passive = not self._poster.has_channels and self._answer is None and self._reminding.is_idle
        return is_passive and self._store.is_durable

    def _check_reader_later(self, root: str) -> None:
        """After READER_TIME_SECONDS, deny the approvals of a tree if only this program could answer and it reads
        none."""
        only_a_reader_can_answer = not self._poster.has_channels and not self._store.is_durable
        if only_a_reader_can_answer and not isinstance(self._answer, Deny):
            self._cards.after(READER_TIME_SECONDS, partial(self._deny_without_reader, root))

    def _deny_without_reader(self, root: str) -> None:
        if not self._audience.has_readers and root in self._audience.awaited:
            for approval in self._store.find_approvals(root=root):
                self._runner.start_soon(self._decide, approval, _NO_READER)

    async def _decide(self, approval: Approval, decision: Decision) -> None:
        """Answer in place of a person. If the store refuses the answer, suspend the tree, whose next attempt asks
        again."""
        try:
            # By the runner: no reader decides (A6).
            await decide(self._runner, approval.id, _fitting(approval, decision))
        except StoreError as error:
            log.error("decision.refused", approval=approval.id, reason=str(error))
            self._known.discard(approval.id)
            self._runner.attempts.suspend_root(approval.root_session, error)

    def _tell_again(self, approval: Approval) -> None:
        """Renew the cards of an approval that this process shows, and tell people that it still waits."""
        self._reminding.watch(approval)
        if self._poster.has_channels and self._answer is None:
            self._show(approval)

    def _renew_cards_of(self, session: str) -> None:
        """Renew the cards of a session that has become blocked or unblocked."""
        for approval in self._store.find_approvals(session=session) if self._poster.has_channels else ():
            if approval.id in self._known:
                self._show(approval)

    def _retire(self, approval: Approval) -> None:
        """Retire the cards of a decided approval on all channels."""
        self._known.discard(approval.id)
        self._foreign.discard(approval.id)
        self._expected.discard(approval.id)
        self._reminding.forget(approval.id)
        self._poster.retire(approval)
