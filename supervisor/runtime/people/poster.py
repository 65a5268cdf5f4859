"""The cards of approvals on all channels: each approval goes to the first channel that takes it, and a decision retires
its cards on all channels.

posting.py selects the approvals to show. card_host.py is the seam to the place where they are kept.

Rules
- If an earlier process left a card of an approval, the channel gets it and can renew it, so that no old card looks live
  (R3).
- If a channel fails, that is noted (A11). The approval then also goes to the next channel, and the first one is tried
  again (cards.py), even by a later process. If all channels fail, the call stays pending, and command line, inbox and
  status show that no card could be posted.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from supervisor.abc import Channel
from supervisor.core.values import Approval
from supervisor.logs import FactLog
from supervisor.runtime.people.card_host import CardHost
from supervisor.runtime.people.cards import RENEWED, Target
from supervisor.runtime.people.slots import URGENT

log = FactLog(__name__)

LEAVING = 30.0  # seconds for which a closing supervisor waits for the next card to be shown or retired


class Poster:
    """Shows approvals on channels and retires their cards, in tasks of its own."""

    def __init__(self, host: CardHost, channels: Sequence[Channel]) -> None:
        self._host = host
        self._targets = [Target(host, channel, self.start) for channel in channels]
        self._keeps_cards = any(channel.keeps_cards for channel in channels)
        self._tasks: TaskGroup | None = None
        self._under_way = 0
        self._progress = anyio.Event()

    @property
    def has_channels(self) -> bool:
        return bool(self._targets)

    def serve_in(self, tasks: TaskGroup) -> None:
        """Run the tasks that talk to channels in this task group, whose owner ends them. None starts before."""
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
        self._recall(approval)
        for target in self._targets:
            target.retire(approval)

    def held(self) -> set[str]:
        """Return the approvals that have a card on some channel, or may have one."""
        return {each for target in self._targets for each in target.held()}

    async def settle(self) -> None:
        """Wait until all cards are shown or retired, as long as one of them makes progress every LEAVING seconds."""
        while self._under_way:
            with anyio.move_on_after(LEAVING) as patience:
                await self._progress.wait()
            if patience.cancelled_caught:
                return

    def start(self, fn: Callable[..., Awaitable[None]], /, *args: object) -> None:
        """Start a task that `settle` waits for."""
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

    async def _post(self, approval: Approval) -> None:
        """Show an approval on the channels that have its card or tried to post one. If none of them shows it, show it
        on the first other channel that takes it."""
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

    def _recall(self, approval: Approval) -> None:
        """Give the channels the cards that an earlier process left (R3)."""
        if (approval.shown or self._keeps_cards) and not any(target.knows(approval.id) for target in self._targets):
            left = self._host.find_left(approval)
            for target in self._targets:
                if target.name in left:
                    target.recall(approval.id, left[target.name])

    def _is_decided(self, approval: Approval) -> bool:
        now = self._host.read(approval)
        return now is None or now.status != "pending"
