"""The cards of approvals on all channels: each approval goes to the targets of its route, or to the first channel that
takes it, and a decision retires all of its cards.

posting.py selects the approvals to show. card_host.py is the seam to the place where they are kept.

Rules
- If an earlier process left a card of an approval, its target gets it and can renew it, so that no old card looks live
  (R3). That is so even if today's routes do not name the target.
- If a channel fails, that is noted (A11). The approval then also goes to the next channel, and the first one is tried
  again (cards.py), even by a later process. If all channels fail, the call stays pending, and command line, inbox and
  status show that no card could be posted.
- Every target of a route gets a card at once, and is tried again by itself, so none waits for another. If no target
  shows the approval, the screens of this process take it, as the inbox. It is not posted on another platform: a
  failure must not widen who can read it.
- What cards there are is in the journal of the session. While that cannot be read (a newer program has written in it,
  the store is away), no card of its approvals is posted or retired, and all others are.
- "@approvers" is a direct message to each person who may decide. It is resolved each time the approval is shown, so
  people who may decide it since an escalation get one, too.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from supervisor.core.approvals.people import People
from supervisor.core.approvals.routes import APPROVERS, Route, find_route, split_target
from supervisor.core.errors import InvalidInput, StoreDied, StoreError
from supervisor.core.events.asking import NOTICE
from supervisor.core.values import Approval
from supervisor.runtime.clock.patience import endless
from supervisor.runtime.people.card_host import CardHost
from supervisor.runtime.people.cards import RENEWED, Lane, Target
from supervisor.runtime.people.slots import URGENT
from supervisor.seam.channel import Channel
from supervisor.seam.store import StoreAway
from supervisor.system.logs import FactLog

log = FactLog(__name__)

LEAVING_SECONDS = 30.0  # seconds for which a closing supervisor waits for the next card to be shown or retired
UNREAD_SECONDS = 60.0
"""Seconds after which it is read again which cards there are, if the store could not tell."""
_UNREACHABLE = "no person who may decide it has an identity on this channel"


class Poster:
    """Shows approvals on channels and retires their cards, in tasks of its own.

    `failed`: counts the cards that could not be shown, by channel.
    """

    def __init__(
        self,
        host: CardHost,
        channels: Sequence[Channel],
        failed: Counter[str] | None = None,
        routes: Sequence[Route] = (),
        people: People | None = None,
    ) -> None:
        counted: Counter[str] = Counter() if failed is None else failed
        self._host = host
        self._routes = routes
        self._people = people
        self._channels = {channel.name: channel for channel in channels}
        self._lanes = {channel.name: Lane(channel, counted) for channel in channels}
        self._targets: dict[str, Target] = {}
        self._in_order = [self._add(channel.name, is_notice=channel.only_notifies) for channel in channels]
        self._keeps_cards = any(channel.keeps_cards for channel in channels)
        self._tasks: TaskGroup | None = None
        self._under_way = 0
        self._progress = anyio.Event()

    @property
    def has_channels(self) -> bool:
        return bool(self._targets)

    def keeps_card_of(self, approval: Approval) -> bool:
        """Whether a channel of this process has a card of an approval, also one that an earlier process posted."""
        return any(name in self._channels and self._channels[name].keeps_cards for name in approval.shown)

    def serve_in(self, tasks: TaskGroup) -> None:
        """Run the tasks that talk to channels in this task group, whose owner ends them. No task starts before this
        call."""
        self._tasks = tasks

    def stop(self) -> None:
        """Start no more tasks."""
        self._tasks = None

    def show(self, approval: Approval) -> None:
        """Show an approval, or renew its cards. Does nothing without a channel."""
        if self._targets:
            self.start(self._post, approval)

    def retire(self, approval: Approval) -> None:
        """Retire the cards of an approval on all channels."""
        try:
            self._recall(approval)
        except StoreError as error:
            self._put_off(approval, self.retire, error)
        for target in self._targets.values():
            target.retire(approval)

    def held(self) -> set[str]:
        """Return the approvals that have a card on some channel, or may have one."""
        return {each for target in self._targets.values() for each in target.held()}

    async def settle(self) -> None:
        """Wait until all cards are shown or retired, as long as one of them makes progress every LEAVING seconds."""
        while self._under_way:
            with anyio.move_on_after(LEAVING_SECONDS) as patience:
                await self._progress.wait()
            if patience.cancelled_caught:
                return

    def start(self, fn: Callable[..., Coroutine[Any, Any, None]], /, *args: object) -> None:
        """Start a task that `settle` waits for. It begins again if the store is away."""
        if self._tasks is not None:
            self._under_way += 1
            self._tasks.start_soon(self._count, fn, *args)

    async def _count(self, fn: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        try:
            await endless(fn)(*args)
        except StoreDied:
            pass  # all callers are told
        finally:
            self._under_way -= 1
            self._progress.set()
            self._progress = anyio.Event()

    def _put_off(self, approval: Approval, do: Callable[[Approval], None], error: StoreError) -> None:
        """Do it later: which cards of an approval there are is not known now. A store that is away is waited for by the
        caller."""
        if isinstance(error, StoreAway | StoreDied):
            raise error
        log.error("cards.not_read", approval=approval.id, session=approval.session, reason=str(error))
        self._host.after(UNREAD_SECONDS, partial(do, approval))

    async def _post(self, approval: Approval) -> None:
        try:
            await self._post_where_meant(approval)
        except StoreError as error:
            self._put_off(approval, self.show, error)

    async def _post_where_meant(self, approval: Approval) -> None:
        """Show an approval on the targets that have its card or tried to post one, and on the targets of its route. If
        none of them shows it, show it on the first other channel that takes it."""
        self._recall(approval)
        known = [target for target in self._targets.values() if target.knows(approval.id)]
        for target in known:
            target.begin(approval, RENEWED)
        route = find_route(self._routes, approval)
        routed = [] if route is None else [each async for each in self._routed(approval, route) if each not in known]
        for target in routed:
            target.begin(approval, URGENT)
        self.tell(approval)
        is_shown = False
        for target in (*known, *routed):
            is_shown |= await target.is_shown(approval.id)
        for target in self._others(route):
            now = self._host.read(approval)
            if is_shown or now is None or now.status != "pending":
                return
            if target not in known and target not in routed:
                target.begin(approval, URGENT)
                is_shown = await target.is_shown(approval.id)
        if not is_shown and any(target.has_failed(approval.id) for target in self._targets.values()):
            log.warning("card.not_posted", approval=approval.id, session=approval.session)

    def _others(self, route: Route | None) -> list[Target]:
        """Return the targets that take an approval if those of its route do not: every channel without a route; every
        channel that asks, if the route only notifies; or else the screens."""
        if route is None:
            return self._in_order
        return [target for target in self._in_order if not (target.keeps_cards if route.ask else target.is_notice)]

    async def _routed(self, approval: Approval, route: Route) -> AsyncIterator[Target]:
        """Iterate over the targets of a route. Where no person can be reached, that is noted (A11)."""
        for named in (*route.ask, *(f"{NOTICE}{target}" for target in route.notify)):
            channel, place = split_target(named.removeprefix(NOTICE))
            is_notice = named.startswith(NOTICE)
            places = self._places(approval, channel, place)
            for each in places:
                yield self._add(channel, each, is_notice=is_notice)
            if not places:
                lane = Lane(self._channels[channel], Counter())  # of its own, since nothing is posted
                unreachable = Target(self._host, self._channels[channel], self.start, lane, place)
                await unreachable.note_unreachable(approval, _UNREACHABLE)

    def tell(self, approval: Approval) -> None:
        """Tell people of an approval where its last step says."""
        for named in approval.told_in:
            channel, place = split_target(named)
            if channel not in self._channels:  # another process serves it
                continue
            for each in self._places(approval, channel, place):
                try:
                    target = self._add(channel, each, is_notice=self._channels[channel].only_notifies)
                except InvalidInput as error:  # today's configuration has no such place
                    log.warning("target.not_reached", target=named, approval=approval.id, error=str(error))
                else:
                    target.tell(approval)

    def _places(self, approval: Approval, channel: str, place: str) -> list[str]:
        """Return the places of a channel that are meant: each person who may decide, or the one that is named."""
        if place != APPROVERS:
            return [place]
        return [f"@{identity}" for identity in (self._people.find_deciders(approval, channel) if self._people else ())]

    def _recall(self, approval: Approval) -> None:
        """Give the targets the cards that an earlier process left (R3)."""
        if not (approval.shown or self._keeps_cards) or any(t.knows(approval.id) for t in self._targets.values()):
            return
        for key, left in self._host.find_left(approval).items():
            channel, place = split_target(key.removeprefix(NOTICE))
            if channel in self._channels and place != APPROVERS and left.is_of_card:
                try:
                    target = self._add(channel, place, is_notice=key.startswith(NOTICE))
                except InvalidInput as error:  # it was configured in another way when the card was posted
                    log.warning("card.not_reached", target=key, approval=approval.id, error=str(error))
                else:
                    target.recall(approval.id, left)

    def _add(self, channel: str, place: str = "", *, is_notice: bool = False) -> Target:
        """Return a target, which is made at its first use. Raises InvalidInput for a place that the channel does not
        have."""
        key = f"{NOTICE * is_notice}{channel}{':' * bool(place)}{place}"
        if key not in self._targets:
            whole = self._channels[channel]
            there = whole.at(place) if place else whole
            self._targets[key] = Target(
                self._host,
                there,
                self.start,
                self._lanes[channel],
                place,
                is_notice=is_notice,
                people=self._people,
            )
        return self._targets[key]
