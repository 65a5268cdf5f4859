"""One target and its cards: each card is posted, tried again until it is, and retired. A target is a channel, or one
place of it.

Rules
- If a channel's cards outlive the process, CardBegun is on disk before a card is posted. If the process dies before it
  can note the card, the next process searches for it in the time of the posting, and renews or retires it (R3). The
  same search is made if the platform did not say whether it has the card, and it is repeated after a failure.
- If a channel cannot search for cards, a card gets its buttons by a second `post`, after it was recorded. So a card
  that no process knows of has none.
- A card that could not be posted is tried again while its approval is pending: after `card_again` seconds, then twice
  as long each time, up to SELDOM (A11). A card that could not be retired is tried again in the same way (R3).
- A card is renewed only if what it shows has changed. The digest of that is noted with the card, so it holds for the
  next process, too. A process that finds cards with an old look (it is of another version) renews RENEWALS of them a
  second on each channel; until then they stay as they are.
- A card that is gone is noted as retired before a new one is posted. So no process knows of two.
- A channel may say that the cards of an earlier process are to be looked at (`remind_on_start`), at the rate of
  RENEWALS. One that is gone or lies buried is retired and posted anew. A card that has changed is renewed instead.
- A card is renewed for a reminder, and so posted anew if it is gone. The message that people get is another one
  (gathered.py).
- A failure is journaled when it first happens, and again when its reason changes. The log gets each failure.
- A channel handles AT_ONCE cards at a time, on all of its targets. New cards come first, then cards to retire, then
  messages (gathered.py), then cards to renew or to try again. A card's timeout begins with its turn, so a platform that
  takes one card a second can take a thousand.
- A channel is stuck after a card has failed in more than STUCK_AFTER_SECONDS, until a card succeeds. A stuck
  channel is not waited for: the approval is shown on the next one at once.

The module is longer than 400 lines because one place knows what may have become of a card.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from operator import attrgetter
from typing import Any, Protocol

import anyio

from supervisor.core import events as e
from supervisor.core.approvals.facts import is_whole
from supervisor.core.approvals.people import People
from supervisor.core.approvals.state import Left
from supervisor.core.encoding import printable_text
from supervisor.core.events.asking import CardEvent, ReminderEvent, target_of
from supervisor.core.values import Approval
from supervisor.runtime.people.card_host import CardHost
from supervisor.runtime.people.gathered import REMINDED, SELDOM_SECONDS, Due, Gathered
from supervisor.runtime.people.slots import URGENT, Slots
from supervisor.seam.channel import CardGone, Channel
from supervisor.seam.store import StoreAway
from supervisor.system.logs import FactLog

log = FactLog(__name__)

AT_ONCE = 4  # cards that a channel is given at the same time
FAILS_AFTER_CARDS = 3
STUCK_AFTER_SECONDS = 5.0  # seconds
RENEWALS = 3.0  # cards of an earlier process that a channel is given to renew, each second
_DIGEST_CHARACTERS = 16  # characters of the digest of what a card shows
RETIRED, RENEWED = REMINDED - 1, REMINDED + 1
"""The ranks of work that is not URGENT."""


class Start(Protocol):
    """Start a task, which is cancelled with the others when the supervisor closes."""

    def __call__(self, fn: Callable[..., Coroutine[Any, Any, None]], /, *args: object) -> None: ...


class Card:
    """The card of one approval that a channel has, or may have."""

    def __init__(self, again_in: float) -> None:
        self.id: str | None = None
        """The channel's id of the card; None: it does not exist, as far as is known."""
        self.begun_at: datetime | None = None
        """When posting it began, if it is not known whether the card was posted."""
        self.is_noted = False
        """Whether the journal says that the card exists or may exist."""
        self.shows = ""
        """The digest of what it shows; "" if that is not known."""
        self.says: Approval | None = None
        """The approval as this process last showed it."""
        self.reminded_at: datetime | None = None
        """The reminder that people got: on a new card, or in a message."""
        self.failure = ""
        """The last failure in the journal; "" after a success."""
        self.again_in = again_in
        self.turn: float | None = None
        """When it may be renewed, if an earlier process left it."""
        self.again: Callable[[], None] | None = None
        """Cancels the next try."""
        self.settled = anyio.Event()
        """Set when the card was shown or has failed."""
        self.is_under_way = False

    def take_back(self) -> None:
        """Cancel the planned next try, if there is one."""
        if self.again is not None:
            self.again()
            self.again = None


