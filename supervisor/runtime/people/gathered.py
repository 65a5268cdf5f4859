"""What is to be told again in one conversation: gathered, and sent as one message.

    due (ApprovalReminded) -> gathered -> begun (ReminderBegun) -> one message (remind_all) -> sent (ReminderSent)

Rules
- A message goes out `gather` seconds after the first reminder that it tells of, and tells of all that is due by then
  and still waits. What comes later begins the next message, which goes out `gather_again` seconds after this one, or
  later. What is urgent goes out at once, and takes along what was gathered.
- What a person is on waits until the steps go on. What a person wants to hear later, or not in quiet hours, waits where
  only that person reads.
- A message is never added to: people would not hear of that.
- Each approval that a message tells of is noted before it is sent and after it was. So of several processes that serve
  a conversation one sends, and the others look again when its time is over. A process that dies in between lets the
  next one repeat the message once, with what was not noted.
- What another process tells people of in a conversation counts for the five minutes of this one, too.
- New cards come before messages, and messages before cards that are only to be renewed (slots.py).
- A message that fails is tried again as a card is: after `card_again` seconds, then twice as long each time.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import anyio

from supervisor.core.approvals.people import People
from supervisor.core.events.asking import ReminderEvent, ReminderSent
from supervisor.core.values import Approval
from supervisor.runtime.people.card_host import CardHost
from supervisor.runtime.people.slots import Slots
from supervisor.seam.channel import Channel
from supervisor.system.logs import FactLog

log = FactLog(__name__)

SELDOM_SECONDS = 600.0  # the longest wait until a message or card is tried again
RECALLED_SECONDS = 5.0  # in which a process finds what an earlier one has left to tell
REMINDED = 2
"""The rank of a message among the work of a channel."""


class Due(NamedTuple):
    """An approval that still waits, and its card in the conversation; "" if it has none there."""

    approval: Approval
    card: str


class Gathered:
    """The reminders of one target. `find_due`: returns an approval as it is now, if a reminder is to be sent for it
    here; `begin`: keeps that it is about to be sent, and returns what keeps this process from that; `note`: keeps that
    it was sent; `reader`: the name of the one person who reads there, if it is one."""

    def __init__(
        self,
        host: CardHost,
        channel: Channel,
        slots: Slots,
        start: Callable[..., None],
        find_due: Callable[[Approval], Due | None],
        begin: Callable[[Sequence[Approval]], Awaitable[list[ReminderEvent | None]]],
        note: Callable[[Approval], Awaitable[None]],
        people: People | None = None,
        reader: str | None = None,
    ) -> None:
        self._host = host
        self._channel = channel
        self._slots = slots
        self._start = start
        self._find_due = find_due
        self._begin_to_tell = begin
        self._note = note
        self._people = people
        self._reader = reader
        self._waiting: dict[str, Approval] = {}
        self._sending: dict[str, Approval] = {}
        """What the message tells of that is under way."""
        self._at: float | None = None
        """When the next message goes out; None: none is planned."""
        self._cancel: Callable[[], None] | None = None
        self._not_before = 0.0
        self._again_in = channel.card_again

    def take(self, approval: Approval) -> None:
        """Tell people again of an approval, in the next message."""
        is_under_way = approval.id in self._sending and self._sending[approval.id].reminded_at == approval.reminded_at
        if approval.reminded_at is None or is_under_way or self._find_due(approval) is None:
            return
        self._waiting[approval.id] = approval
        gather, age = self._channel.gather, (self._host.now() - approval.reminded_at).total_seconds()
        wait, now = max(min(gather, RECALLED_SECONDS), gather - max(0.0, age)), anyio.current_time()
        at = now if self._is_urgent(approval) else max(now + wait, self._not_before)
        self._plan(max(now + self._held(approval), at))

    def _is_urgent(self, approval: Approval) -> bool:
        return self._people is not None and self._people.urgency_of(approval) == "high"

    def _held(self, approval: Approval) -> float:
        """Return for how many seconds people hear nothing of an approval here: a person is on it, or the one who reads
        here wants to hear of it later."""
        now = self._host.now()
        untils = [now] if approval.acknowledged is None else [now, approval.acknowledged.until]
        if self._people is not None and self._reader is not None:
            untils.append(self._people.held_until(self._reader, approval, now) or now)
        return (max(untils) - now).total_seconds()

    def told_before(self, due: datetime) -> None:
        """An earlier process sent a message here for a reminder that was due at this instant, or later."""
        left = self._channel.gather_again - (self._host.now() - due).total_seconds()
        self._not_before = max(self._not_before, anyio.current_time() + min(left, self._channel.gather_again))

    def _plan(self, at: float) -> None:
        if self._at is not None and self._at <= at:
            return
        if self._cancel is not None:
            self._cancel()
        self._at, self._cancel = at, self._host.after(max(0.0, at - anyio.current_time()), self._begin)

    def _begin(self) -> None:
        self._at = self._cancel = None
        self._start(self._send)

    async def _send(self) -> None:
        async with self._slots.taken(REMINDED):
            taken, self._waiting = self._waiting, {}
            oldest = sorted(taken.values(), key=lambda each: (each.created_at, each.position))
            found = [due for each in oldest if (due := self._find_due(each)) is not None]
            for due in [each for each in found if self._held(each.approval)]:
                found.remove(due)
                self.take(due.approval)
            self._sending |= {due.approval.id: due.approval for due in found}
            try:
                mine = await self._take_turns(found)
                if not mine:
                    return
                self._not_before = anyio.current_time() + self._channel.gather_again
                with anyio.fail_after(self._channel.card_timeout):
                    await self._tell(mine)
                for due in mine:
                    await self._note(due.approval)
            except Exception as error:  # noqa: BLE001 # a channel may raise anything; the message is tried again
                log.warning("reminder.failed", channel=self._channel.name, error=repr(error), again_in=self._again_in)
                self._waiting = {**taken, **self._waiting}
                self._plan(anyio.current_time() + self._again_in)
                self._again_in = min(SELDOM_SECONDS, 2 * self._again_in)
            else:
                self._again_in = self._channel.card_again
            finally:
                for due in found:
                    self._sending.pop(due.approval.id, None)

    async def _take_turns(self, found: Sequence[Due]) -> list[Due]:
        """Return what this process tells of now. If another one has just told people here, or is about to, all that is
        not urgent waits until the next message is allowed."""
        before = await self._begin_to_tell([due.approval for due in found]) if found else []
        others = [event.at for event in before if event is not None]
        for at in others:
            self.told_before(at)
        mine, now = list[Due](), anyio.current_time()
        for due, event in zip(found, before, strict=True):
            next_at = now if self._is_urgent(due.approval) or not others else self._not_before
            if event is None and next_at <= now:
                mine.append(due)
            elif not isinstance(event, ReminderSent):
                self._waiting.setdefault(due.approval.id, due.approval)
                self._plan(next_at if event is None else max(next_at, now + self._channel.card_timeout))
        return mine

    async def _tell(self, found: Sequence[Due]) -> None:
        if len(found) == 1:
            await self._channel.remind(*found[0])
        else:
            await self._channel.remind_all(found)
