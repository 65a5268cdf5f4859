"""Approvals are shown to people: each goes to the first channel that takes it, and its cards are retired when it is
decided.

Runs beside the order of A1, after the approval's commit, and never delays it.

Rules
- All that are pending are posted when a tree is taken up, with the card that an earlier process left, so that the
  channel can renew it rather than leave it looking live (R3).
- Approvals of trees that this process owns; where it adopts trees, also what another process asks that has shown it to
  nobody for NOBODY_ELSE seconds.
- A channel that fails is passed over, and the journal says so (A11): the next one is asked as well, and the first one
  is tried again (runtime/targets.py), by a later process, too. With none left the call stays pending: command line,
  inbox and status show that no card could be posted.
- Who leaves after the last answer retires its cards first, as long as one does not take longer than LEAVING. What is
  left then a later start does (R3): of every tree where it adopts, of its own trees otherwise.
- `unattended` answers instead of people, by name; the setting is never stored. A question has no yes: where calls are
  approved it is asked as ever, and where they are denied nobody is asked, which the agent is told (QuestionUnanswered).
- Where nobody could ever answer, the call is denied and the reason says what would allow it (A6): the store dies with
  the process, there is no channel, and the program waits for the outcome for NOBODY_AFTER without reading approvals.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup

from supervisor.abc import Channel
from supervisor.core.errors import StoreError
from supervisor.core.reminders import Reminders
from supervisor.core.values import Approval, Approve, Decision, Deny, Policy
from supervisor.logs import FactLog
from supervisor.runtime.deciding import decide
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.reminding import Reminding
from supervisor.runtime.runner import Runner
from supervisor.runtime.slots import URGENT
from supervisor.runtime.streams import Inbox
from supervisor.runtime.targets import RENEWED, SELDOM, Target, find_left

log = FactLog(__name__)

NOBODY_AFTER = 1.0  # seconds that a program has to begin reading approvals that nobody else could answer
NOBODY_ELSE = 5.0  # seconds that another process has to show what its trees ask; doubled at each look, up to SELDOM
PAGE = 500  # approvals that are looked at in one go
LEAVING = 30.0  # seconds that a program which leaves waits for one more card to be shown or retired

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


class Posting:
    """Brings pending approvals to the channels, and what became of them."""

    def __init__(
        self,
        runner: Runner,
        supervisor: LocalSupervisor,
        channels: Sequence[Channel],
        unattended: Policy,
        reminders: Reminders,
        *,
        sweep: bool = False,
    ) -> None:
        """`sweep`: when it begins, retire what earlier processes left behind on these channels."""
        self._runner = runner
        self._reminding = Reminding(runner, reminders, self._show_again)
        self._supervisor = supervisor
        self._sweep = sweep
        self._targets = [Target(runner, channel, self._start) for channel in channels]
        self._answer = _ANSWERS.get(unattended)
        self._keeps_cards = any(channel.keeps_cards for channel in channels)
        self._known: set[str] = set()
        """Approvals that are pending, and that are shown or answered by this process."""
        self._beside: set[str] = set()
        """Those of them whose trees another process owns."""
        self._tasks: TaskGroup | None = None
        self._under_way = 0
        self._progress = anyio.Event()
        supervisor.began_to_wait.connect(self._look_for_somebody)
        runner.blocked.changed.connect(self._renew_cards_of)
        runner.launcher.taken_up.connect(self.take_up)

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._follow()
        finally:
            self._tasks = None

    async def _follow(self) -> None:
        """Show what is asked, and retire what is decided."""
        if self._is_idle:
            await anyio.sleep_forever()
        changes = Inbox(self._supervisor, self._supervisor.store.last_position())
        for stale in self._supervisor.store.find_shown() if self._sweep else ():
            self._retire(stale)
        if self._sweep and self._targets:
            look_around = partial(self._start, self._look_around)
            self._runner.alarm.at(anyio.current_time() + NOBODY_ELSE, look_around)
        async for approval in changes:
            if approval.status != "pending":
                self._retire(approval)
            elif approval.id not in self._known:
                if self._supervisor.store.owns(approval.root_session):
                    self._take(approval)
                elif self._sweep:
                    self._leave_to_owner(approval)

    def serve_in(self, tasks: TaskGroup) -> None:
        """Own the tasks that talk to channels; whoever owns the task group ends them with `run`."""
        self._tasks = tasks

    async def settle(self) -> None:
        """Before we leave: retire what is decided, and wait for as long as cards get shown or retired."""
        for approval_id in {each for target in self._targets for each in target.held()}:
            approval = self._supervisor.store.get_approval(approval_id)
            if approval is not None and approval.status != "pending":
                self._retire(approval)
        while self._under_way:
            with anyio.move_on_after(LEAVING) as patience:
                await self._progress.wait()
            if patience.cancelled_caught:
                return

    def _start(self, fn: Callable[..., Awaitable[None]], /, *args: object) -> None:
        if self._tasks is not None:
            self._under_way += 1
            self._tasks.start_soon(self._count, fn, *args)

    async def _count(self, fn: Callable[..., Awaitable[None]], *args: object) -> None:
        try:
            await fn(*args)
        finally:
            self._under_way -= 1
            self._progress.set()
            self._progress = anyio.Event()

    def take_up(self, root: str) -> None:
        """A tree has become ours: show what is pending in it, and retire what is not and looks as if it were."""
        if self._is_idle:
            return
        for approval in self._supervisor.store.find_approvals(root=root):
            if approval.id not in self._known:
                self._take(approval)
            elif approval.id in self._beside:
                self._beside.discard(approval.id)
                self._reminding.watch(approval)
        if self._targets and not self._sweep:
            for stale in self._supervisor.store.find_shown():
                if stale.root_session == root:
                    self._retire(stale)

    def _take(self, approval: Approval) -> None:
        self._known.add(approval.id)
        if self._answer is not None and not (approval.kind == "question" and isinstance(self._answer, Approve)):
            self._runner.start_soon(self._decide, approval, self._answer)
            return
        self._reminding.watch(approval)
        if self._targets:
            self._start(self._post, approval)
        else:
            self._look_for_somebody(approval.root_session)

    def _leave_to_owner(self, approval: Approval, wait: float = NOBODY_ELSE) -> None:
        """Another process owns the tree, and shows what it asks; we do if that shows it to nobody."""
        store = self._supervisor.store

        def look() -> None:
            now = store.get_approval(approval.id)
            if now is None or now.status != "pending" or now.id in self._known:
                return
            is_shown = now.shown or any(each.begun_at for each in find_left(self._runner, now).values())
            if is_shown or store.get_owner(now.root_session) is None:  # whoever takes the tree up shows it
                self._leave_to_owner(now, min(SELDOM, max(NOBODY_ELSE, 2 * wait)))
            else:
                self._known.add(now.id)
                self._beside.add(now.id)
                self._start(self._post, now)

        if self._targets:
            self._runner.alarm.at(anyio.current_time() + wait, look)

    async def _look_around(self) -> None:
        """Find what was pending before this process began, and that another one owns and has shown to nobody."""
        after, store = 0, self._supervisor.store
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
        has_nobody = not self._targets and self._answer is None and self._reminding.is_idle
        return has_nobody and self._supervisor.store.is_durable

    def _look_for_somebody(self, root: str) -> None:
        """A program that waits for an outcome, and reads no approvals, waits for nobody."""
        if not self._targets and not isinstance(self._answer, Deny) and not self._supervisor.store.is_durable:
            self._runner.alarm.at(anyio.current_time() + NOBODY_AFTER, partial(self._deny_if_nobody_reads, root))

    def _deny_if_nobody_reads(self, root: str) -> None:
        if not self._supervisor.has_readers and root in self._supervisor.awaited:
            for approval in self._supervisor.store.find_approvals(root=root):
                self._runner.start_soon(self._decide, approval, _NOBODY)

    async def _decide(self, approval: Approval, decision: Decision) -> None:
        """Answer instead of a person; who waits for an answer that cannot be written is told, and asked again later."""
        try:
            await decide(self._runner, approval.id, decision)  # not by the supervisor: this is no reader (A6)
        except StoreError as error:
            log.error("decision.refused", approval=approval.id, reason=str(error))
            self._known.discard(approval.id)
            self._runner.attempts.suspend_root(approval.root_session, error)

    async def _post(self, approval: Approval) -> None:
        """Show an approval where it was shown, or tried, before; if it is not shown by that, on the first channel that
        takes it."""
        self._recall(approval)
        known = [target for target in self._targets if target.knows(approval.id)]
        for target in known:
            target.begin(approval, RENEWED)
        is_shown = False
        for target in known:
            is_shown |= await target.is_shown(approval.id)
        for target in self._targets:
            if is_shown or self._is_decided(approval):
                return
            if target not in known:
                target.begin(approval, URGENT)
                is_shown = await target.is_shown(approval.id)
        if not is_shown and any(target.has_failed(approval.id) for target in self._targets):
            log.warning("card.not_posted", approval=approval.id, session=approval.session)

    async def _show_again(self, approval: Approval) -> None:
        """Show an approval where its cards are, or else on the first channel that can."""
        if self._targets:
            self._start(self._post, approval)

    def _renew_cards_of(self, session: str) -> None:
        """Show on the cards of a session that it is blocked, or is not any more."""
        for approval in self._supervisor.store.find_approvals(session=session) if self._targets else ():
            if approval.id in self._known:
                self._start(self._post, approval)

    def _recall(self, approval: Approval) -> None:
        """Let the channels know what an earlier process left (R3)."""
        if (approval.shown or self._keeps_cards) and not any(target.knows(approval.id) for target in self._targets):
            left = find_left(self._runner, approval)
            for target in self._targets:
                if target.name in left:
                    target.recall(approval.id, left[target.name])

    def _retire(self, approval: Approval) -> None:
        """A decision anywhere retires the cards everywhere."""
        self._known.discard(approval.id)
        self._beside.discard(approval.id)
        self._reminding.forget(approval.id)
        self._recall(approval)
        for target in self._targets:
            target.retire(approval)

    def _is_decided(self, approval: Approval) -> bool:
        now = self._supervisor.store.get_approval(approval.id)
        return now is None or now.status != "pending"
