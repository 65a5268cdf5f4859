"""Approvals are shown to people: each goes to the first channel that takes it, and its cards are retired when it is
decided.

Runs beside the order of A1, after the approval's commit, and never delays it.

Rules
- Only approvals of trees that this process owns; all that are pending are posted when a tree is taken up, with the card
  that an earlier process left, so that the channel can renew it rather than leave it looking live (R3).
- A channel that raises, or takes longer than its `card_timeout`, is passed over, and the journal says so (A11). With
  none left the call stays pending: command line, inbox and status show that no card could be posted.
- A channel has AT_ONCE cards in hand; the others wait their turn, for which no clock runs, so that a thousand at once
  are not too many for a platform that takes one a second.
- That a card is about to be posted is on disk before, where cards outlive the process: if it dies before it can note
  the card, the next one has it looked for, in the time in which it was posted, and renews or retires it (R3). So it is
  where the platform did not come to say whether it has the card, and where it could not be looked for.
- A card that cannot be retired is tried again until it is; what is left when the process ends, a later start does (R3).
- `unattended` answers instead of people, by name; the setting is never stored. A question has no yes: where calls are
  approved it is asked as ever, and where they are denied nobody is asked, which the agent is told (QuestionUnanswered).
- Where nobody could ever answer, the call is denied and the reason says what would allow it (A6): the store dies with
  the process, there is no channel, and the program waits for the outcome for NOBODY_AFTER without reading approvals.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

import anyio

from supervisor.abc import Channel
from supervisor.core import events as e
from supervisor.core.encoding import printable
from supervisor.core.errors import StoreError
from supervisor.core.reminders import Reminders
from supervisor.core.values import Approval, Approve, Decision, Deny
from supervisor.logs import FactLog
from supervisor.runtime.deciding import decide
from supervisor.runtime.journal import Entry, View
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.reminding import Reminding
from supervisor.runtime.runner import Runner
from supervisor.runtime.streams import Inbox

log = FactLog(__name__)

AT_ONCE = 4  # cards that a channel is given at the same time
RETIRE_AGAIN = 5.0  # seconds until a card that could not be retired is tried again; doubled each time, up to
RETIRE_SELDOM = 600.0  # seconds
NOBODY_AFTER = 1.0  # seconds that a program has to begin reading approvals that nobody else could answer
Card = str | datetime
"""What finds a card again; or when it was about to be posted, by a process that did not come to note it."""
Unattended = Literal["ask", "approve", "deny"]

_ANSWERS: dict[str, Decision] = {
    "approve": Approve(by="--approve all"),
    "deny": Deny(
        by="--approve none",
        reason="this run was started with --approve none: nobody is asked; a person allows beforehand with "
        "supervisor allow TOOL PATTERN",
    ),
}
_NOBODY = Deny(
    by="supervisor",
    reason="nobody could ever answer: the store is in memory, there is no channel, and the program reads no approvals; "
    "give open_supervisor a file or a channel, or allow beforehand with rules=[allow(tool, pattern)] or --approve all "
    "(unattended='approve')",
)


class Posting:
    """Brings pending approvals to the channels, and what became of them."""

    def __init__(
        self,
        runner: Runner,
        supervisor: LocalSupervisor,
        channels: Sequence[Channel],
        unattended: Unattended,
        reminders: Reminders,
        *,
        sweep: bool = False,
    ) -> None:
        """`sweep`: when it begins, retire what earlier processes left behind on these channels."""
        self._runner = runner
        self._reminding = Reminding(runner, reminders, self._show_again)
        self._supervisor = supervisor
        self._sweep = sweep
        self._channels = {channel.name: channel for channel in channels}
        self._turns = {name: anyio.CapacityLimiter(AT_ONCE) for name in self._channels}
        self._answer = _ANSWERS.get(unattended)
        self._keeps_cards = any(channel.keeps_cards for channel in channels)
        self._cards: dict[str, dict[str, Card]] = {}
        """Approval -> channel -> card of what is pending and shown."""
        self._known: set[str] = set()
        supervisor.began_to_wait = self._look_for_somebody

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._is_idle:
            await anyio.sleep_forever()
        changes = Inbox(self._supervisor, self._supervisor.store.last_position())
        for stale in self._supervisor.store.find_shown() if self._sweep else ():
            self._retire_all(stale)
        async for approval in changes:
            if approval.status != "pending":
                self._known.discard(approval.id)
                self._reminding.forget(approval.id)
                self._retire_all(approval)
            elif approval.id not in self._known and self._supervisor.store.owns(approval.root_session):
                self._take(approval)

    def take_up(self, root: str) -> None:
        """A tree has become ours: show what is pending in it."""
        if self._is_idle:
            return
        for approval in self._supervisor.store.find_approvals(root=root):
            if approval.id not in self._known:
                self._take(approval)

    def _take(self, approval: Approval) -> None:
        self._known.add(approval.id)
        if self._answer is not None and not (approval.kind == "question" and isinstance(self._answer, Approve)):
            self._runner.start_soon(self._decide, approval, self._answer)
            return
        self._reminding.watch(approval)
        if self._channels:
            self._runner.start_soon(self._post, approval)
        else:
            self._look_for_somebody(approval.root_session)

    @property
    def _is_idle(self) -> bool:
        """Whether there is nobody to tell: no channel, no answer or reminder to give, and others can answer what is
        on disk."""
        has_nobody = not self._channels and self._answer is None and self._reminding.is_idle
        return has_nobody and self._supervisor.store.is_durable

    def _look_for_somebody(self, root: str) -> None:
        """A program that waits for an outcome, and reads no approvals, waits for nobody."""
        if not self._channels and not isinstance(self._answer, Deny) and not self._supervisor.store.is_durable:
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
            self._runner.suspend_root(approval.root_session, error)

    async def _post(self, approval: Approval) -> None:
        """Show an approval on the first channel that can; where an earlier process has shown it, before all others."""
        cards = self._cards[approval.id] = self._find_cards(approval)
        for name in sorted(self._channels, key=lambda name: name not in cards):
            async with self._turns[name]:
                if self._is_decided(approval):
                    self._cards.pop(approval.id, None)
                    return
                is_shown = await self._show(approval, name, cards.get(name))
            if is_shown:
                return
        log.warning("card.not_posted", approval=approval.id, session=approval.session)

    async def _show_again(self, approval: Approval) -> None:
        """Show an approval where its card is, or else on the first channel that can."""
        if self._channels:
            await self._post(approval)

    async def _show(self, approval: Approval, name: str, old: Card | None) -> bool:
        """Post a card, or renew the old one; False if the channel cannot."""
        begun = old if isinstance(old, datetime) else None
        try:
            channel = self._channels[name]
            with anyio.fail_after(channel.card_timeout):
                found = await _find(channel, approval, old)
                begun = None
                if found is None and channel.keeps_cards:
                    begun = self._runner.clock.now()
                    await self._note(approval, e.CardBegun(at=begun, approval=approval.id, channel=name))
                    if self._is_decided(approval):  # meanwhile: it is not posted (A1)
                        await self._note(approval, e.CardRetired(at=begun, approval=approval.id, channel=name))
                        return True
                card = await channel.post(approval, found)
        except Exception as error:  # noqa: BLE001 # a channel may raise anything; the next one is asked
            log.warning("card.failed", channel=name, approval=approval.id, error=repr(error))
            await self._note(approval, _failed(self._runner, approval, name, error))
            if begun is not None and (begun is old or _may_be_there(error)):
                await self._note(approval, e.CardBegun(at=begun, approval=approval.id, channel=name))
                self._remember(approval, name, begun)
            return False
        if card != old:
            now = self._runner.clock.now()
            await self._note(approval, e.CardPosted(at=now, approval=approval.id, channel=name, card=card))
        self._remember(approval, name, card)
        return True

    def _remember(self, approval: Approval, name: str, card: Card) -> None:
        """There is a card, or may be one: it is retired when its approval is decided, or now."""
        if self._is_decided(approval):
            self._runner.start_soon(self._retire, approval, name, card)
        else:
            self._cards.setdefault(approval.id, {})[name] = card

    def _find_cards(self, approval: Approval) -> dict[str, Card]:
        """Return the cards of an approval, channel by channel: this process's, or what earlier ones have left (R3)."""
        if (known := self._cards.get(approval.id)) is not None or not (approval.shown or self._keeps_cards):
            return known or {}
        found: dict[str, Card] = {}
        for row in self._supervisor.store.journal(approval.session, approval.position):
            match row.event:
                case e.CardBegun(approval=approval.id) as begun:
                    found[begun.channel] = begun.at
                case e.CardPosted(approval=approval.id) as posted:
                    found[posted.channel] = posted.card
                case e.CardFailed(approval=approval.id) as failed if isinstance(found.get(failed.channel), datetime):
                    del found[failed.channel]
                case e.CardRetired(approval=approval.id) as retired:
                    found.pop(retired.channel, None)
                case _:
                    pass
        return {name: card for name, card in found.items() if name in self._channels}

    def _retire_all(self, approval: Approval) -> None:
        """A decision anywhere retires the cards everywhere."""
        if self._channels:
            for name, card in self._find_cards(approval).items():
                self._runner.start_soon(self._retire, approval, name, card)
            self._cards.pop(approval.id, None)

    def _is_decided(self, approval: Approval) -> bool:
        now = self._supervisor.store.get_approval(approval.id)
        return now is None or now.status != "pending"

    async def _retire(self, approval: Approval, name: str, card: Card, again_in: float = RETIRE_AGAIN) -> None:
        """Retire a card; if that cannot be done now, later, which holds up nobody who leaves."""
        now, channel = self._supervisor.store.get_approval(approval.id) or approval, self._channels[name]
        try:
            async with self._turns[name]:
                with anyio.fail_after(channel.card_timeout):
                    if (found := await _find(channel, now, card)) is not None:
                        await channel.retire(now, found)
        except Exception as error:  # noqa: BLE001 # a channel may raise anything; nothing else waits for this
            log.warning("card.not_retired", channel=name, approval=approval.id, error=repr(error), again_in=again_in)
            later = partial(self._retire, approval, name, card, min(RETIRE_SELDOM, 2 * again_in))
            self._runner.alarm.at(anyio.current_time() + again_in, partial(self._runner.start_soon, later))
        else:
            await self._note(now, e.CardRetired(at=self._runner.clock.now(), approval=approval.id, channel=name))

    async def _note(self, approval: Approval, event: e.AnyEvent) -> None:
        def plan(view: View) -> list[Entry]:
            if view.find_session(approval.session) is None:
                return []  # its tree was removed while a card of it could not be retired
            return [(approval.session, event)]

        try:
            await self._runner.journal.append(plan)
        except StoreError as error:
            log.error("card.not_recorded", approval=approval.id, reason=str(error))


async def _find(channel: Channel, approval: Approval, card: Card | None) -> str | None:
    if isinstance(card, datetime):
        return await channel.find_card(approval, card, card + timedelta(seconds=channel.card_timeout))
    return card


def _may_be_there(error: Exception) -> bool:
    """Whether a card may have been posted although its channel raised this; see Channel.post."""
    return isinstance(error, OSError) and not isinstance(error, ConnectionRefusedError)


def _failed(runner: Runner, approval: Approval, channel: str, error: Exception) -> e.CardFailed:
    text = printable(f"{type(error).__name__}: {error}")
    return e.CardFailed(at=runner.clock.now(), approval=approval.id, channel=channel, error=text)
