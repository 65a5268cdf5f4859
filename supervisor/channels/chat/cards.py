"""The cards of a chat platform: they are shown, renewed, found, looked at, reminded of and retired, the same on all
platforms.

Rules
- A process may die after it posted a card and before it recorded the card. So the channel searches for such a card,
  around the time of the post: before it posts a second card, and when the approval has ended.
- A platform that cannot be searched gets a card without buttons, which come when the store has recorded it
  (`opens_cards`): a process that dies in between leaves a text, and no card that looks live.
- A reminder of several cards is one message in each conversation where they stand, as a reply to the first of them.
- A card stands in the place of its session, or in the configured conversation. One that stands in another conversation,
  since the configuration was changed, is retired and posted anew.
- What follows a refusal is in refusals.py.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, Final, Self, TypeVar

import msgspec

from supervisor.channels.chat.acts import Place
from supervisor.channels.chat.answering import Answering
from supervisor.channels.chat.conversations import Conversations
from supervisor.channels.chat.platform import BURIED
from supervisor.channels.chat.refusals import FOLLOWS, Deed, Refused, Then, what_follows
from supervisor.channels.chat.verbs import CARD, Drawn, Face, Mentioned, Platform, Seen
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import MENTIONED, Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.text.visible import json_text
from supervisor.core.values import Approval
from supervisor.seam.channel import CardGone, Channel
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

CLOCKS_DIFFER: Final = timedelta(seconds=60)  # between our clock and the platform's, at most
T = TypeVar("T")


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel on a platform is told. `people`: the configured people and their rights; their identities are
    configured under `name`. `agent`: people talk to it on the platform; None: cards only. `link`: the address of the
    web inbox, for requests that are too long for a card. `mention`: whom a card mentions."""

    name: str
    people: People
    agent: AgentSpec[..., Any] | None = None
    link: str | None = None
    mention: Mention = "approvers"