class Lane:
    """What the targets of one channel share: its slots, and whether it is stuck or fails."""

    def __init__(self, channel: Channel, failed: Counter[str]) -> None:
        self._channel = channel
        self._failed = failed
        self._in_a_row = 0
        self.slots = Slots(AT_ONCE)
        self.targets: list[Target] = []
        self.is_stuck = False
        self._next_renewal = 0.0

    def take_turn(self, now: float) -> float:
        """Return the instant at which one more card of an earlier process may be renewed."""
        turn = max(now, self._next_renewal)
        self._next_renewal = turn + 1 / RENEWALS
        return turn

    def count_failure(self, error: Exception) -> None:
        """Count a card that could not be shown. After some in a row the channel fails, whatever its check says."""
        self._failed[self._channel.name] += 1
        self._in_a_row += 1
        if self._in_a_row == FAILS_AFTER_CARDS:
            self._channel.failing = printable_text(f"{FAILS_AFTER_CARDS} cards in a row failed, the last by: {error}")
            log.warning("channel.failing", channel=self._channel.name, reason=self._channel.failing)

    def count_success(self) -> None:
        """Note that a card was shown."""
        self._in_a_row, self._channel.failing = 0, None

    def set_stuck(self, is_stuck: bool) -> None:
        if is_stuck and not self.is_stuck:
            for target in self.targets:
                target.settle_all()
        self.is_stuck = is_stuck


