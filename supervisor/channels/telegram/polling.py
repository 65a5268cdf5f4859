"""Fetches what Telegram sends, by long polling, and confirms it.

Theory: Telegram keeps an update until it is confirmed, by asking for later ones. So an update is confirmed only when
what it says is on disk: a process that dies before gets it again, and one that dies afterwards has it.

Rules
- Updates are taken in their order. One that cannot be written to the store is tried again until it can be.
- The first updates that a process gets may have been taken by an earlier one; they are marked as such.
- Only one program can fetch a bot's updates. If another one does, the log says so, and this one goes on trying.
- An offset is sent once, to confirm. Telegram may begin to number anew after a week without updates, so an old offset
  would hide the new ones.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import msgspec

from supervisor.channels.telegram import updates
from supervisor.channels.telegram.bot_api import BotApi, TelegramRefused
from supervisor.core.errors import StoreError
from supervisor.system.logs import FactLog

log = FactLog(__name__)

HOLD_SECONDS: Final = 50
"""Seconds for which Telegram holds its answer while there is nothing to send."""
SELDOM_SECONDS: Final = 30.0
CLOSING_SECONDS: Final = 2.0  # seconds that confirming may take when the channel closes
REMEMBERED: Final = 1000  # updates that this process has taken

Take = Callable[[Any, bool], Awaitable[None]]
"""Takes an update. The second argument: whether an earlier process may have taken it. Raises StoreError."""


class Polling:
    """Fetches updates. `failure`: why the last try failed, None if it did not."""

    again_in: float = 1.0
    """Seconds until the next try after a failure; doubled each time."""

    def __init__(self, api: BotApi) -> None:
        self._api = api
        self._taken: deque[int] = deque(maxlen=REMEMBERED)
        self._unconfirmed: int | None = None
        self.failure: str | None = None

    async def run(self, take: Take) -> None:
        """Fetch updates and give them to `take`, until cancelled."""
        is_first, wait = True, self.again_in
        try:
            while True:
                try:
                    found = await self._fetch(0 if is_first or self.failure else HOLD_SECONDS)
                except (TelegramRefused, OSError, msgspec.ValidationError) as error:
                    self.failure = str(error)
                    log.warning("telegram.not_fetched", error=str(error), again_in=wait)
                    await anyio.sleep(wait)
                    wait = min(SELDOM_SECONDS, 2 * wait)
                    continue
                self.failure, wait = None, self.again_in
                for update in found:
                    await self._take_one(take, update, is_again=is_first)
                is_first = False
        finally:
            await self._confirm()

    async def _fetch(self, hold: float) -> list[Any]:
        """Confirm what was taken, and return the next updates."""
        offset = {} if self._unconfirmed is None else {"offset": self._unconfirmed + 1}
        kinds = list(updates.ALLOWED)
        found = await self._api.call("getUpdates", wait=hold, timeout=int(hold), allowed_updates=kinds, **offset)
        self._unconfirmed = None
        return updates.batch(found)

    async def _take_one(self, take: Take, update: Any, *, is_again: bool) -> None:
        """Take an update, once it can be written."""
        number, wait = updates.number_of(update), self.again_in
        while number not in self._taken:
            try:
                await take(update, is_again)
                self._taken.append(number)
            except msgspec.ValidationError as error:
                log.warning("update.refused", channel="telegram", reason=str(error))
                self._taken.append(number)
            except StoreError as error:
                log.error("update.not_taken", channel="telegram", reason=str(error), again_in=wait)
                await anyio.sleep(wait)
                wait = min(SELDOM_SECONDS, 2 * wait)
        self._unconfirmed = number

    async def _confirm(self) -> None:
        """Confirm what was taken last, when the channel closes: otherwise the next process gets it again."""
        if self._unconfirmed is not None:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                try:
                    await self._api.call("getUpdates", offset=self._unconfirmed + 1, limit=1, timeout=0)
                except (TelegramRefused, OSError) as error:
                    log.warning("updates.not_confirmed", channel="telegram", error=str(error))