class PlatformCards(Channel):
    """A channel's cards on a platform. `home`: the configured conversation."""

    card_timeout = 120.0  # platforms may tell us to wait for a minute
    keeps_cards = True
    remind_on_start = True

    def __init__(self, platform: Platform, home: Place, asking: Asking) -> None:
        self.name = asking.name
        self.people: People = asking.people
        self.platform = platform
        self.opens_cards = not platform.limits.searches
        self._home = home
        self._answering = Answering(asking.name, asking.people)
        self._chat = platform.make_chat(self._serving)
        self.conversations: Conversations | None = None
        if asking.agent is not None and self._chat is not None:
            self.conversations = Conversations(self._chat, asking.agent, self._answering)
        self._link = asking.link
        self._mention = asking.mention
        self._fixed = ""
        """The place of `at`, to which all cards go; "" for the channel itself."""
        self._located: dict[Place, Place] = {}
        self._gone: dict[str, str] = {}
        """The card of each approval in whose place another one is to be posted."""
        self._supervisor: Supervisor | None = None

    def __repr__(self) -> str:
        return f"<{self.name}, conversation {self._home.conversation}>"  # never a token

    def _serving(self) -> Supervisor:
        assert self._supervisor is not None, "people act only while the channel serves"
        return self._supervisor

    async def check(self) -> str:
        is_serving, talks = self._supervisor is not None, self.conversations is not None
        return await self.platform.check(self._home, is_serving=is_serving, talks=talks)

    def at(self, place: str) -> Self:
        there = copy(self)
        there._home, there._fixed, there.conversations = self.platform.place(place), place, None  # noqa: SLF001 # of this class
        return there

    # -- what Channel asks -------------------------------------------------------------------------------------------

    async def post(self, approval: Approval, card: str | None) -> str:
        return await self._show(approval, card, "card")

    async def notify(self, approval: Approval, card: str | None) -> str:
        return await self._show(approval, card, "notice")

    def face(self, approval: Approval, *, is_notice: bool = False) -> str:
        return json_text(self._draw("notice" if is_notice else "card", approval).content)

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return self.platform.shows(approval)

    async def remind(self, approval: Approval, card: str) -> None:
        home = self._place_of(approval)
        place = await self.platform.below(home, card) if card else await self._locate(home)
        await self._remind(place, approval, card)

    async def remind_all(self, due: Sequence[tuple[Approval, str]]) -> None:
        places = dict[str, list[tuple[Approval, str]]]()
        for approval, card in due:
            there = _parts(card)[0] if card else (await self._locate(self._place_of(approval))).conversation
            places.setdefault(there, []).append((approval, card))
        for conversation, ((approval, card), *others) in places.items():
            if others:
                await self._remind(Place(conversation), approval, card, [each for each, _ in others])
            else:
                await self.remind(approval, card)

    async def _remind(self, place: Place, approval: Approval, card: str, others: Sequence[Approval] = ()) -> None:
        """Post a reminder, unless it stands there already."""
        assert approval.reminded_at is not None
        drawn = self._draw("reminder", approval, card, others)
        if self.platform.limits.searches:
            async with self._find(place, approval.reminded_at, _now()) as messages:
                async for message in messages:
                    if drawn.mark in message.marks:
                        return
        await self._write(place, drawn)

    async def retire(self, approval: Approval, card: str) -> None:
        if approval.status != "pending":
            self._gone.pop(approval.id, None)
        is_replaced = self._gone.get(approval.id) == card
        await self._edit(card, self._draw("retired", approval), "replace" if is_replaced else "retire")

    async def find_card(self, approval: Approval, since: datetime, until: datetime) -> str | None:
        if not self.platform.limits.searches:
            return None
        for named in dict.fromkeys([self._place_of(approval), self._home]):
            try:
                place = await self._locate(named)
                async with self._find(place, since, until) as messages:
                    async for message in messages:
                        if f"{CARD}{approval.id}" in message.marks:
                            return f"{place.conversation}:{message.message}"
            except Refused as error:  # then a second card may be posted, which is better than none
                log.warning("card.not_looked_for", channel=self.name, approval=approval.id, error=str(error))
        return None

    async def is_in_sight(self, approval: Approval, card: str) -> bool:
        is_seen = await self._is_in_place(approval, card) and await self._is_seen(approval, card)
        if not is_seen:
            self._gone[approval.id] = card
        return is_seen

    # -- how ---------------------------------------------------------------------------------------------------------

    async def _show(self, approval: Approval, card: str | None, face: Face) -> str:
        if card is None:
            return await self._post(
                approval, self._draw("unopened" if self.opens_cards and face == "card" else face, approval)
            )
        await self._renew(approval, card, self._draw(face, approval))
        return card

    async def _post(self, approval: Approval, drawn: Drawn) -> str:
        """Post a card in the place of its session, or else in the configured conversation."""
        began, place, gone = _now(), self._place_of(approval), self._gone.get(approval.id, "")
        # what was posted before may be gone, or elsewhere, so a deleted card and a place count
        once = f"{approval.id} {gone} {self._fixed}" if gone or self._fixed else approval.id
        try:
            try:
                posted = await self._write(place, drawn, once)
            except Refused as error:
                if place == self._home:
                    raise
                log.warning("place.refused", channel=self.name, session=approval.root_session, error=str(error))
                posted = await self._write(self._home, drawn, once)
        except ConnectionRefusedError:
            raise
        except OSError:  # the platform may have posted the card before its answer was lost
            found = await self.find_card(approval, began, _now())
            if found is None:
                raise
            posted = found
        return posted

    async def _renew(self, approval: Approval, card: str, drawn: Drawn) -> None:
        """Show an approval on its old card. Raises CardGone if another card is to take its place."""
        if await self._is_in_place(approval, card):
            then = await self._edit(card, drawn, "renew")
        else:
            await self._edit(card, self._draw("retired", approval), "replace")
            then = "lost"
        if then == "kept":
            log.warning("card.not_renewed", channel=self.name, approval=approval.id)
        if then == "lost":
            self._gone[approval.id] = card
            raise CardGone(f"{self.name} has no card {card} any more, or not where its approval is shown now")

    async def _edit(self, card: str, drawn: Drawn, deed: Deed) -> Then:
        """Replace the content of a card, and return what follows."""
        try:
            await self._insist(Place(_parts(card)[0]), partial(self.platform.edit, card, drawn.content))
        except Refused as error:
            then = what_follows(error, deed)
            log.info("card.refused", channel=self.name, card=card, meaning=error.meaning, then=then, error=str(error))
            return then
        return "done"

    async def _write(self, place: Place, drawn: Drawn, once: str = "") -> str:
        return await self._insist(place, partial(self.platform.write, place, drawn.content, once))

    async def _insist(self, place: Place, request: Callable[[], Awaitable[T]]) -> T:
        """Make a request. If the place is closed, open it, and make the request once more."""
        try:
            return await request()
        except Refused as error:
            if not (FOLLOWS[error.meaning].opens and self.platform.limits.reopens):
                raise
            try:
                await self.platform.reopen(place)
            except Refused as refused:
                log.warning("place.not_opened", channel=self.name, place=place.conversation, error=str(refused))
                raise error from None
        return await request()

    async def _is_in_place(self, approval: Approval, card: str) -> bool:
        """Return whether a card stands in a conversation where it would be posted today."""
        conversation, begun = _parts(card)[0], self.platform.place_of(approval.root_session)
        if conversation == self._home.conversation or (
            begun and not self._fixed and conversation == begun.conversation
        ):
            return True
        try:
            return conversation == (await self._locate(self._home)).conversation
        except Refused as error:
            log.warning("card.not_looked_at", channel=self.name, approval=approval.id, error=str(error))
            return True

    async def _is_seen(self, approval: Approval, card: str) -> bool:
        """Return whether a card is there, and few messages follow it."""
        if not self.platform.limits.searches:  # an edit that changes nothing tells whether it is there
            return await self._edit(card, self._draw("card", approval), "renew") != "lost"
        conversation, message = _parts(card)
        home = self._place_of(approval)
        for place in dict.fromkeys(
            [home if home.conversation == conversation else Place(conversation), Place(conversation)]
        ):
            try:
                if (is_seen := await self._is_seen_in(place, message)) is not None:  # a thread may have refused it
                    return is_seen
            except Refused as error:
                if what_follows(error, "look") == "kept":  # what cannot be read is left alone
                    log.warning("card.not_looked_at", channel=self.name, approval=approval.id, error=str(error))
                    return True
        return False

    async def _is_seen_in(self, place: Place, card: str) -> bool | None:
        """Return whether few messages follow a card; None if it is not there."""
        is_there, later, order = False, 0, self.platform.order
        async with self._find(place, card, _now()) as messages:
            async for each in messages:
                is_there |= each.message == card
                later += not each.is_card and order(each.message) > order(card)
                if later >= BURIED:
                    return False
        return True if is_there else None

    def _find(
        self, place: Place, since: datetime | str, until: datetime
    ) -> AbstractAsyncContextManager[AsyncGenerator[Seen, None]]:
        begins = since if isinstance(since, str) else since - CLOCKS_DIFFER
        return aclosing(self.platform.find(place, begins, until + CLOCKS_DIFFER))

    async def _locate(self, named: Place) -> Place:
        if named not in self._located:
            self._located[named] = await self.platform.locate(named)
        return self._located[named]

    def _place_of(self, approval: Approval) -> Place:
        begun = self.platform.place_of(approval.root_session) if self.conversations is not None else None
        return begun or self._home

    def _draw(self, face: Face, approval: Approval, card: str = "", others: Sequence[Approval] = ()) -> Drawn:
        mentioned = () if face == "retired" else self._mentioned(face, approval, others)
        return self.platform.draw(face, approval, link=self._link, mentioned=mentioned, card=card, others=others)

    def _mentioned(self, face: Face, approval: Approval, others: Sequence[Approval]) -> Mentioned:
        """Return the people whom a card or message mentions."""
        if self.platform.is_direct(self._place_of(approval)):
            return ()
        find = self.people.find_mentioned if face != "reminder" else partial(self.people.find_told, now=_now())
        every = [find(each, self._mention, self.name) for each in (approval, *others)]
        found = list(dict.fromkeys(chain.from_iterable(every)))[:MENTIONED]
        known = [(each, self.people.find_by_identity(self.name, each)) for each in found]
        form = self.platform.limits.identity
        return [(id_, person.name) for id_, person in known if person is not None and re.fullmatch(form, id_)]


def _parts(card: str) -> tuple[str, str]:
    """Return the conversation and the message of a card."""
    conversation, message, *_ = card.split(":")
    return conversation, message


def _now() -> datetime:
    return datetime.now().astimezone()