class Target:
    """A channel or one of its places, and its cards by approval. `channel`: as it is at that place (`Channel.at`)."""

    def __init__(
        self,
        host: CardHost,
        channel: Channel,
        start: Start,
        lane: Lane,
        place: str = "",
        *,
        is_notice: bool = False,
        people: People | None = None,
    ) -> None:
        self._host = host
        self._channel = channel
        self._start = start
        self._lane = lane
        self.is_notice = is_notice
        self._where: dict[str, Any] = {"channel": channel.name, "place": place, "is_notice": is_notice}
        """The fields by which an event names this target."""
        self.key = target_of(e.CardRetired(at=host.now(), approval="", **self._where))
        self.keeps_cards = channel.keeps_cards
        self._cards: dict[str, Card] = {}
        self._told: dict[str, datetime | None] = {}
        """The approvals of which people are told here without a card, and the last reminder that was sent."""
        alone = people.find_by_identity(channel.name, place[1:]) if people is not None and place[:1] == "@" else None
        reader = None if alone is None else alone.name
        self._gathered = Gathered(
            host, channel, lane.slots, start, self._find_due, self._begin_to_tell, self._note_sent, people, reader
        )
        lane.targets.append(self)

    def __repr__(self) -> str:
        return f"<target {self.key}, {len(self._cards)} cards>"

    def knows(self, approval: str) -> bool:
        """Whether this channel has a card of the approval, may have one, or is going to try again."""
        return approval in self._cards

    def recall(self, approval: str, left: Left) -> None:
        """Take over a card that an earlier process left."""
        if approval not in self._cards:
            card = self._cards[approval] = Card(self._channel.card_again)
            card.id, card.begun_at, card.failure, card.shows = left.card, left.begun_at, left.failure, left.shows
            card.reminded_at = left.told
            if left.told is not None:
                self._gathered.told_before(left.told)
            card.is_noted = card.id is not None or card.begun_at is not None

    def begin(self, approval: Approval, rank: int = URGENT) -> None:
        """Show an approval, or renew its card, in a task of its own; nothing if that is under way."""
        card = self._cards.setdefault(approval.id, Card(self._channel.card_again))
        self._gathered.take(approval)
        if not card.is_under_way:
            card.take_back()
            card.is_under_way, card.settled = True, anyio.Event()
            self._start(self._try, approval, card, rank)

    async def is_shown(self, approval: str) -> bool:
        """Wait until the card was shown or has failed, unless the channel is stuck. Return whether it is shown here."""
        card = self._cards.get(approval)
        if card is not None and not self._lane.is_stuck:
            await card.settled.wait()
        is_there = card is not None and card.id is not None and not card.failure
        return is_there and self._channel.asks and not self.is_notice

    def has_failed(self, approval: str) -> bool:
        """Whether the last try to show the approval here has failed."""
        return approval in self._cards and bool(self._cards[approval].failure)

    def retire(self, approval: Approval) -> None:
        """Retire the card of an approval that needs no decision any more, so that it does not look live."""
        card = self._cards.get(approval.id)
        self._told.pop(approval.id, None)
        if card is not None and not card.is_under_way:  # a task under way retires it at its end
            card.take_back()
            card.is_under_way, card.again_in = True, self._channel.card_again
            self._start(self._retire, approval, card)

    def held(self) -> list[str]:
        """Return the approvals of which this target has a card, or may have one."""
        return list(self._cards)

    def settle_all(self) -> None:
        """Let no one wait for the cards that are under way."""
        for card in self._cards.values():
            card.settled.set()

    async def note_unreachable(self, approval: Approval, why: str) -> None:
        """Note once that there is no place for a card here (A11)."""
        if self.key not in self._host.find_left(approval):
            log.warning("card.failed", target=self.key, approval=approval.id, error=why)
            await self._note(approval, e.CardFailed, error=why)

    # -- one card ----------------------------------------------------------------------------------------------------

    async def _try(self, approval: Approval, card: Card, rank: int) -> None:
        async with self._lane.slots.taken(rank):
            began, failure, asked = anyio.current_time(), None, self._find_pending(approval)
            if asked is not None:
                try:
                    with anyio.fail_after(self._channel.card_timeout):
                        await self._show(asked, card)
                except StoreAway:  # no failure of the channel's: it is begun again
                    raise
                except Exception as error:  # noqa: BLE001 # a channel may raise anything; the next one is tried
                    failure = error
                    await self._note_failure(approval, card, error)
                self._lane.set_stuck(failure is not None and anyio.current_time() - began > STUCK_AFTER_SECONDS)
        card.is_under_way = False
        card.settled.set()
        now = self._find_pending(approval)
        if now is None:
            self.retire(approval)
        elif failure is None and self._is_outdated(card, now):  # it changed while the card was being shown
            self.begin(now, RENEWED)
        elif failure is not None:
            card.again = self._later(card, partial(self.begin, approval, RENEWED))

    async def _show(self, approval: Approval, card: Card) -> None:
        """Post a card, or renew the existing one."""
        if card.id is None and (self.is_notice or self._channel.name in approval.shown):  # another process was faster
            left = self._host.find_left(approval).get(self.key)
            card.id = None if left is None else left.card
            card.is_noted = card.id is not None
            card.shows = "" if left is None else left.shows
            card.reminded_at = None if left is None else left.told
        known = found = card.id
        if card.begun_at is not None:
            found = await self._look_for(approval, card.begun_at)
        is_left = card.says is None and found is not None and found == known
        card.says = self._host.mark(approval)
        is_as_it_was = found is not None and found == known and self._is_face(card, card.says)
        is_looked_at = is_left and is_as_it_was and self._channel.remind_on_start and not self.is_notice
        if not is_as_it_was or is_looked_at:
            if is_left and self._waits_for_turn(approval, card):
                card.says = None
                return
            if is_looked_at and not await self._is_in_sight(approval, card, found or ""):
                found = None
            posted = found if is_as_it_was or found is None else await self._renew(approval, card, found)
            if posted is None:
                known = None
                posted = await self._post(approval, card)
            if posted is None:
                return
            self._lane.count_success()
            if not is_as_it_was or posted != known:
                await self._note_posted(approval, card, posted, is_new=posted != known)
        card.failure = ""
        card.again_in = self._channel.card_again

    def _waits_for_turn(self, approval: Approval, card: Card) -> bool:
        """Whether a card of an earlier process is renewed later; then plan that. A card without buttons is opened at
        once."""
        if self._channel.opens_cards and not card.shows:
            return False
        now = anyio.current_time()
        if card.turn is None:
            card.turn = self._lane.take_turn(now)
        if card.turn <= now:
            return False
        card.again = self._host.after(card.turn - now, partial(self.begin, approval, RENEWED))
        return True

    async def _renew(self, approval: Approval, card: Card, found: str) -> str | None:
        """Show an approval on its card, and return the id that the card has now; None if it does not exist any more."""
        try:
            return await self._give(approval, card, found)
        except CardGone as error:
            log.info("card.gone", target=self.key, approval=approval.id, reason=str(error))
            return None

    async def _post(self, approval: Approval, card: Card) -> str | None:
        """Post a card, and return its id; None if the approval was decided meanwhile."""
        found = None
        if self.keeps_cards:
            found = await self._claim(approval, card)
            if found is None and self._find_pending(approval) is None:  # decided meanwhile: it is not posted (A1)
                card.begun_at = None
                return None
        card.says = self._host.mark(approval)
        try:
            if found is not None and (posted := await self._renew(approval, card, found)) is not None:
                return posted
            if found is not None:  # what another process had posted is gone, too
                found, card.begun_at = None, await self._note(approval, e.CardBegun)
            return await self._give(approval, card, None)
        except Exception as error:
            if found is None and not _may_be_there(error):
                card.begun_at = None
            raise

    async def _is_in_sight(self, approval: Approval, card: Card, found: str) -> bool:
        """Return whether people see the card of an earlier process. One that lies buried is retired before the approval
        is posted anew, so that only one card looks live."""
        assert card.says is not None
        try:
            if await self._channel.is_in_sight(card.says, found):
                return True
            log.info("card.out_of_sight", target=self.key, approval=approval.id)
            await self._channel.retire(card.says, found)
        except BaseException:
            card.says = None  # it may have lost its buttons: the next try looks again
            raise
        await self._note_gone(approval, card)
        return False

    async def _note_gone(self, approval: Approval, card: Card) -> None:
        """Note that there is no card, so that no process takes it for one any more."""
        card.id, card.shows, card.begun_at = None, "", None
        if card.is_noted:
            await self._note(approval, e.CardRetired, is_gone=True)
            card.is_noted = False

    async def _give(self, approval: Approval, card: Card, found: str | None) -> str:
        """Give the channel an approval. Raises CardGone."""
        assert card.says is not None
        try:
            return await (self._channel.notify if self.is_notice else self._channel.post)(card.says, found)
        except CardGone:
            await self._note_gone(approval, card)
            raise

    async def _note_posted(self, approval: Approval, card: Card, posted: str, *, is_new: bool) -> None:
        """Note a card that was posted or renewed, and what it shows. Then open it. A new card reminds by itself.

        A card that is opened after it was noted is noted without what it shows: if this process dies in between, the
        next one opens it."""
        assert card.says is not None
        card.id, card.begun_at = posted, None
        is_kept = self._channel.asks or self.is_notice
        opens = self._channel.opens_cards and not self.is_notice
        whole = not self.is_notice and is_whole(card.says, self._channel.shows(card.says))
        note, face = partial(self._note, approval, e.CardPosted, card=posted, is_whole=whole), self._face(card.says)
        if is_new and is_kept:
            await note(shows="" if opens else face)
            card.is_noted = True
            if opens:
                await self._channel.post(card.says, posted)
        if is_new and card.says.reminded_at is not None:
            await self._note_sent(card.says)
        if not is_new and is_kept and face != card.shows:
            await note(shows=face)
        card.shows = face

    def _face(self, says: Approval, *, is_former: bool = False) -> str:
        """Return a digest of all that the card says, and of the reminder that it was renewed for; "" if the channel
        cannot tell it. `is_former`: as a former version noted it, when it had sent the reminder."""
        try:
            face = self._channel.face(says, is_notice=self.is_notice)
        except Exception as error:  # noqa: BLE001 # a channel may raise anything; its cards are shown all the same
            log.warning("card.without_face", target=self.key, approval=says.id, error=repr(error))
            face = None
        if face is None:
            return ""
        renewed_for = f"{'' if is_former or says.reminded_at is None else 'due '}{says.reminded_at}"
        return sha256(f"{renewed_for}\n{face}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]

    def tell(self, approval: Approval) -> None:
        """Tell people here of an approval in the next message, even if it has no card here."""
        if approval.id not in self._told:
            left = self._host.find_left(approval).get(self.key)
            self._told[approval.id] = None if left is None else left.told
        self._gathered.take(approval)

    def _find_due(self, approval: Approval) -> Due | None:
        """Return an approval and its card if people are to be told of it here again."""
        card, now = self._cards.get(approval.id), self._find_pending(approval)
        if now is None or now.reminded_at is None:
            return None
        if card is None or card.id is None:
            is_due = approval.id in self._told and self._told[approval.id] != now.reminded_at
            return Due(self._host.mark(now), "") if is_due else None
        if now.reminded_at == card.reminded_at:
            return None
        return None if self._was_told(card, now) else Due(self._host.mark(now), card.id)

    def _is_face(self, card: Card, says: Approval) -> bool:
        """Whether a card is known to say this already."""
        return card.shows != "" and card.shows in (self._face(says), self._face(says, is_former=True))

    def _was_told(self, card: Card, now: Approval) -> bool:
        """Whether a former version has sent the last reminder: it noted that in the digest or the id of a card."""
        assert now.reminded_at is not None
        assert card.id is not None
        is_in_digest = card.shows != "" and card.shows == self._face(self._host.mark(now), is_former=True)
        return is_in_digest or card.id.endswith(f":{now.reminded_at.timestamp():.0f}")

    async def _begin_to_tell(self, due: Sequence[Approval]) -> list[ReminderEvent | None]:
        """Note that this process is about to tell people of approvals here, unless another one has, or is about to."""
        before = await self._host.begin_to_tell(due, self._where, timedelta(seconds=self._channel.card_timeout))
        for approval, event in zip(due, before, strict=True):
            if isinstance(event, e.ReminderSent):
                self._keep_sent(approval)
        return before

    async def _note_sent(self, approval: Approval) -> None:
        """Note that people were reminded of an approval here."""
        self._keep_sent(approval)
        await self._note(approval, e.ReminderSent, due=approval.reminded_at)

    def _keep_sent(self, approval: Approval) -> None:
        assert approval.reminded_at is not None
        if (card := self._cards.get(approval.id)) is not None:
            card.reminded_at = approval.reminded_at
        if approval.id in self._told:
            self._told[approval.id] = approval.reminded_at

    async def _claim(self, approval: Approval, card: Card) -> str | None:
        """Claim the posting of a card. Return the card that another process has posted, if there is one."""
        begun = e.CardBegun(at=self._host.now(), approval=approval.id, **self._where)
        left = await self._host.claim(approval, begun)
        card.begun_at, card.is_noted = begun.at, True
        if left is None or left.card is not None or left.begun_at is None:
            return None if left is None else left.card
        return await self._look_for(approval, left.begun_at)

    async def _note_failure(self, approval: Approval, card: Card, error: Exception) -> None:
        self._lane.count_failure(error)
        log.warning("card.failed", target=self.key, approval=approval.id, error=repr(error), again_in=card.again_in)
        text = printable_text(f"{type(error).__name__}: {error}")
        if text == card.failure:
            return  # the CardBegun of this try stays in the journal, and a later process searches for the card once
        card.failure = text
        await self._note(approval, e.CardFailed, error=text)
        if card.begun_at is not None:
            await self._note(approval, e.CardBegun, card.begun_at)
        card.is_noted = card.id is not None or card.begun_at is not None

    async def _retire(self, approval: Approval, card: Card) -> None:
        """Retire a card, and try again later if that fails. A supervisor that closes does not wait for a later try."""
        failure = None
        async with self._lane.slots.taken(RETIRED):
            now = self._host.read(approval) or approval
            try:
                with anyio.fail_after(self._channel.card_timeout):
                    found = card.id
                    if card.begun_at is not None:
                        found = await self._look_for(now, card.begun_at)
                    if found is not None:
                        await self._channel.retire(now, found)
            except Exception as error:  # noqa: BLE001 # a channel may raise anything; nothing else waits for this
                failure = error
                log.warning(
                    "card.not_retired",
                    target=self.key,
                    approval=approval.id,
                    error=repr(error),
                    again_in=card.again_in,
                )
        if failure is not None:
            card.is_under_way = False
            card.again = self._later(card, partial(self._retire_again, approval, card))
            return
        if card.is_noted:
            await self._note(now, e.CardRetired)
        self._cards.pop(approval.id, None)

    def _retire_again(self, approval: Approval, card: Card) -> None:
        card.again, card.is_under_way = None, True
        self._start(self._retire, approval, card)

    def _later(self, card: Card, begin: Callable[[], None]) -> Callable[[], None]:
        wait, card.again_in = card.again_in, min(SELDOM_SECONDS, 2 * card.again_in)
        return self._host.after(wait, begin)

    async def _look_for(self, approval: Approval, begun_at: datetime) -> str | None:
        until = begun_at + timedelta(seconds=self._channel.card_timeout)
        return await self._channel.find_card(approval, begun_at, until)

    async def _note(
        self, approval: Approval, kind: type[CardEvent | ReminderEvent], at: datetime | None = None, **fields: Any
    ) -> datetime:
        """Keep an event of this target, and return its instant; None is now."""
        instant = at or self._host.now()
        await self._host.note(approval, kind(at=instant, approval=approval.id, **self._where, **fields))
        return instant

    def _is_outdated(self, card: Card, now: Approval) -> bool:
        """Return whether the card shows an old state: blocked or not, reminded or not, who is on it, and
        what the preview says."""
        if (said := card.says) is None:
            return False
        now = self._host.mark(now)
        shown = attrgetter("blocked", "reminded_at", "acknowledged", "evidence")
        return bool(shown(said) != shown(now))

    def _find_pending(self, approval: Approval) -> Approval | None:
        """Return an approval as it is now; None if it needs no decision any more."""
        now = self._host.read(approval)
        return now if now is not None and now.status == "pending" else None


def _may_be_there(error: Exception) -> bool:
    """Return whether a card may have been posted although its channel raised this error; see Channel.post."""
    return isinstance(error, OSError) and not isinstance(error, ConnectionRefusedError)
