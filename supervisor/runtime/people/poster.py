"""The cards of approvals on all channels: each approval goes to the first channel that takes it, and a decision retires
its cards everywhere.

posting.py says which approvals are shown, and when. card_host.py is the seam to where they are kept.

Rules
- An approval is shown with the card that an earlier process left, so that the channel can renew it rather than leave it
  looking live (R3).
- A channel that fails is passed over, and that is noted (A11): the next one is asked as well, and the first one is
  tried again (cards.py), by a later process, too. With none left the call stays pending: command line, inbox
  and status show that no card could be posted.
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

LEAVING = 30.0  # seconds that a program which leaves waits for one more card to be shown or retired


class Poster:
    """Shows approvals on channels, in tasks of its own, and retires their cards."""

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
        """Start no task any more."""
        self._tasks = None

    def show(self, approval: Approval) -> None:
        """Show an approval, or once more what its cards say; nothing without a channel."""
        if self._targets:
            self.start(self._post, approval)

    def retire(self, approval: Approval) -> None:
        """A decision anywhere retires the cards everywhere."""
        self._recall(approval)
        for target in self._targets:
            target.retire(approval)

    def held(self) -> set[str]:
        """Return the approvals of which there is a card somewhere, or may be."""
        return {each for target in self._targets for each in target.held()}

    async def settle(self) -> None:
        """Wait for as long as cards get shown or retired, one within LEAVING."""
        while self._under_way:
            with anyio.move_on_after(LEAVING) as patience:
                await self._progress.wait()
            if patience.cancelled_caught:
                return

    def start(self, fn: Callable[..., Awaitable[None]], /, *args: object) -> None:
        """Start a task that `settle` waits for, and that ends with the others."""
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

    def _recall(self, approval: Approval) -> None:
        """Let the channels know what an earlier process left (R3)."""
        if (approval.shown or self._keeps_cards) and not any(target.knows(approval.id) for target in self._targets):
            left = self._host.find_left(approval)
            for target in self._targets:
                if target.name in left:
                    target.recall(approval.id, left[target.name])

    def _is_decided(self, approval: Approval) -> bool:
        now = self._host.read(approval)
        return now is None or now.status != "pending"
